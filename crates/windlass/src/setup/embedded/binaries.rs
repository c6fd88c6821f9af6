//! Finds the server's programs, and rejects versions that are too old.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;

use super::fetch::{self, Package};
use super::server_user::{ServerUser, run};
use super::{EmbeddedError, ServerSource};

const OLDEST_MAJOR_VERSION: u32 = 15;
const PROGRAMS: [&str; 3] = ["postgres", "initdb", "pg_ctl"];
const DEBIAN: &str = "/usr/lib/postgresql";
const QUICK: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
pub(super) struct Binaries {
    pub(super) bin_dir: PathBuf,
    pub(super) major_version: u32,
}

impl Binaries {
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }
}

pub(super) async fn find(source: &ServerSource, user: &ServerUser) -> Result<Binaries, EmbeddedError> {
    match source {
        ServerSource::Auto => find_any(user).await,
        ServerSource::System => find_system(user).await,
        ServerSource::Pip => find_package(Package::Pip, user).await,
        ServerSource::Npm => find_package(Package::Npm(fetch::NEWEST), user).await,
        ServerSource::Version(major_version) => find_version(*major_version, user).await,
        ServerSource::Path(bin_dir) => inspect(bin_dir, user).await,
    }
}

async fn find_any(user: &ServerUser) -> Result<Binaries, EmbeddedError> {
    let mut attempts = Vec::new();
    match find_system(user).await {
        Ok(binaries) => return Ok(binaries),
        Err(error) => attempts.push(error),
    }
    for package in [Package::Pip, Package::Npm(fetch::NEWEST)] {
        match find_package(package, user).await {
            Ok(binaries) => return Ok(binaries),
            Err(error) => attempts.push(error),
        }
    }
    Err(EmbeddedError::NoBinaries { attempts })
}

/// The installed one if there is one, because it starts without a download.
async fn find_version(major_version: u32, user: &ServerUser) -> Result<Binaries, EmbeddedError> {
    if major_version < OLDEST_MAJOR_VERSION {
        return Err(EmbeddedError::NoPackageForVersion { major_version });
    }
    for bin_dir in debian_bin_dirs(Path::new(DEBIAN)) {
        if let Ok(binaries) = inspect(&bin_dir, user).await
            && binaries.major_version == major_version
        {
            return Ok(binaries);
        }
    }
    find_package(Package::Npm(major_version), user).await
}

async fn find_package(package: Package, user: &ServerUser) -> Result<Binaries, EmbeddedError> {
    inspect(&fetch::bin_dir(package, user).await?, user).await
}

/// Debian has every major version in its own directory and only the client programs in the PATH, so those directories
/// come before that of `pg_config`.
async fn find_system(user: &ServerUser) -> Result<Binaries, EmbeddedError> {
    let mut candidates = debian_bin_dirs(Path::new(DEBIAN));
    candidates.extend(pg_config_bin_dir().await);
    for bin_dir in candidates {
        if let Ok(binaries) = inspect(&bin_dir, user).await {
            return Ok(binaries);
        }
    }
    Err(EmbeddedError::NoSystemBinaries)
}

fn debian_bin_dirs(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let mut versions: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.into_iter().map(|version| root.join(version.to_string()).join("bin")).collect()
}

async fn pg_config_bin_dir() -> Option<PathBuf> {
    let mut command = Command::new("pg_config");
    command.arg("--bindir").env_clear().env("PATH", env::var_os("PATH")?).env("LANG", "C").current_dir("/");
    let output = run(command, QUICK).await.ok()?;
    Some(PathBuf::from(output.trim()))
}

async fn inspect(bin_dir: &Path, user: &ServerUser) -> Result<Binaries, EmbeddedError> {
    user.check_can_enter(bin_dir)?;
    for program in PROGRAMS {
        if !bin_dir.join(program).is_file() {
            return Err(EmbeddedError::IncompleteBinaries { bin_dir: bin_dir.to_owned(), missing: program });
        }
    }
    let program = bin_dir.join("postgres");
    let mut command = user.command(&program);
    command.arg("--version");
    let output = run(command, QUICK).await?;
    let Some(major_version) = major_version_in(&output) else {
        return Err(EmbeddedError::UnknownVersion { program, answer: output });
    };
    if major_version < OLDEST_MAJOR_VERSION {
        return Err(EmbeddedError::TooOld { bin_dir: bin_dir.to_owned(), major_version });
    }
    Ok(Binaries { bin_dir: bin_dir.to_owned(), major_version })
}

fn major_version_in(output: &str) -> Option<u32> {
    let version = output.split("(PostgreSQL)").nth(1)?.trim_start();
    let digits = version.find(|c: char| !c.is_ascii_digit()).map_or(version, |end| &version[..end]);
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::major_version_in;

    #[test]
    fn the_major_version_is_read_from_releases_packages_and_betas() {
        assert_eq!(major_version_in("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some(15));
        assert_eq!(major_version_in("postgres (PostgreSQL) 19beta1\n"), Some(19));
        assert_eq!(major_version_in("postgres: command not found"), None);
    }
}
