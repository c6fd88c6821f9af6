//! The user that runs the server: the current one, or an unprivileged one, because Postgres does not run as root.
//!
//! A uid without an account is never used: Postgres looks up its own user and fails without an entry.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::EmbeddedError;

#[derive(Clone, Debug)]
pub(super) enum ServerUser {
    Ourselves { uid: u32 },
    Other { name: String, uid: u32, gid: u32 },
}

impl ServerUser {
    pub(super) fn choose() -> Result<ServerUser, EmbeddedError> {
        let uid = rustix::process::geteuid();
        if !uid.is_root() {
            return Ok(ServerUser::Ourselves { uid: uid.as_raw() });
        }
        let path = Path::new("/etc/passwd");
        let accounts = fs::read_to_string(path).map_err(EmbeddedError::io("read", path))?;
        find_account(&accounts, "postgres")
            .or_else(|| find_account(&accounts, "nobody"))
            .ok_or(EmbeddedError::NoServerUser)
    }

    pub(super) fn uid(&self) -> u32 {
        match self {
            ServerUser::Ourselves { uid } | ServerUser::Other { uid, .. } => *uid,
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            ServerUser::Ourselves { uid } => format!("uid {uid}"),
            ServerUser::Other { name, .. } => name.clone(),
        }
    }

    /// A program of Postgres, run as this user without our environment: a stray `PGDATA`, `PGOPTIONS` or `LC_ALL` would
    /// change its behavior.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let mut path = program.parent().map(|bin| bin.as_os_str().to_owned()).unwrap_or_default();
        path.push(":/usr/bin:/bin");
        command
            .env_clear()
            .env("PATH", path)
            .env("HOME", "/")
            .env("LANG", "C")
            .env("LC_ALL", "C")
            .current_dir("/");
        if let ServerUser::Other { uid, gid, .. } = self {
            command.uid(*uid).gid(*gid);
        }
        command
    }

    pub(super) fn take_ownership_of(&self, path: &Path) -> Result<(), EmbeddedError> {
        match self {
            ServerUser::Ourselves { .. } => Ok(()),
            ServerUser::Other { uid, gid, .. } => {
                chown(path, Some(*uid), Some(*gid)).map_err(EmbeddedError::io("change the owner of", path))
            }
        }
    }

    /// Reports the directory that is not accessible; Postgres would only report "permission denied" for the whole path.
    pub(super) fn check_can_enter(&self, path: &Path) -> Result<(), EmbeddedError> {
        match self.first_closed_directory(path) {
            Some(directory) => Err(EmbeddedError::NotTraversable { directory, user: self.name() }),
            None => Ok(()),
        }
    }

    pub(super) fn first_closed_directory(&self, path: &Path) -> Option<PathBuf> {
        let ServerUser::Other { uid, gid, .. } = self else { return None };
        let mut ancestors: Vec<&Path> = path.ancestors().collect();
        ancestors.reverse();
        ancestors
            .into_iter()
            .filter_map(|directory| Some((directory, fs::metadata(directory).ok()?)))
            .find(|(_, metadata)| metadata.is_dir() && !may_enter(metadata, *uid, *gid))
            .map(|(directory, _)| directory.to_owned())
    }
}

/// Runs a command to its end and returns its standard output. If it is canceled, the command is killed.
pub(super) async fn run(mut command: Command, limit: Duration) -> Result<String, EmbeddedError> {
    let program = PathBuf::from(command.as_std().get_program());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = match timeout(limit, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(source)) => return Err(EmbeddedError::CannotRun { program, source }),
        Err(_) => return Err(EmbeddedError::CommandTimedOut { program, seconds: limit.as_secs() }),
    };
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let output_text = format!("{}\n{}", stderr.trim(), stdout.trim());
    Err(EmbeddedError::CommandFailed {
        program,
        status: output.status,
        output: output_text.trim().to_owned(),
    })
}

fn find_account(accounts: &str, wanted: &str) -> Option<ServerUser> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| *name == wanted)?;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(ServerUser::Other { name: name.to_owned(), uid, gid })
    })
}

/// The server's user gets its primary group only, so other memberships do not count.
fn may_enter(directory: &Metadata, uid: u32, gid: u32) -> bool {
    let mode = directory.permissions().mode();
    let execute = if directory.uid() == uid {
        0o100
    } else if directory.gid() == gid {
        0o010
    } else {
        0o001
    };
    mode & execute != 0
}

#[cfg(test)]
mod tests {
    use super::{ServerUser, find_account};

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let accounts =
            "root:x:0:0:root:/root:/bin/bash\npostgres2:x:7:8::/:/bin/sh\nnobody:x:65534:65533::/:/bin/sh\n";
        assert!(find_account(accounts, "postgres").is_none());
        let nobody = find_account(accounts, "nobody").unwrap();
        assert!(matches!(nobody, ServerUser::Other { uid: 65534, gid: 65533, .. }));
    }
}
