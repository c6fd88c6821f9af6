//! A Postgres cluster of the harness alone: with its own port and data directory, so that it can be killed, restarted and filled.
//!
//! As root the data directory is on a small file system of its own (tmpfs), so that a full disk is a real one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::process::Command;
use tokio_postgres::Client;
use windlass::setup::embedded::ServerSource;

use super::slot::{Program, Role, Slot};
use crate::Result;
use crate::database::connect;

#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) port: u16,
    pub(crate) data: PathBuf,
    /// Whether the data directory is a file system of its own.
    pub(crate) is_mounted: bool,
    bin: PathBuf,
    user: Option<String>,
    sockets: PathBuf,
}

/// The name of the superuser and of the database.
const NAME: &str = "windlass";
const START_LIMIT: Duration = Duration::from_secs(60);
/// Of the file system of the data, besides what the jobs need.
const BASE_MEGABYTES: u64 = 1024;
const BYTES_PER_JOB: u64 = 4096;

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.is_mounted {
            // Lazily: a process that is about to end may still use it.
            let _ = std::process::Command::new("umount").arg("--lazy").arg(&self.data).status();
        }
    }
}

impl Cluster {
    pub(crate) async fn create(directory: &Path, jobs: u64) -> Result<Self> {
        let bin = ServerSource::System.bin_dir().await?;
        let is_root = rustix::process::geteuid().is_root();
        let user = is_root.then(|| "postgres".to_owned());
        let (data, sockets) = (directory.join("data"), directory.join("sockets"));
        for directory in [&data, &sockets] {
            fs::create_dir_all(directory)?;
        }
        let mut cluster = Self { port: free_port()?, data, is_mounted: false, bin, user, sockets };
        if is_root {
            let megabytes = BASE_MEGABYTES + jobs * BYTES_PER_JOB / (1 << 20);
            let options = format!("size={megabytes}m,uid=postgres,gid=postgres,mode=0700");
            cluster.is_mounted =
                run("mount", &["-t", "tmpfs", "-o", &options, "windlass-soak", text(&cluster.data)?])
                    .await
                    .is_ok();
            run("chown", &["postgres:postgres", text(&cluster.data)?, text(&cluster.sockets)?]).await?;
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
        }
        let initdb = cluster.bin.join("initdb");
        let mut words =
            vec![text(&initdb)?, "-D", text(&cluster.data)?, "-U", NAME, "-A", "trust", "-E", "UTF8"];
        words.extend(["--locale=C", "--no-sync"]);
        match &cluster.user {
            Some(user) => {
                let mut as_user = vec!["--reuid", user, "--regid", user, "--clear-groups", "--"];
                as_user.append(&mut words);
                run("setpriv", &as_user).await?;
            }
            None => run(words[0], &words[1..]).await?,
        }
        Ok(cluster)
    }

    /// Its safety settings are the defaults: fsync, full_page_writes and synchronous_commit are on.
    pub(crate) fn slot(&self, log: PathBuf) -> Result<Slot> {
        let mut arguments = vec!["-D".to_owned(), text(&self.data)?.to_owned()];
        let (port, sockets) = (self.port.to_string(), text(&self.sockets)?);
        for (name, value) in [
            ("port", port.as_str()),
            ("listen_addresses", "127.0.0.1"),
            ("unix_socket_directories", sockets),
            ("max_connections", "150"),
            ("superuser_reserved_connections", "10"),
            ("max_wal_size", "256MB"),
            ("checkpoint_timeout", "60s"),
            // A connection whose first message was lost keeps the server from recovering after a crash for as long.
            ("authentication_timeout", "5s"),
            ("log_line_prefix", "%m [%p] %a "),
        ] {
            arguments.extend(["-c".to_owned(), format!("{name}={value}")]);
        }
        let path = self.bin.join("postgres");
        let program = Program { path, arguments, environment: Vec::new(), user: self.user.clone() };
        Ok(Slot::new("postgres", Role::Postgres, program, log))
    }

    /// Directly, or through the proxy that listens on this port. A statement that never ends would be a fault that nobody injected.
    pub(crate) fn url(&self, port: u16) -> String {
        format!("postgresql://{NAME}@127.0.0.1:{port}/{NAME}?sslmode=disable&connect_timeout=5")
    }

    /// A connection that no fault of the network affects.
    pub(crate) async fn client(&self) -> Result<Client> {
        connect(&self.url(self.port)).await
    }

    /// Waits until it accepts connections. Returns an error if it does not within a minute.
    pub(crate) async fn ready(&self) -> Result<Client> {
        let began = Instant::now();
        loop {
            let url = self.url(self.port);
            let connected = match connect(&url).await {
                Ok(client) => client.batch_execute("select 1").await.map(|()| client).map_err(Into::into),
                Err(error) => Err(error),
            };
            match connected {
                Ok(client) => return Ok(client),
                Err(error) if began.elapsed() > START_LIMIT => {
                    return Err(format!("Postgres is not ready after {START_LIMIT:?}: {error}").into());
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Before anything uses it: the database in which everything is.
    pub(crate) async fn create_database(&self) -> Result<()> {
        let began = Instant::now();
        let url = self.url(self.port).replace(&format!("/{NAME}?"), "/postgres?");
        loop {
            match connect(&url).await {
                Ok(client) => return Ok(client.batch_execute(&format!("create database {NAME}")).await?),
                Err(error) if began.elapsed() > START_LIMIT => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| format!("{} is not valid UTF-8", path.display()).into())
}

async fn run(program: &str, words: &[&str]) -> Result<()> {
    let output = Command::new(program).args(words).output().await?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)).into())
}
