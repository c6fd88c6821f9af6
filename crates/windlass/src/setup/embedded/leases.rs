//! Who may touch a data directory now, and who is still using its server.
//!
//! Two lock files stand beside the data directory, not in it, because it does not exist before the first start:
//! - `<data_dir>.lock` is held alone while a server is made, started or stopped;
//! - `<data_dir>.users` is held shared by every user of the running server.
//!
//! Both are `flock`s: the kernel drops them when a process dies, however it dies, so there is nothing to clean up.
//! The files themselves are never removed; removing a lock file lets two holders lock two different files.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::EmbeddedError;

/// The right to make, start or stop the server; given up when dropped.
#[derive(Debug)]
pub(super) struct Exclusive {
    _file: File,
}

impl Exclusive {
    pub(super) async fn wait_for(path: PathBuf) -> Result<Exclusive, EmbeddedError> {
        let opened = open(&path)?;
        let locked = tokio::task::spawn_blocking(move || opened.lock().map(|()| opened)).await;
        let file = locked
            .unwrap_or_else(|panic| Err(io::Error::other(panic)))
            .map_err(EmbeddedError::io("lock", &path))?;
        Ok(Exclusive { _file: file })
    }
}

/// One user's claim that the server be kept running.
#[derive(Debug)]
pub(super) struct ServerLease {
    file: File,
    path: PathBuf,
}

impl ServerLease {
    /// Only while holding the directory's lock, so that nobody stops the server in between.
    pub(super) fn take(data_dir: &Path, _lock: &Exclusive) -> Result<ServerLease, EmbeddedError> {
        let path = beside(data_dir, ".users");
        let file = open(&path)?;
        file.lock_shared().map_err(EmbeddedError::io("lock", &path))?;
        Ok(ServerLease { file, path })
    }

    /// Gives the lease up and tells whether no other is left.
    pub(super) fn was_the_last(self, _lock: &Exclusive) -> Result<bool, EmbeddedError> {
        self.file.unlock().map_err(EmbeddedError::io("unlock", &self.path))?;
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(source)) => {
                Err(EmbeddedError::Io { attempt: "lock", path: self.path, source })
            }
        }
    }
}

pub(super) async fn lock(data_dir: &Path) -> Result<Exclusive, EmbeddedError> {
    Exclusive::wait_for(beside(data_dir, ".lock")).await
}

/// The data directory's path with something added to its last part.
pub(super) fn beside(data_dir: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(data_dir);
    name.push(suffix);
    PathBuf::from(name)
}

fn open(path: &Path) -> Result<File, EmbeddedError> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .map_err(EmbeddedError::io("open lock file", path))
}
