//! The shim's end of the connection to the worker.

use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::message::{self, FromShim, ToShim};

/// The maximum number of descriptors of one order.
pub(crate) const MAX_DESCRIPTORS: usize = 4;

pub(crate) struct Link {
    socket: UnixStream,
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Link {
    pub(crate) fn new(socket: UnixStream) -> Self {
        Self { socket, bytes: Vec::new(), descriptors: Vec::new() }
    }

    pub(crate) fn socket(&self) -> &UnixStream {
        &self.socket
    }

    pub(crate) fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.descriptors)
    }

    /// Waits for the next message; `None` once the worker has closed the connection.
    pub(crate) fn wait(&mut self) -> io::Result<Option<ToShim>> {
        loop {
            if let Some(message) = message::take(&mut self.bytes)? {
                return Ok(Some(message));
            }
            if self.receive(RecvFlags::empty())? == 0 {
                return Ok(None);
            }
        }
    }

    /// Returns the next message if there is one; an error once the worker has closed the connection.
    pub(crate) fn poll(&mut self) -> io::Result<Option<ToShim>> {
        loop {
            if let Some(message) = message::take(&mut self.bytes)? {
                return Ok(Some(message));
            }
            match self.receive(RecvFlags::DONTWAIT) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a message. That the worker has exited is detected by reading. A suspended worker must not block the shim:
    /// its messages are few and small, and fit the socket's buffer.
    pub(crate) fn say(&mut self, message: &FromShim) {
        if let Ok(frame) = message::frame(message) {
            let _ = self.socket.write_all(&frame);
        }
    }

    fn receive(&mut self, flags: RecvFlags) -> io::Result<usize> {
        let mut piece = [0_u8; 16 * 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let into = &mut [IoSliceMut::new(&mut piece)];
            match recvmsg(&self.socket, into, &mut control, flags | RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                received => break received?,
            }
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        self.bytes.extend_from_slice(&piece[..received.bytes]);
        Ok(received.bytes)
    }
}
