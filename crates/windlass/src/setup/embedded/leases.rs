//! Locks of a data directory: who may change it, and who uses its server.
//!
//! Two lock files are next to the data directory, not in it, because it does not exist before the first start:
//! - `<data_dir>.lock` is held exclusively while a server is created, started or stopped;
//! - `<data_dir>.users` is held in shared mode by every user of the running server.
//!
//! Both are `flock`s: the kernel releases them when a process dies for any reason, so there is nothing to clean up. The
//! files are never removed; if they were, two processes could lock two different files.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::EmbeddedError;

/// The right to create, start or stop the server; released when dropped.
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

/// The lease of one user, which keeps the server running.
#[derive(Debug)]
pub(super) struct ServerLease {
    file: File,
    path: PathBuf,
}

impl ServerLease {
    /// Only while holding the lock of the directory, so that the server cannot be stopped meanwhile.
    pub(super) fn take(data_dir: &Path, _lock: &Exclusive) -> Result<ServerLease, EmbeddedError> {
        let path = beside(data_dir, ".users");
        let file = open(&path)?;
        file.lock_shared().map_err(EmbeddedError::io("lock", &path))?;
        Ok(ServerLease { file, path })
    }

    /// Releases the lease and returns whether it was the last one.
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

/// The path of the data directory with a suffix added to its last part.
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
