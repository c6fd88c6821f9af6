//! The queries of the doctor. Each is one read-only statement; the results are interpreted by the caller.

use tokio_postgres::Client;

use super::database::{Statement, query_unnamed};
use super::problem;
use crate::error::Result;
use crate::model::doctor::facts::{
    Damage, Holder, Installed, SchemaContents, Server, Stuck, TableFacts, WorkerFacts,
};
use crate::model::record::Problem;

pub(crate) const STATEMENTS: &[&Statement] = &[
    &SERVER,
    &FOREIGN,
    &BACKUP,
    &DEPENDENTS,
    &HOLDERS,
    &MIGRATIONS,
    &DAMAGE,
    &TABLES,
    &TAKE_OPERATOR,
    &WORKERS,
    &STUCK,
    &RATE,
    &LISTENERS,
];

static SERVER: Statement = Statement { text: include_str!("sql/doctor/server.sql"), types: &[] };
static FOREIGN: Statement = Statement { text: include_str!("sql/doctor/foreign.sql"), types: &[] };
static BACKUP: Statement = Statement { text: include_str!("sql/doctor/backup.sql"), types: &[] };
static DEPENDENTS: Statement = Statement { text: include_str!("sql/doctor/dependents.sql"), types: &[] };
static HOLDERS: Statement = Statement { text: include_str!("sql/doctor/holders.sql"), types: &[] };
static MIGRATIONS: Statement = Statement { text: include_str!("sql/doctor/migrations.sql"), types: &[] };
static DAMAGE: Statement = Statement { text: include_str!("sql/doctor/damage.sql"), types: &[] };
static TABLES: Statement = Statement { text: include_str!("sql/doctor/tables.sql"), types: &[] };
static TAKE_OPERATOR: Statement =
    Statement { text: include_str!("sql/doctor/take_operator.sql"), types: &[] };
static WORKERS: Statement = Statement { text: include_str!("sql/doctor/workers.sql"), types: &[] };
static STUCK: Statement = Statement { text: include_str!("sql/doctor/stuck.sql"), types: &[] };
static RATE: Statement = Statement { text: include_str!("sql/doctor/rate.sql"), types: &[] };
static LISTENERS: Statement = Statement { text: include_str!("sql/doctor/listeners.sql"), types: &[] };

pub(crate) async fn server(client: &Client) -> Result<Server> {
    let rows = query_unnamed(client, &SERVER, &[]).await?;
    let row = SERVER.row_of(rows)?;
    let settings: Vec<String> = row.get("settings");
    Ok(Server {
        version: row.get("version"),
        version_text: row.get("version_text"),
        is_replica: row.get("is_replica"),
        settings: settings
            .iter()
            .filter_map(|setting| setting.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        connections: row.get("connections"),
        most_connections: row.get("most_connections"),
        notification_queue: row.get("notification_queue"),
        transaction_age: row.get("transaction_age"),
        has_schema: row.get("has_schema"),
        is_blind: row.get("is_blind"),
        clock_ms: row.get("clock_ms"),
    })
}

/// Nothing if there is no schema.
pub(crate) async fn schema_contents(client: &Client) -> Result<Option<SchemaContents>> {
    let rows = query_unnamed(client, &FOREIGN, &[]).await?;
    Ok(rows.first().map(|row| SchemaContents {
        owner: row.get("owner"),
        is_ours: row.get("is_ours"),
        is_callers: row.get("is_callers"),
        is_installed: row.get("is_installed"),
        foreign_objects: row.get("foreign_objects"),
        objects: row.get("objects"),
    }))
}

/// Such as `view public.v depends on windlass.job_20261102`.
pub(crate) async fn dependents(client: &Client) -> Result<Vec<String>> {
    let rows = query_unnamed(client, &DEPENDENTS, &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// What others left that stops a backup or a restore, with advice.
pub(crate) async fn backup(client: &Client) -> Result<Vec<(String, String)>> {
    let rows = query_unnamed(client, &BACKUP, &[]).await?;
    Ok(rows.iter().map(|row| (row.get("found"), row.get("advice"))).collect())
}

pub(crate) async fn holders(client: &Client) -> Result<Vec<Holder>> {
    let rows = query_unnamed(client, &HOLDERS, &[]).await?;
    let holders = rows.iter().map(|row| Holder {
        kind: row.get("kind"),
        who: row.get("who"),
        age_seconds: row.get("age_seconds"),
        doing: row.get("doing"),
    });
    Ok(holders.collect())
}

pub(crate) async fn migrations(client: &Client) -> Result<Vec<Installed>> {
    let rows = query_unnamed(client, &MIGRATIONS, &[]).await?;
    let installed =
        rows.iter().map(|row| Installed { version: row.get(0), name: row.get(1), checksum: row.get(2) });
    Ok(installed.collect())
}

pub(crate) async fn damage(client: &Client) -> Result<Vec<Damage>> {
    let rows = query_unnamed(client, &DAMAGE, &[]).await?;
    Ok(rows.iter().map(|row| Damage { kind: row.get(0), name: row.get(1) }).collect())
}

pub(crate) async fn tables(client: &Client) -> Result<Vec<TableFacts>> {
    let rows = query_unnamed(client, &TABLES, &[]).await?;
    let tables = rows.iter().map(|row| TableFacts {
        name: row.get("name"),
        live_rows: row.get("live_rows"),
        dead_rows: row.get("dead_rows"),
        bytes: row.get("bytes"),
        vacuumed_seconds: row.get("vacuumed_seconds"),
    });
    Ok(tables.collect())
}

/// Takes the operator's role if the login may: without it, row-level security would hide stuck work.
pub(crate) async fn take_operator(client: &Client) -> Result<()> {
    query_unnamed(client, &TAKE_OPERATOR, &[]).await.map(drop)
}

pub(crate) async fn workers(client: &Client) -> Result<Vec<WorkerFacts>> {
    let rows = query_unnamed(client, &WORKERS, &[]).await?;
    let workers = rows.iter().map(|row| WorkerFacts {
        worker_id: row.get("worker_id"),
        silent_seconds: row.get("silent_seconds"),
        running_count: row.get("running_count"),
        is_alive: row.get("is_alive"),
    });
    Ok(workers.collect())
}

pub(crate) async fn stuck(client: &Client) -> Result<Vec<Stuck>> {
    let rows = query_unnamed(client, &STUCK, &[]).await?;
    let stuck = rows.iter().map(|row| Stuck {
        kind: row.get("kind"),
        name: row.get("name"),
        jobs: row.get("jobs"),
        age_seconds: row.get("age_seconds"),
    });
    Ok(stuck.collect())
}

pub(crate) async fn jobs_per_second(client: &Client) -> Result<f64> {
    let rows = query_unnamed(client, &RATE, &[]).await?;
    Ok(rows.first().map_or(0.0, |row| row.get(0)))
}

pub(crate) async fn problems(client: &Client) -> Result<Vec<Problem>> {
    let rows = query_unnamed(client, &problem::LIST, &[]).await?;
    Ok(rows.iter().map(problem::read).collect())
}

pub(crate) async fn listeners(client: &Client) -> Result<i64> {
    let rows = query_unnamed(client, &LISTENERS, &[]).await?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}
