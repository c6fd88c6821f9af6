//! Where the servers of the tests keep their data: in memory if there is room, otherwise under `target/`.
//!
//! Tests create and drop more than a thousand databases of 600 files each. A file system on a disk takes longer for that than the
//! tests for everything else.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process};

const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "windlass-test-postgres-";
/// What a whole run needs, several times over.
const ENOUGH: u64 = 4 << 30;

/// `target/test-postgres`, which is a link if the data is in memory.
pub(crate) fn directory() -> PathBuf {
    let link = target_dir().join("test-postgres");
    if link.is_dir() {
        return link;
    }
    let free = rustix::fs::statvfs(MEMORY).map_or(0, |found| found.f_bavail * found.f_frsize);
    if free < ENOUGH {
        return link;
    }
    remove_abandoned();
    // Tests start at the same time: all of them make the same directory and the same link.
    let (target, name) = (fs::canonicalize(target_dir()).unwrap_or_default(), &mut DefaultHasher::new());
    (&target, rustix::process::getuid().as_raw()).hash(name);
    let memory = Path::new(MEMORY).join(format!("{PREFIX}{:016x}", name.finish()));
    let made = fs::create_dir_all(&memory)
        .and_then(|()| fs::write(memory.join("target"), target.as_os_str().as_encoded_bytes()));
    if made.is_ok() {
        let _ = std::os::unix::fs::symlink(&memory, &link); // made by another test already
    }
    link
}

/// Stops the servers, and deletes the data, of checkouts that no longer exist.
fn remove_abandoned() {
    for memory in fs::read_dir(MEMORY).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let is_ours = memory.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        let target = fs::read_to_string(memory.join("target"));
        if !is_ours || target.map_or(true, |target| Path::new(&target).exists()) {
            continue;
        }
        for data in fs::read_dir(&memory).into_iter().flatten().flatten() {
            let pid = fs::read_to_string(data.path().join("postmaster.pid"));
            let pid = pid.ok().and_then(|text| Pid::from_raw(text.lines().next()?.parse().ok()?));
            let _ = pid.map(|pid| kill_process(pid, Signal::QUIT));
        }
        let _ = fs::remove_dir_all(&memory);
    }
}

fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => PathBuf::from(directory),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
    }
}
