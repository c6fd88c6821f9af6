//! Where the servers of the tests keep their data: in memory if there is room, otherwise under `target/`.
//!
//! Tests create and drop more than a thousand databases of 600 files each. A file system on a disk takes longer for that than the
//! tests for everything else.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process};

const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "windlass-test-postgres-";
/// A link to the checkout's target directory.
const CHECKOUT: &str = "checkout";
/// What a whole run needs, several times over.
const ENOUGH: u64 = 4 << 30;

/// `target/test-postgres`, which is a link if the data is in memory.
pub(crate) fn directory() -> PathBuf {
    let link = target_dir().join("test-postgres");
    if link.is_dir() {
        return link;
    }
    // After a restart of the machine, the link points to nothing.
    if link.is_symlink() && !link.exists() {
        let _ = fs::remove_file(&link);
    }
    let free = rustix::fs::statvfs(MEMORY).map_or(0, |found| found.f_bavail * found.f_frsize);
    let target = fs::canonicalize(target_dir());
    let (Ok(target), true) = (target, free >= ENOUGH) else { return link };
    remove_abandoned();
    let mut hasher = DefaultHasher::new();
    (&target, rustix::process::getuid().as_raw()).hash(&mut hasher);
    let memory = Path::new(MEMORY).join(format!("{PREFIX}{:016x}", hasher.finish()));
    // Tests start at the same time: all of them make the same directory and the same links.
    if fs::create_dir_all(&memory).is_ok() {
        let _ = symlink(&target, memory.join(CHECKOUT));
        let _ = symlink(&memory, &link);
    }
    link
}

/// Stops the servers, and deletes the data, of this user's checkouts that no longer exist.
fn remove_abandoned() {
    for memory in fs::read_dir(MEMORY).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let is_ours = memory.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
            && fs::metadata(&memory).is_ok_and(|found| found.uid() == rustix::process::getuid().as_raw());
        // A directory without the link is just being made.
        let checkout = memory.join(CHECKOUT);
        if !is_ours || !checkout.is_symlink() || checkout.exists() {
            continue;
        }
        for data in fs::read_dir(&memory).into_iter().flatten().flatten() {
            let _ = server_of(&data.path()).map(|server| kill_process(server, Signal::QUIT));
        }
        let _ = fs::remove_dir_all(&memory);
    }
}

/// Whether a server runs in this data directory and accepts connections: the eighth line of its file says so.
pub(crate) fn is_ready(data: &Path) -> bool {
    let file = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    file.lines().nth(7).is_some_and(|status| status.trim() == "ready") && server_of(data).is_some()
}

/// The process of the server that runs in this data directory. The number in its file may since belong to another program.
fn server_of(data: &Path) -> Option<Pid> {
    let file = fs::read_to_string(data.join("postmaster.pid")).ok()?;
    let number: i32 = file.lines().next()?.trim().parse().ok()?;
    let runs_in = fs::read_link(format!("/proc/{number}/cwd")).ok()?;
    if runs_in == data { Pid::from_raw(number) } else { None }
}

fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => PathBuf::from(directory),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
    }
}
