//! The settings of the server: a file that `postgresql.conf` includes, written again before each start.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::EmbeddedError;
use super::server_user::ServerUser;
use crate::text;

pub(super) const FILE_NAME: &str = "windlass.conf";

/// No TCP port is opened: the number is part of the name of the socket, and a URL has to contain it. A data directory
/// keeps its port, so that stored URLs stay valid.
const FIRST_PORT: u16 = 5432;

/// The path of a socket must fit into `sockaddr_un.sun_path`, with the terminating zero.
const MAX_SOCKET_PATH_LENGTH: usize = 107;
const MAX_SOCKET_NAME: &str = "/.s.PGSQL.65535.lock";
const MEGABYTE: u64 = 1024 * 1024;

pub(super) fn write(
    data_dir: &Path,
    extra: &[(String, String)],
    user: &ServerUser,
) -> Result<(), EmbeddedError> {
    let path = data_dir.join(FILE_NAME);
    let socket_dir = socket_dir(data_dir, user)?;
    let port = previous_port(&path).unwrap_or(FIRST_PORT);
    let ours = [
        ("listen_addresses", String::new()),
        ("port", port.to_string()),
        ("unix_socket_directories", quote_directory(&socket_dir)),
        ("unix_socket_permissions", "0700".to_owned()),
        ("max_connections", "200".to_owned()),
        ("shared_buffers", format!("{}MB", shared_buffers_megabytes(memory_bytes()))),
        ("min_wal_size", "512MB".to_owned()),
        ("max_wal_size", "4GB".to_owned()),
        ("checkpoint_timeout", "15min".to_owned()),
        ("log_line_prefix", "%m [%p] ".to_owned()),
    ];
    let mut text = String::from("# written by windlass before each start; changes here are lost\n");
    for (name, value) in &ours {
        add_line(&mut text, name, value);
    }
    for (name, value) in extra {
        if !is_setting_name(name) {
            return Err(EmbeddedError::InvalidSetting { name: name.clone() });
        }
        add_line(&mut text, name, value);
    }

    let partial = data_dir.join("windlass.conf.new");
    fs::write(&partial, text).map_err(EmbeddedError::io("write", &partial))?;
    user.take_ownership_of(&partial)?;
    fs::rename(&partial, &path).map_err(EmbeddedError::io("write", &path))
}

fn add_line(text: &mut String, name: &str, value: &str) {
    let value = value.replace('\\', "\\\\").replace('\'', "''").replace('\n', "\\n");
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{name} = '{value}'");
}

fn is_setting_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
        && !["include", "include_dir", "include_if_exists"].contains(&name)
}

/// The setting is a comma-separated list of names, so a path with a comma or a blank must be quoted.
fn quote_directory(directory: &Path) -> String {
    format!("\"{}\"", directory.to_string_lossy().replace('"', "\"\""))
}

/// The data directory itself, which is private to the server's user, unless its path is too long for a socket.
fn socket_dir(data_dir: &Path, user: &ServerUser) -> Result<PathBuf, EmbeddedError> {
    if data_dir.as_os_str().len() + MAX_SOCKET_NAME.len() <= MAX_SOCKET_PATH_LENGTH {
        return Ok(data_dir.to_owned());
    }
    let hash = text::hex(&Sha256::digest(data_dir.as_os_str().as_bytes()));
    let directory = PathBuf::from(format!("/tmp/windlass-{}-{}", user.uid(), &hash[..16]));
    if fs::symlink_metadata(&directory).is_err() {
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&directory)
            .map_err(EmbeddedError::io("create", &directory))?;
        user.take_ownership_of(&directory)?;
    }
    // Everyone can create names in /tmp, and the owner of the directory could impersonate the server.
    let metadata = fs::symlink_metadata(&directory).map_err(EmbeddedError::io("inspect", &directory))?;
    let is_private = metadata.permissions().mode() & 0o077 == 0;
    if !metadata.is_dir() || metadata.uid() != user.uid() || !is_private {
        return Err(EmbeddedError::SocketDirectoryTaken { directory, user: user.name() });
    }
    Ok(directory)
}

fn previous_port(settings_file: &Path) -> Option<u16> {
    let text = fs::read_to_string(settings_file).ok()?;
    text.lines().find_map(|line| line.strip_prefix("port = '")?.strip_suffix('\'')?.parse().ok())
}

/// An eighth of the memory, at most 1 GB.
fn shared_buffers_megabytes(memory_bytes: Option<u64>) -> u64 {
    memory_bytes.map_or(128, |bytes| (bytes / 8 / MEGABYTE).clamp(16, 1024))
}

/// The memory of this machine or its container, whichever is less.
fn memory_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kilobytes * 1024)
    });
    let container =
        fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    machine.into_iter().chain(container).min()
}

#[cfg(test)]
mod tests {
    use super::{MEGABYTE, add_line, is_setting_name, shared_buffers_megabytes};

    #[test]
    fn a_value_cannot_break_out_of_its_quotes() {
        let mut text = String::new();
        add_line(&mut text, "application_name", "it's\n\\fsync = off");
        assert_eq!(text, "application_name = 'it''s\\n\\\\fsync = off'\n");
    }

    #[test]
    fn a_setting_name_is_a_word_and_never_an_include() {
        assert!(is_setting_name("work_mem"));
        assert!(is_setting_name("auto_explain.log_min_duration"));
        for name in ["", "a b", "x = 1\ny", "include", "#x", "1x"] {
            assert!(!is_setting_name(name), "{name:?}");
        }
    }

    #[test]
    fn shared_buffers_follow_memory_up_to_a_gigabyte() {
        assert_eq!(shared_buffers_megabytes(Some(24_000 * MEGABYTE)), 1024);
        assert_eq!(shared_buffers_megabytes(Some(2_048 * MEGABYTE)), 256);
        assert_eq!(shared_buffers_megabytes(Some(1)), 16);
        assert_eq!(shared_buffers_megabytes(None), 128);
    }
}
