//! The name of a process in the database.

use uuid::Uuid;

/// `hostname:pid:boot-uuid`: the uuid is new for every start, because hostnames and pids repeat.
pub(crate) fn new_worker_id(hostname: &str) -> String {
    format!("{hostname}:{}:{}", std::process::id(), Uuid::new_v4())
}

pub(crate) fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
