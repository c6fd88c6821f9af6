//! The measured Postgres: an embedded one, or that of `DATABASE_URL`. Every phase gets a new database, so that phases do not affect
//! each other.

use std::env;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;
use tokio_postgres::Client;
use windlass::setup::embedded::{Options, Postgres};

use crate::Result;
use crate::cost::Meter;
use crate::database::{connect, with_database};
use crate::driver;

const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Server {
    embedded: Option<Postgres>,
    url: String,
    admin: Client,
    /// Set once the template exists.
    template: OnceCell<()>,
}

impl Server {
    pub(crate) async fn start() -> Result<Self> {
        let (embedded, url) = match env::var("DATABASE_URL") {
            Ok(url) => (None, url),
            Err(_) => {
                let postgres = start_embedded().await?;
                let url = postgres.url();
                (Some(postgres), url)
            }
        };
        let admin = connect(&url).await?;
        let server = Self { embedded, url, admin, template: OnceCell::new() };
        server.refuse_lossy_settings().await?;
        Ok(server)
    }

    /// The version and the settings that determine the cost of a commit, in one line.
    pub(crate) async fn description(&self) -> Result<String> {
        let query = "select format('PostgreSQL %s, shared_buffers %s, fsync %s, synchronous_commit %s, full_page_writes %s',
            current_setting('server_version'), current_setting('shared_buffers'), current_setting('fsync'),
            current_setting('synchronous_commit'), current_setting('full_page_writes'))";
        Ok(self.admin.query_one(query, &[]).await?.get(0))
    }

    /// A new migrated database. That of the previous phase is dropped.
    pub(crate) async fn fresh_database(&self) -> Result<String> {
        self.template.get_or_try_init(|| self.create_template()).await?;
        self.drop_database(DATABASE).await?;
        self.admin.batch_execute(&format!("create database {DATABASE} template {TEMPLATE}")).await?;
        self.settle_down().await?;
        Ok(with_database(&self.url, DATABASE))
    }

    /// The same without our schema.
    pub(crate) async fn empty_database(&self) -> Result<String> {
        self.create_empty(DATABASE).await
    }

    /// Starts to measure what the following work costs.
    pub(crate) async fn meter(&self) -> Result<Meter> {
        let backend: i32 = self.admin.query_one("select pg_backend_pid()", &[]).await?.get(0);
        Meter::start(backend.unsigned_abs())
    }

    /// Waits until the work of an earlier phase is done: dirty pages are written, and autovacuum has ended.
    pub(crate) async fn settle_down(&self) -> Result<()> {
        let query = "select exists (select from pg_stat_activity where backend_type = 'autovacuum worker')";
        let began = Instant::now();
        while self.admin.query_one(query, &[]).await?.get(0) && began.elapsed() < SETTLE_TIMEOUT {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.admin.batch_execute("checkpoint").await?;
        Ok(())
    }

    pub(crate) async fn wal_bytes(&self) -> Result<f64> {
        let query = "select (pg_current_wal_insert_lsn() - '0/0')::float8";
        Ok(self.admin.query_one(query, &[]).await?.get(0))
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.drop_database(DATABASE).await?;
        self.drop_database(TEMPLATE).await?;
        drop(self.admin);
        if let Some(postgres) = self.embedded {
            postgres.stop().await?;
        }
        Ok(())
    }

    /// Migrating takes longer than many phases, so it is done once. A template of an earlier run may have another schema.
    async fn create_template(&self) -> Result<()> {
        let url = self.create_empty(TEMPLATE).await?;
        driver::init(&url).await
    }

    async fn create_empty(&self, name: &str) -> Result<String> {
        self.drop_database(name).await?;
        self.admin.batch_execute(&format!("create database {name} template template0")).await?;
        Ok(with_database(&self.url, name))
    }

    async fn drop_database(&self, name: &str) -> Result<()> {
        Ok(self.admin.batch_execute(&format!("drop database if exists {name} with (force)")).await?)
    }

    /// Settings that can lose acknowledged jobs would make the figures incomparable.
    async fn refuse_lossy_settings(&self) -> Result<()> {
        for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
            let value: String = self.admin.query_one("select current_setting($1)", &[&setting]).await?.get(0);
            if value != "on" {
                return Err(format!("the server has {setting} = {value}; the benchmark requires on").into());
            }
        }
        Ok(())
    }
}

const DATABASE: &str = "windlass_bench";
const TEMPLATE: &str = "windlass_bench_template";

async fn start_embedded() -> Result<Postgres> {
    let mut options = Options::new(PathBuf::new())?;
    let major_version = options.source.major_version().await?;
    options.data_dir = target_dir().join("bench-postgres").join(major_version.to_string());
    Ok(Postgres::start(&options).await?)
}

/// Where everything is that can be deleted.
pub(crate) fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => PathBuf::from(directory),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
    }
}
