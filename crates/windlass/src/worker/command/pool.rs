//! The supervising processes of one worker: started when needed, reused, and stopped with the worker.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Stdio;

use parking_lot::Mutex;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use super::link::MAX_DESCRIPTORS;
use super::message::{self, FromShim, Order, ToShim};
use super::{shim, sweep};

#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: Mutex<Vec<Shim>>,
}

impl Pool {
    /// Returns an idle supervisor.
    pub(crate) fn take(&self) -> io::Result<Shim> {
        loop {
            let idle = self.idle.lock().pop();
            let Some(mut shim) = idle else { return Shim::start() };
            // It may have been killed while it was idle.
            if matches!(shim.child.try_wait(), Ok(None)) {
                return Ok(shim);
            }
        }
    }

    pub(crate) fn give_back(&self, shim: Shim) {
        self.idle.lock().push(shim);
    }
}

/// One supervisor. Dropping it closes the connection; it then ends its command and exits.
#[derive(Debug)]
pub(crate) struct Shim {
    child: Child,
    pub(crate) pid: i32,
    stream: UnixStream,
    received: Vec<u8>,
}

impl Shim {
    fn start() -> io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        // This path refers to the running program, even if its file was replaced meanwhile.
        let child = Command::new("/proc/self/exe")
            .arg(shim::ARGUMENT)
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0);
        Ok(Self { child, pid, stream: UnixStream::from_std(ours)?, received: Vec::new() })
    }

    pub(crate) async fn order(&mut self, order: Order, descriptors: &[OwnedFd]) -> io::Result<()> {
        let frame = message::frame(&ToShim::Run(Box::new(order)))?;
        let fds: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        let stream = &self.stream;
        let sent = stream
            .async_io(Interest::WRITABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
                    return Err(io::Error::other("too many descriptors"));
                }
                Ok(sendmsg(stream, &[IoSlice::new(&frame)], &mut control, SendFlags::NOSIGNAL)?)
            })
            .await?;
        self.stream.write_all(&frame[sent..]).await
    }

    pub(crate) async fn say(&mut self, message: &ToShim) -> io::Result<()> {
        self.stream.write_all(&message::frame(message)?).await
    }

    /// Receives the next message; returns an error once the shim has exited. Cancel-safe.
    pub(crate) async fn receive(&mut self) -> io::Result<FromShim> {
        loop {
            if let Some(message) = message::take(&mut self.received)? {
                return Ok(message);
            }
            self.stream.readable().await?;
            let mut piece = [0; 4096];
            match self.stream.try_read(&mut piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.received.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Kills a supervisor that has exited or does not respond, and all of its descendants.
    pub(crate) async fn destroy(mut self, command: Option<i32>) {
        let pid = self.pid;
        // Fails only after a panic, and the sweep does not panic.
        let _ = tokio::task::spawn_blocking(move || sweep::kill_session(pid, command)).await;
        let _ = self.child.start_kill();
        let _ = self.child.wait().await;
    }
}
