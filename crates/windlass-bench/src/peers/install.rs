//! Installs the compared queues by the name of their package, with the ordinary clients of the languages, below the target directory.
//! The releases are fixed to a minor version, so that two runs compare the same programs. What is already there is not installed
//! again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use super::child::Program;
use super::pgmq::Pgmq;
use super::system::System;
use crate::Result;
use crate::server::target_dir;

const LIMIT: Duration = Duration::from_secs(600);

/// The crate of PGMQ's client contains the SQL of PGMQ.
const PGMQ: &str = "0.33.7";
const GRAPHILE_WORKER: [&str; 2] = ["graphile-worker@0.18", "pg@8"];
const PG_BOSS: [&str; 2] = ["pg-boss@12.30", "pg@8"];
/// Both need at least this release of Node.
const NODE: &str = "node@22";
const NODE_RELEASE: (u32, u32) = (22, 18);

const COMMON: &str = include_str!("common.mjs");
const GRAPHILE_WORKER_DRIVER: &str = include_str!("graphile-worker.mjs");
const PG_BOSS_DRIVER: &str = include_str!("pg-boss.mjs");

/// A system that can be measured.
#[derive(Debug, Clone)]
pub(super) struct Installed {
    pub(super) system: System,
    pub(super) version: String,
    pub(super) program: Program,
    /// Of PGMQ.
    sql: Option<String>,
}

impl Installed {
    pub(super) async fn of(system: System) -> Result<Self> {
        let own = |version: String, sql| Ok(Self { system, version, program: Program::own(system)?, sql });
        match system {
            System::Windlass => own(env!("CARGO_PKG_VERSION").to_owned(), None),
            System::PgmqDelete | System::PgmqArchive => {
                let (version, sql) = pgmq(&directory("pgmq")?).await?;
                own(version, Some(sql))
            }
            System::GraphileWorker => Self::in_node(system, &GRAPHILE_WORKER, GRAPHILE_WORKER_DRIVER).await,
            System::PgBoss => Self::in_node(system, &PG_BOSS, PG_BOSS_DRIVER).await,
        }
    }

    async fn in_node(system: System, packages: &[&str], driver: &str) -> Result<Self> {
        let node = node().await?;
        let directory = directory(system.as_str())?;
        let version = npm(&directory, packages).await?;
        std::fs::write(directory.join("common.mjs"), COMMON)?;
        let file = directory.join("driver.mjs");
        std::fs::write(&file, driver)?;
        Ok(Self { system, version, program: Program::node(node, &file), sql: None })
    }

    /// Creates its tables in a new database. windlass is migrated with the database.
    pub(super) async fn init(&self, url: &str) -> Result<()> {
        match (&self.sql, self.system) {
            (Some(sql), _) => Pgmq::init(url, sql).await,
            (None, System::Windlass) => crate::driver::init(url).await,
            (None, _) => self.program.init(url).await,
        }
    }
}

fn directory(name: &str) -> Result<PathBuf> {
    let directory = target_dir().join("bench-peers").join(name);
    std::fs::create_dir_all(&directory)?;
    // The driver in it is started from another directory.
    Ok(directory.canonicalize()?)
}

/// A package that depends on PGMQ's client and is never built: reading its metadata downloads the sources.
async fn pgmq(directory: &Path) -> Result<(String, String)> {
    let manifest = format!(
        "[package]\nname = \"bench-peers\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[dependencies]\n\
         pgmq = {{ version = \"={PGMQ}\", default-features = false }}\n\n[workspace]\n"
    );
    std::fs::create_dir_all(directory.join("src"))?;
    std::fs::write(directory.join("src/lib.rs"), "")?;
    let file = directory.join("Cargo.toml");
    std::fs::write(&file, manifest)?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--format-version", "1", "--manifest-path"]).arg(&file).current_dir(directory);
    let metadata: Value = serde_json::from_str(&output("cargo metadata", cargo).await?)?;
    let packages = metadata["packages"].as_array().ok_or("the metadata names no packages")?;
    let package =
        packages.iter().find(|package| package["name"] == "pgmq").ok_or("pgmq is not among the packages")?;
    let root = package["manifest_path"].as_str().map(Path::new).and_then(Path::parent);
    let root = root.ok_or("the metadata does not name the directory of pgmq")?;
    let sql = find(root, "pgmq.sql").ok_or("the package of pgmq has no pgmq.sql")?;
    let control = find(root, "pgmq.control").and_then(|file| std::fs::read_to_string(file).ok());
    let version = control.as_deref().and_then(default_version).unwrap_or(PGMQ);
    Ok((version.to_owned(), std::fs::read_to_string(sql)?))
}

/// The version of an extension, from its control file.
fn default_version(control: &str) -> Option<&str> {
    let line = control.lines().find_map(|line| line.trim().strip_prefix("default_version"))?;
    Some(line.trim_start().strip_prefix('=')?.trim().trim_matches('\''))
}

fn find(directory: &Path, name: &str) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    let here = entries.iter().find(|path| path.is_file() && path.ends_with(name)).cloned();
    here.or_else(|| entries.iter().filter(|path| path.is_dir()).find_map(|path| find(path, name)))
}

/// The Node of this machine, or one from a package if that is too old.
async fn node() -> Result<PathBuf> {
    let mut own = Command::new("node");
    own.arg("--version");
    let is_new =
        output("node", own).await.ok().and_then(|text| release(&text)).is_some_and(|own| own >= NODE_RELEASE);
    if is_new {
        return Ok("node".into());
    }
    let directory = directory("node")?;
    npm(&directory, &[NODE]).await?;
    Ok(directory.join("node_modules/node/bin/node"))
}

/// `v22.23.3`
fn release(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.trim().strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Installs packages, and returns the version of the first.
async fn npm(directory: &Path, packages: &[&str]) -> Result<String> {
    let first = packages.first().and_then(|package| package.split('@').next()).unwrap_or_default();
    let manifest = directory.join("node_modules").join(first).join("package.json");
    if !manifest.exists() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-fund", "--no-audit", "--loglevel=error", "--prefix"]).arg(directory);
        npm.args(packages).current_dir(directory);
        output("npm install", npm).await?;
    }
    let manifest: Value = serde_json::from_str(&std::fs::read_to_string(&manifest)?)?;
    Ok(manifest["version"].as_str().ok_or("the package has no version")?.to_owned())
}

async fn output(name: &str, mut command: Command) -> Result<String> {
    command.stdin(std::process::Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(LIMIT, command.output()).await;
    let output = output.map_err(|_| format!("`{name}` did not end within {LIMIT:?}"))?;
    let output = output.map_err(|error| format!("cannot run `{name}`: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{name}` failed: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::{default_version, release};

    #[test]
    fn versions_are_read() {
        assert_eq!(default_version("comment = 'x'\ndefault_version = '1.11.1'\n"), Some("1.11.1"));
        assert_eq!(default_version("comment = 'x'"), None);
        assert_eq!(release("v22.23.3\n"), Some((22, 23)));
        assert_eq!(release("22"), None);
    }
}
