//! The state of the server on a data directory, seen from outside: its `postmaster.pid`, its process, and whether it
//! accepts connections.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, NoTls};

use super::EmbeddedError;
use super::cluster::SUPERUSER;
use super::server_user::ServerUser;

/// The maximum process id of Linux is 2^22, so no process has this one.
const NOBODYS_PID: &str = "4194305";

const RESPONSE_LIMIT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(super) struct Postmaster {
    pub(super) port: u16,
    pub(super) socket_dir: PathBuf,
}

pub(super) enum PostmasterState {
    Absent,
    /// Starting, recovering or shutting down.
    Silent,
    Answering(Postmaster),
}

pub(super) async fn state(data_dir: &Path, user: &ServerUser) -> Result<PostmasterState, EmbeddedError> {
    let file = pid_file(data_dir);
    let Ok(text) = fs::read_to_string(&file) else { return Ok(PostmasterState::Absent) };
    let Some(pid) = first_line_pid(&text) else { return Ok(PostmasterState::Absent) };
    if let Some(postmaster) = parse(&text)
        && responds(&postmaster).await
    {
        return Ok(PostmasterState::Answering(postmaster));
    }
    match process(pid) {
        PidOwner::Gone => Ok(PostmasterState::Absent),
        PidOwner::Postgres => Ok(PostmasterState::Silent),
        PidOwner::Impostor => {
            clear_stale_pid(&file, &text, user)?;
            Ok(PostmasterState::Absent)
        }
    }
}

/// Whether the process of the server exists, responding or not.
pub(super) fn is_alive(data_dir: &Path) -> bool {
    let pid = fs::read_to_string(pid_file(data_dir)).ok().and_then(|text| first_line_pid(&text));
    pid.is_some_and(|pid| matches!(process(pid), PidOwner::Postgres))
}

/// The file is written in steps while the server starts, and can be used when it contains the socket directory.
fn parse(text: &str) -> Option<Postmaster> {
    let lines: Vec<&str> = text.lines().collect();
    let [_pid, _data_dir, _started, port, socket_dir, ..] = lines[..] else { return None };
    if socket_dir.is_empty() {
        return None;
    }
    Some(Postmaster { port: port.trim().parse().ok()?, socket_dir: PathBuf::from(socket_dir) })
}

fn first_line_pid(text: &str) -> Option<Pid> {
    text.lines().next()?.trim().parse().ok().and_then(Pid::from_raw)
}

fn pid_file(data_dir: &Path) -> PathBuf {
    data_dir.join("postmaster.pid")
}

async fn responds(postmaster: &Postmaster) -> bool {
    let mut config = Config::new();
    config
        .user(SUPERUSER)
        .dbname("postgres")
        .host_path(&postmaster.socket_dir)
        .port(postmaster.port)
        .connect_timeout(RESPONSE_LIMIT);
    // A successful connection is enough; nothing is sent on it. A server without free connections is running, too.
    match tokio::time::timeout(RESPONSE_LIMIT, config.connect(NoTls)).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS),
        Err(_) => false,
    }
}

enum PidOwner {
    Gone,
    Postgres,
    /// The process id is in use, but not by a running Postgres: reused, or dead and never reaped.
    Impostor,
}

fn process(pid: Pid) -> PidOwner {
    let command_line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
    if let Err(rustix::io::Errno::SRCH) = test_kill_process(pid) {
        return PidOwner::Gone;
    }
    // If /proc does not show processes of other users, trust the process id, as Postgres does.
    let Ok(command_line) = command_line else { return PidOwner::Postgres };
    let program = command_line.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    // Between fork and exec, the server is still pg_ctl or the shell in which pg_ctl starts it, but then it has not
    // written its process id yet. A zombie has no command line.
    if name.starts_with(b"postgres") || name.starts_with(b"postmaster") {
        PidOwner::Postgres
    } else {
        PidOwner::Impostor
    }
}

/// Postgres refuses to start while the process id in its file belongs to any live process of its user, and a container
/// whose first process does not reap children keeps the id of a killed server forever. Only the id is replaced: with
/// the rest of the file Postgres detects whether old backends still use the shared memory, which protects the data.
fn clear_stale_pid(file: &Path, text: &str, user: &ServerUser) -> Result<(), EmbeddedError> {
    let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
    let replacement = file.with_extension("pid.new");
    fs::write(&replacement, format!("{NOBODYS_PID}\n{rest}"))
        .map_err(EmbeddedError::io("write", &replacement))?;
    user.take_ownership_of(&replacement)?;
    fs::rename(&replacement, file).map_err(EmbeddedError::io("replace", file))?;
    match parse(text) {
        Some(postmaster) => remove_socket_lock(&postmaster, text),
        None => Ok(()),
    }
}

/// The socket has a lock file with the same process id, which protects only the name of the socket.
fn remove_socket_lock(postmaster: &Postmaster, text: &str) -> Result<(), EmbeddedError> {
    let lock = postmaster.socket_dir.join(format!(".s.PGSQL.{}.lock", postmaster.port));
    let holder = fs::read_to_string(&lock).ok().and_then(|text| first_line_pid(&text));
    if holder.is_none() || holder != first_line_pid(text) {
        return Ok(());
    }
    fs::remove_file(&lock).map_err(EmbeddedError::io("remove", &lock))
}

#[cfg(test)]
mod tests {
    use super::{PathBuf, parse};

    #[test]
    fn a_pid_file_is_valid_once_it_names_the_socket_directory() {
        let whole = "4711\n/data\n1700000000\n5433\n/data\n127.0.0.1\n  5433001   0\nready   \n";
        let postmaster = parse(whole).unwrap();
        assert_eq!(postmaster.port, 5433);
        assert_eq!(postmaster.socket_dir, PathBuf::from("/data"));
        assert!(parse("4711\n/data\n1700000000\n5433\n").is_none());
        assert!(parse("").is_none());
    }
}
