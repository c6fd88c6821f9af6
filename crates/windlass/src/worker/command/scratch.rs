//! The working directory of a command that specifies none: empty and private.
//!
//! Creating and removing one took a quarter of a supervisor's work for a short command. Most commands leave nothing in
//! it, so the next command of the same user gets the same one if it is unchanged.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::message::Order;

/// Accessible only to its owner; includes the file type, as the file system returns it.
const MODE: u32 = 0o040_700;

#[derive(Debug, Default)]
pub(crate) struct Scratch {
    made: Option<MadeDirectory>,
}

#[derive(Debug)]
struct MadeDirectory {
    path: PathBuf,
    user: Option<(u32, u32)>,
    owner: u32,
}

impl Scratch {
    /// Returns an empty directory for the order's user.
    pub(crate) fn ready(&mut self, order: &Order) -> io::Result<&Path> {
        if self.made.as_ref().is_some_and(|made| made.user != order.user) {
            self.remove();
        }
        if self.made.is_none() {
            self.made = Some(MadeDirectory::make(order)?);
        }
        self.made.as_ref().map(|made| made.path.as_path()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// After a command: removes the directory if it has changed.
    pub(crate) fn clear(&mut self) {
        if self.made.as_ref().is_some_and(|made| !made.is_untouched()) {
            self.remove();
        }
    }

    fn remove(&mut self) {
        if let Some(made) = self.made.take() {
            // A directory that cannot be removed is left to the machine's cleaning of temporary files.
            let _ = fs::remove_dir(&made.path).or_else(|_| fs::remove_dir_all(&made.path));
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.remove();
    }
}

impl MadeDirectory {
    fn make(order: &Order) -> io::Result<Self> {
        let path = Path::new(&order.scratch).join(format!("windlass-{}", uuid::Uuid::new_v4().simple()));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        let owner = order.user.map_or_else(|| rustix::process::geteuid().as_raw(), |(uid, _)| uid);
        if let Some((uid, gid)) = order.user
            && let Err(error) = std::os::unix::fs::chown(&path, Some(uid), Some(gid))
        {
            let _ = fs::remove_dir(&path);
            return Err(error);
        }
        Ok(Self { path, user: order.user, owner })
    }

    /// Still a directory, closed to others and empty.
    fn is_untouched(&self) -> bool {
        let is_ours =
            fs::symlink_metadata(&self.path).is_ok_and(|now| now.mode() == MODE && now.uid() == self.owner);
        is_ours && fs::read_dir(&self.path).is_ok_and(|mut entries| entries.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn order() -> Order {
        let scratch = std::env::temp_dir().to_string_lossy().into_owned();
        serde_json::from_value(serde_json::json!({
            "argv": ["/bin/true"], "env": [], "cwd": null, "scratch": scratch, "user": null,
            "limits": {"memory": null, "cpu_seconds": null, "processes": null, "open_files": null, "file_size": null},
            "has_stdin": false, "has_report": false, "grace_ms": 0, "timeout_at": 0,
            "lease": {"stop_at": 0, "kill_at": 0}
        }))
        .unwrap()
    }

    /// The next command never finds files of the previous one.
    #[test]
    fn a_directory_is_reused_only_if_it_is_unchanged() {
        let mut scratch = Scratch::default();
        let first = scratch.ready(&order()).unwrap().to_owned();
        scratch.clear();
        assert_eq!(scratch.ready(&order()).unwrap(), first);

        fs::write(first.join("left"), "behind").unwrap();
        scratch.clear();
        assert!(!first.exists());
        let second = scratch.ready(&order()).unwrap().to_owned();
        assert_ne!(second, first);

        fs::set_permissions(&second, fs::Permissions::from_mode(0o777)).unwrap();
        scratch.clear();
        assert!(!second.exists(), "opened to others");

        let third = scratch.ready(&order()).unwrap().to_owned();
        fs::remove_dir(&third).unwrap();
        std::os::unix::fs::symlink("/", &third).unwrap();
        scratch.clear();
        assert!(fs::symlink_metadata(&third).is_err(), "the link was removed, and not its target");
        let fourth = scratch.ready(&order()).unwrap().to_owned();
        drop(scratch);
        assert!(!fourth.exists());
    }
}
