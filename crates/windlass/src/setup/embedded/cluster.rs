//! The data directory: which ones are accepted, and how a new one is created.
//!
//! A new one is created next to its final path and then renamed, so that a killed process leaves no partial data
//! directory. Everything here runs under the lock of the directory.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use uuid::Uuid;

use super::EmbeddedError;
use super::binaries::Binaries;
use super::leases::{Exclusive, beside};
use super::server_user::{ServerUser, run};
use super::settings;

/// The only role of a new cluster.
pub(super) const SUPERUSER: &str = "windlass";

const INITDB_LIMIT: Duration = Duration::from_secs(120);

/// Ensures that `data_dir` is a data directory of this version, or returns why it cannot be one.
pub(super) async fn prepare(
    data_dir: &Path,
    binaries: &Binaries,
    user: &ServerUser,
    _lock: &Exclusive,
) -> Result<(), EmbeddedError> {
    remove_abandoned(data_dir);
    match contents(data_dir)? {
        Contents::Nothing => create(data_dir, binaries, user).await,
        Contents::Foreign => Err(EmbeddedError::NotADataDirectory { data_dir: data_dir.to_owned() }),
        Contents::Cluster { version } if version != binaries.major_version.to_string() => {
            Err(EmbeddedError::OtherMajorVersion {
                data_dir: data_dir.to_owned(),
                data_version: version,
                server_version: binaries.major_version,
            })
        }
        Contents::Cluster { .. } => {
            check_owner(data_dir, user)?;
            check_made_by_us(data_dir)
        }
    }
}

/// The absolute path of a data directory without symlinks, with its parent created and accessible to the server's user.
/// Two spellings of the same path must result in the same lock file.
pub(super) fn resolve(data_dir: &Path, user: &ServerUser) -> Result<PathBuf, EmbeddedError> {
    let absolute = std::path::absolute(data_dir).map_err(EmbeddedError::io("find", data_dir))?;
    let resolved = match absolute.canonicalize() {
        Ok(existing) => existing,
        Err(_) => {
            let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
                return Err(EmbeddedError::NotADataDirectory { data_dir: absolute });
            };
            fs::create_dir_all(parent).map_err(EmbeddedError::io("create", parent))?;
            parent.canonicalize().map_err(EmbeddedError::io("find", parent))?.join(name)
        }
    };
    if let Some(parent) = resolved.parent() {
        user.check_can_enter(parent)?;
    }
    Ok(resolved)
}

enum Contents {
    Nothing,
    Foreign,
    Cluster { version: String },
}

fn contents(data_dir: &Path) -> Result<Contents, EmbeddedError> {
    let mut entries = match fs::read_dir(data_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::Nothing),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(Contents::Foreign),
        Err(error) => return Err(EmbeddedError::io("list", data_dir)(error)),
    };
    let version_file = data_dir.join("PG_VERSION");
    match fs::read_to_string(&version_file) {
        Ok(version) => Ok(Contents::Cluster { version: version.trim().to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match entries.next() {
            None => Ok(Contents::Nothing),
            Some(_) => Ok(Contents::Foreign),
        },
        Err(error) => Err(EmbeddedError::io("read", &version_file)(error)),
    }
}

fn check_owner(data_dir: &Path, user: &ServerUser) -> Result<(), EmbeddedError> {
    let owner = fs::metadata(data_dir).map_err(EmbeddedError::io("inspect", data_dir))?.uid();
    if owner != user.uid() {
        return Err(EmbeddedError::WrongOwner { data_dir: data_dir.to_owned(), owner, user: user.name() });
    }
    Ok(())
}

/// We replace the access rules, so a data directory that we did not create must not be served.
fn check_made_by_us(data_dir: &Path) -> Result<(), EmbeddedError> {
    let main_file = data_dir.join(MAIN_FILE);
    let text = fs::read_to_string(&main_file).map_err(EmbeddedError::io("read", &main_file))?;
    if text.lines().any(|line| line == include_line()) {
        return Ok(());
    }
    Err(EmbeddedError::NotOurs { data_dir: data_dir.to_owned() })
}

const MAIN_FILE: &str = "postgresql.conf";

fn include_line() -> String {
    format!("include '{}'", settings::FILE_NAME)
}

const PARTIAL: &str = ".initdb-";

async fn create(data_dir: &Path, binaries: &Binaries, user: &ServerUser) -> Result<(), EmbeddedError> {
    // A new name each time: an initdb whose parent was killed may still write to an older one.
    let partial = beside(data_dir, &format!("{PARTIAL}{}", Uuid::new_v4().simple()));
    let made = initdb(&partial, binaries, user).await.and_then(|()| put_in_place(&partial, data_dir));
    if made.is_err() {
        // Only the first error is reported; the next start removes the rest.
        let _ = fs::remove_dir_all(&partial);
    }
    made
}

async fn initdb(partial: &Path, binaries: &Binaries, user: &ServerUser) -> Result<(), EmbeddedError> {
    DirBuilder::new().mode(0o700).create(partial).map_err(EmbeddedError::io("create", partial))?;
    user.take_ownership_of(partial)?;
    let mut command = user.command(&binaries.program("initdb"));
    command
        .arg("--pgdata")
        .arg(partial)
        .args(["--username", SUPERUSER, "--locale=C", "--encoding=UTF8", "--data-checksums", "--auth=trust"])
        .arg("--no-instructions");
    run(command, INITDB_LIMIT).await?;

    let main_file = partial.join(MAIN_FILE);
    OpenOptions::new()
        .append(true)
        .open(&main_file)
        .and_then(|mut file| {
            writeln!(file, "\n{}", include_line())?;
            file.sync_all()
        })
        .map_err(EmbeddedError::io("write", &main_file))
}

fn put_in_place(partial: &Path, data_dir: &Path) -> Result<(), EmbeddedError> {
    fs::rename(partial, data_dir).map_err(EmbeddedError::io("move the new data directory to", data_dir))?;
    let Some(parent) = data_dir.parent() else { return Ok(()) };
    File::open(parent).and_then(|directory| directory.sync_all()).map_err(EmbeddedError::io("sync", parent))
}

/// Removes what killed starts left next to the data directory. Best effort: it does no harm.
fn remove_abandoned(data_dir: &Path) {
    let (Some(parent), Some(name)) = (data_dir.parent(), data_dir.file_name()) else { return };
    let mut prefix = name.to_owned();
    prefix.push(PARTIAL);
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_name().as_encoded_bytes().starts_with(prefix.as_encoded_bytes()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
