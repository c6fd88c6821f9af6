//! Starts the server, shares a running one, and stops it after its last user.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::binaries::{self, Binaries};
use super::cluster::{self, SUPERUSER};
use super::leases::{self, ServerLease};
use super::postmaster::{self, Postmaster, PostmasterState};
use super::server_user::{ServerUser, run};
use super::{EmbeddedError, Options, access, settings};

const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(60);
const MIN_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_millis(200);
const LOG_NAME: &str = "server.log";
const LOG_LINES_IN_ERRORS: usize = 20;

/// A running server, and this process's lease on it.
///
/// If it is dropped without [`stop`](Postgres::stop), the server keeps running for the next process that uses its
/// directory.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use windlass::setup::embedded::{Options, Postgres};
///
/// let postgres = Postgres::start(&Options::new("/var/tmp/my-queue")?).await?;
/// println!("Postgres {} in {}", postgres.major_version(), postgres.data_dir().display());
/// println!("{} -d {}", postgres.bin_dir().join("psql").display(), postgres.url());
/// let settings = windlass::Settings::new(&postgres.database_url("app"))?;
/// # let _ = settings;
/// postgres.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Postgres {
    data_dir: PathBuf,
    binaries: Binaries,
    user: ServerUser,
    postmaster: Postmaster,
    lease: ServerLease,
}

impl Postgres {
    /// Starts a server on the data directory, or shares the one that already runs on it.
    pub async fn start(options: &Options) -> Result<Postgres, EmbeddedError> {
        let user = ServerUser::choose()?;
        let binaries = binaries::find(&options.source, &user).await?;
        let data_dir = cluster::resolve(&options.data_dir, &user)?;

        let lock = leases::lock(&data_dir).await?;
        cluster::prepare(&data_dir, &binaries, &user, &lock).await?;
        let lease = ServerLease::take(&data_dir, &lock)?;
        let start =
            Start { data_dir: &data_dir, settings: &options.settings, binaries: &binaries, user: &user };
        let has_new_rules = access::write(&data_dir, &user)?;
        let postmaster = start.share_or_launch().await?;
        if has_new_rules {
            start.reload().await?;
        }
        drop(lock);

        Ok(Postgres { data_dir, binaries, user, postmaster, lease })
    }

    /// The URL of the database `postgres` on this server, over its Unix socket.
    pub fn url(&self) -> String {
        self.database_url("postgres")
    }

    /// The URL of another database on this server, over its Unix socket.
    pub fn database_url(&self, name: &str) -> String {
        let database = percent_encode(name.as_bytes());
        let socket_dir = percent_encode(self.postmaster.socket_dir.as_os_str().as_bytes());
        format!("postgresql://{SUPERUSER}@/{database}?host={socket_dir}&port={}", self.postmaster.port)
    }

    /// Returns the directory of its programs.
    pub fn bin_dir(&self) -> &Path {
        &self.binaries.bin_dir
    }

    /// Returns its major version.
    pub fn major_version(&self) -> u32 {
        self.binaries.major_version
    }

    /// Returns its data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Releases the lease, and shuts the server down if it was the last one. Open connections are closed.
    pub async fn stop(self) -> Result<(), EmbeddedError> {
        let lock = leases::lock(&self.data_dir).await?;
        if !self.lease.was_the_last(&lock)? || !postmaster::is_alive(&self.data_dir) {
            return Ok(());
        }
        let mut command = self.user.command(&self.binaries.program("pg_ctl"));
        command.args(["stop", "--mode=fast", "--wait", "--silent"]).arg("--pgdata").arg(&self.data_dir);
        command.arg(format!("--timeout={}", STOP_LIMIT.as_secs()));
        run(command, STOP_LIMIT + Duration::from_secs(5)).await.map(drop)
    }
}

struct Start<'a> {
    data_dir: &'a Path,
    settings: &'a [(String, String)],
    binaries: &'a Binaries,
    user: &'a ServerUser,
}

