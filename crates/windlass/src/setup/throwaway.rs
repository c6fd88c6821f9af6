//! Throw-away databases for tests: cloned from a migrated template of the same server, and dropped at the end.
//!
//! The template is shared by every process that uses the same server, through its name: the hash of what it contains. It is rebuilt when
//! the migrations change. Building it takes a second or two, cloning it a tenth of a second.

use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::OnceCell;
use tokio_postgres::Client;
use uuid::Uuid;

use super::embedded::{Options, Postgres};
use super::migrate::{migrate, print_sql};
use crate::error::{Error, Result};
use crate::store::connect::{self, Connection};
use crate::store::database::Settings;

const DATABASE: &str = "windlass_test_";
const TEMPLATE: &str = "windlass_template_";
const ABANDONED_AFTER: Duration = Duration::from_secs(60 * 60);

/// The URL of a server for tests: `DATABASE_URL`, or an embedded Postgres that stays running between test runs.
pub(crate) async fn server_url() -> Result<String> {
    static SHARED: OnceCell<(String, Option<Postgres>)> = OnceCell::const_new();
    let start = || async {
        let (url, postgres) = match env::var("DATABASE_URL") {
            Ok(url) => (url, None),
            Err(_) => {
                let postgres = embedded().await.map_err(|error| Error::Unreachable(Arc::new(error)))?;
                (postgres.url(), Some(postgres))
            }
        };
        Throwaway::drop_abandoned(&url).await?;
        Ok::<_, Error>((url, postgres))
    };
    Ok(SHARED.get_or_try_init(start).await?.0.clone())
}

async fn embedded() -> Result<Postgres, super::embedded::EmbeddedError> {
    let options = Options::new(target_dir().join("windlass-postgres"))?.settings(
        [("shared_buffers", "128MB"), ("jit", "off"), ("max_connections", "300")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
    );
    Postgres::start(&options).await
}

/// The target directory of Cargo, as far as a test can determine it; otherwise a directory for temporary files.
fn target_dir() -> PathBuf {
    if let Some(directory) = env::var_os("CARGO_TARGET_DIR") {
        return directory.into();
    }
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let roots = package.iter().flat_map(|package| package.ancestors());
    let workspace = roots.filter(|directory| directory.join("Cargo.lock").is_file()).last();
    workspace.map_or_else(|| env::temp_dir().join("windlass-testing"), |directory| directory.join("target"))
}

/// A database that is dropped with this value.
#[derive(Debug)]
pub struct Throwaway {
    name: String,
    url: String,
    admin_url: String,
}

impl Throwaway {
    /// With the schema of this release.
    pub async fn migrated(admin_url: &str) -> Result<Self> {
        Self::cloned(admin_url, "schema", &print_sql(), async |url: String| {
            migrate(&Settings::new(&url)?).await.map(drop)
        })
        .await
    }

    /// A clone of the template with this name, which is built first if it does not exist: `prepare` gets the URL of an empty database
    /// and fills it. `content` is everything that `prepare` depends on; a template with other content is replaced.
    pub async fn cloned(
        admin_url: &str,
        template: &str,
        content: &str,
        prepare: impl AsyncFnOnce(String) -> Result<()>,
    ) -> Result<Self> {
        let template = TemplateDatabase::new(template, content);
        let admin = open(admin_url).await?;
        let client = &admin.client;
        let name = format!("{DATABASE}{}", Uuid::now_v7().simple());

        // Shared while cloning and exclusive while building, so a template is never replaced while it is cloned. The
        // lock ends with the connection, even if the process is killed.
        client.batch_execute(&format!("select pg_advisory_lock_shared({})", template.lock)).await?;
        if !exists(client, &template.database).await? {
            client.batch_execute(&format!("select pg_advisory_unlock_shared({})", template.lock)).await?;
            client.batch_execute(&format!("select pg_advisory_lock({})", template.lock)).await?;
            if !exists(client, &template.database).await? {
                template.build(client, admin_url, prepare).await?;
            }
        }
        // file_copy takes 31 ms of CPU where wal_log takes 78, but it has two checkpoints, which wait for the disk unless fsync is off
        // (Postgres 15, 570 files; measure with `\timing` in psql and the CPU time of the postmaster's children).
        let fsync: String = client.query_one("select current_setting('fsync')", &[]).await?.get(0);
        let strategy = if fsync == "off" { "file_copy" } else { "wal_log" };
        let clone = format!("create database {name} template {} strategy {strategy}", template.database);
        client.batch_execute(&clone).await?;
        Ok(Self { url: with_database(admin_url, &name), name, admin_url: admin_url.to_owned() })
    }

    /// Drops the databases of killed tests. Without `force`: a database with a connection is still in use.
    pub async fn drop_abandoned(admin_url: &str) -> Result<()> {
        let admin = open(admin_url).await?;
        for name in databases_starting_with(&admin.client, DATABASE).await? {
            if age_of(&name).is_some_and(|age| age > ABANDONED_AFTER) {
                // Another process may drop it at the same time.
                let _ = admin.client.batch_execute(&format!("drop database if exists {name}")).await;
            }
        }
        Ok(())
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its URL.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Throwaway {
    /// On a separate thread and runtime, because the runtime of the test is blocked here or has ended. Errors are ignored, because a panic
    /// here would hide that of the test; the next run cleans up.
    fn drop(&mut self) {
        let (admin_url, name) = (self.admin_url.clone(), self.name.clone());
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                runtime.block_on(async {
                    if let Ok(admin) = open(&admin_url).await {
                        let statement = format!("drop database if exists {name} with (force)");
                        let _ = admin.client.batch_execute(&statement).await;
                    }
                });
            }
        });
        let _ = dropping.join();
    }
}

