//! Files in the data directory that only their owner can read.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::cli::exit::Failure;

/// Created with its mode, so that nobody else can ever read it; an existing file is replaced, so that its mode does not matter.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let create = || {
        let _ = fs::remove_file(path);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        writeln!(file, "{text}")
    };
    create()
        .map_err(|error: std::io::Error| Failure::usage(format!("cannot write {}: {error}", path.display())))
}

/// The URL of the Postgres that `windlass up` started, for the commands that use the database directly. The file exists as long
/// as this value.
pub(super) struct DatabaseUrlFile(PathBuf);

impl DatabaseUrlFile {
    pub(super) fn create(directory: &Path, url: &str) -> Result<Self, Failure> {
        let path = directory.join("database-url");
        write(&path, url)?;
        Ok(Self(path))
    }
}

impl Drop for DatabaseUrlFile {
    fn drop(&mut self) {
        // The next start replaces it.
        let _ = fs::remove_file(&self.0);
    }
}