impl Start<'_> {
    /// Checks the state again after every step: a server that a killed process left behind may start, stop or be in the
    /// way at any time.
    async fn share_or_launch(&self) -> Result<Postmaster, EmbeddedError> {
        let deadline = Instant::now() + START_LIMIT;
        let mut pause = MIN_PAUSE;
        loop {
            let state = postmaster::state(self.data_dir, self.user).await?;
            if let PostmasterState::Answering(postmaster) = state {
                return Ok(postmaster);
            }
            if Instant::now() > deadline {
                return Err(EmbeddedError::NotReady {
                    data_dir: self.data_dir.to_owned(),
                    seconds: START_LIMIT.as_secs(),
                    log: log_end(self.data_dir),
                });
            }
            if let PostmasterState::Absent = state {
                self.launch(deadline).await?;
            } else {
                sleep(pause).await;
                pause = (pause * 2).min(MAX_PAUSE);
            }
        }
    }

    /// `pg_ctl` starts the server in its own session and without a parent, so that it outlives us and is not our child.
    async fn launch(&self, deadline: Instant) -> Result<(), EmbeddedError> {
        settings::write(self.data_dir, self.settings, self.user)?;
        let log = self.data_dir.join(LOG_NAME);
        // One log per start: an error then contains the log of this start, and the log of a long-lived directory stays
        // small.
        let _ = fs::rename(&log, self.data_dir.join("server.log.old"));

        let remaining = deadline.saturating_duration_since(Instant::now()).as_secs().max(1);
        let mut command = self.user.command(&self.binaries.program("pg_ctl"));
        command.args(["start", "--wait", "--silent"]).arg(format!("--timeout={remaining}"));
        command.arg("--pgdata").arg(self.data_dir).arg("--log").arg(&log);
        match run(command, Duration::from_secs(remaining + 5)).await {
            Ok(_) => Ok(()),
            Err(EmbeddedError::CommandFailed { .. } | EmbeddedError::CommandTimedOut { .. })
                if self.may_still_start() =>
            {
                Ok(())
            }
            Err(EmbeddedError::CommandFailed { output, .. }) => {
                let log = Some(log_end(self.data_dir)).filter(|log| !log.is_empty()).unwrap_or(output);
                Err(EmbeddedError::DiedEarly { data_dir: self.data_dir.to_owned(), log })
            }
            Err(error) => Err(error),
        }
    }

    /// Makes a server that was already running reload the access rules.
    async fn reload(&self) -> Result<(), EmbeddedError> {
        let mut command = self.user.command(&self.binaries.program("pg_ctl"));
        command.args(["reload", "--silent"]).arg("--pgdata").arg(self.data_dir);
        run(command, START_LIMIT).await.map(drop)
    }

    /// The failures that another check or another attempt can resolve: a long recovery, a server of another process
    /// that was faster, or the last backends of a killed server.
    fn may_still_start(&self) -> bool {
        let log = log_end(self.data_dir);
        postmaster::is_alive(self.data_dir) || log.contains("pre-existing shared memory block")
    }
}

fn log_end(data_dir: &Path) -> String {
    let text = fs::read(data_dir.join(LOG_NAME)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_IN_ERRORS)..].join("\n")
}

fn percent_encode(bytes: &[u8]) -> String {
    let mut encoded = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => {
                encoded.push(char::from(*byte));
            }
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use tokio_postgres::Config;
    use tokio_postgres::config::Host;

    use super::percent_encode;

    #[test]
    fn an_unusual_socket_directory_round_trips_through_a_url() {
        let odd = "/tmp/a b&c?d=e%41/ü@:";
        let url =
            format!("postgresql://windlass@/postgres?host={}&port=5433", percent_encode(odd.as_bytes()));
        let config: Config = url.parse().unwrap();
        assert_eq!(config.get_hosts(), [Host::Unix(odd.into())]);
        assert_eq!(config.get_ports(), [5433]);
    }
}