struct TemplateDatabase {
    /// Shared by all contents of this template.
    prefix: String,
    database: String,
    lock: i64,
}

impl TemplateDatabase {
    fn new(name: &str, content: &str) -> Self {
        let is_plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        assert!(is_plain && !name.is_empty() && name.len() <= 26, "{name:?} is not a plain template name");
        // Two underscores end the name, so that no prefix is the prefix of another name.
        assert!(!name.contains("__") && !name.ends_with('_'), "{name:?} is not a plain template name");
        let prefix = format!("{TEMPLATE}{name}__");
        let database = format!("{prefix}{:016x}", hash(content));
        let lock = i64::from_ne_bytes(hash(&prefix).to_ne_bytes());
        Self { prefix, database, lock }
    }

    /// Built under another name and renamed when complete, so that a killed builder leaves no incomplete template.
    async fn build(
        &self,
        admin: &Client,
        admin_url: &str,
        prepare: impl AsyncFnOnce(String) -> Result<()>,
    ) -> Result<()> {
        for outdated in databases_starting_with(admin, &self.prefix).await? {
            let open = format!("alter database {outdated} with is_template false allow_connections true");
            admin.batch_execute(&open).await?;
            admin.batch_execute(&format!("drop database {outdated} with (force)")).await?;
        }
        let building = format!("{}building", self.prefix);
        admin.batch_execute(&format!("create database {building} template template0")).await?;
        prepare(with_database(admin_url, &building)).await?;
        let close = format!("alter database {building} with is_template true allow_connections false");
        admin.batch_execute(&close).await?;
        // A connection that `prepare` has just closed may still be ending; only one left open is an error.
        let end = format!(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = '{building}'"
        );
        admin.batch_execute(&end).await?;
        let rename = format!("alter database {building} rename to {}", self.database);
        Ok(admin.batch_execute(&rename).await?)
    }
}

/// The name is a version 7 UUID, which starts with its creation time.
fn age_of(name: &str) -> Option<Duration> {
    let id = Uuid::try_parse(name.strip_prefix(DATABASE)?).ok()?;
    let (seconds, nanoseconds) = id.get_timestamp()?.to_unix();
    SystemTime::now().duration_since(UNIX_EPOCH + Duration::new(seconds, nanoseconds)).ok()
}

async fn databases_starting_with(admin: &Client, prefix: &str) -> Result<Vec<String>> {
    let query = "select datname::text from pg_database where starts_with(datname::text, $1)";
    Ok(admin.query(query, &[&prefix]).await?.iter().map(|row| row.get(0)).collect())
}

async fn exists(admin: &Client, database: &str) -> Result<bool> {
    Ok(databases_starting_with(admin, database).await?.iter().any(|name| name == database))
}

async fn open(url: &str) -> Result<Connection> {
    connect::open(&Settings::new(url)?.direct).await
}

/// The same server, another database. In a key=value string the last value wins.
fn with_database(url: &str, name: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return format!("{url} dbname={name}") };
    let (address, parameters) = rest.split_once('?').map_or((rest, None), |(a, p)| (a, Some(p)));
    let server = address.split_once('/').map_or(address, |(server, _)| server);
    let parameters = parameters.map(|parameters| format!("?{parameters}")).unwrap_or_default();
    format!("{scheme}://{server}/{name}{parameters}")
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::with_database;

    #[test]
    fn only_the_database_of_a_url_is_replaced() {
        for (url, expected) in [
            (
                "postgresql://ada:pw@db:5433/app?sslmode=require",
                "postgresql://ada:pw@db:5433/t?sslmode=require",
            ),
            ("postgres://localhost", "postgres://localhost/t"),
            ("postgresql://windlass@/postgres?host=/run/pg", "postgresql://windlass@/t?host=/run/pg"),
            ("host=/run/pg dbname=app", "host=/run/pg dbname=app dbname=t"),
        ] {
            assert_eq!(with_database(url, "t"), expected);
            assert_eq!(expected.parse::<tokio_postgres::Config>().unwrap().get_dbname(), Some("t"));
        }
    }
}
