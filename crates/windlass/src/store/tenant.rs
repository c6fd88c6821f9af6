//! Tenants in the database, and the database's clock.

use std::time::Instant;

use jiff::Timestamp;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::database::{Session, Statement};
use super::token::optional;
use crate::error::Result;
use crate::model::tenant::Tenant;

pub(crate) const STATEMENTS: &[&Statement] =
    &[&ENSURE, &BY_SLUG, &PURGE, &CLOCK, &VERSION, &PAUSE, &IS_APPLICATION];

static ENSURE: Statement = Statement {
    text: "select windlass.ensure_tenant($1, $2, $3)",
    types: &[Type::TEXT, Type::TEXT, Type::INT4],
};

pub(crate) async fn ensure(session: &Session, slug: &str, name: &str, weight: i32) -> Result<Uuid> {
    Ok(session.query(&ENSURE, &[&slug, &name, &weight]).await?[0].get(0))
}

static BY_SLUG: Statement = Statement { text: include_str!("sql/tenant/by_slug.sql"), types: &[Type::TEXT] };

pub(crate) async fn by_slug(session: &Session, slug: &str) -> Result<Option<Tenant>> {
    optional(&session.query(&BY_SLUG, &[&slug]).await?)
}

static PURGE: Statement = Statement {
    text: "select purged, done from windlass.purge_tenant($1, $2)",
    types: &[Type::UUID, Type::INT4],
};

/// Runs one step of deleting a tenant. Returns the number of deleted jobs, and whether that was the last step.
pub(crate) async fn purge(session: &Session, tenant: Uuid, most: i32) -> Result<(i32, bool)> {
    let rows = session.query(&PURGE, &[&tenant, &most]).await?;
    Ok((rows[0].get(0), rows[0].get(1)))
}

static PAUSE: Statement =
    Statement { text: "select windlass.set_paused($1, $2)", types: &[Type::TEXT, Type::BOOL] };

pub(crate) async fn set_paused(session: &Session, queue: &str, paused: bool) -> Result<()> {
    session.query(&PAUSE, &[&queue, &paused]).await?;
    Ok(())
}

static CLOCK: Statement = Statement { text: "select clock_timestamp()", types: &[] };

/// Returns the time of the database's clock.
pub(crate) async fn now(session: &Session) -> Result<Timestamp> {
    Ok(session.query(&CLOCK, &[]).await?[0].get(0))
}

static IS_APPLICATION: Statement = Statement { text: "select not windlass.serves_all_tenants()", types: &[] };

/// Whether the login is only an application's: then each call needs a current tenant.
pub(crate) async fn is_application(session: &Session) -> Result<bool> {
    Ok(session.query(&IS_APPLICATION, &[]).await?[0].get(0))
}

static VERSION: Statement =
    Statement { text: "select current_setting('server_version_num')::integer", types: &[] };

/// Returns the server's `server_version_num`.
pub(crate) async fn server_version(session: &Session) -> Result<i32> {
    Ok(session.query(&VERSION, &[]).await?[0].get(0))
}

/// Returns the database's clock in milliseconds, and when it was read, accurate to half a round trip.
pub(crate) async fn clock(session: &Session) -> Result<(i64, Instant)> {
    let before = Instant::now();
    let theirs = now(session).await?;
    Ok((theirs.as_millisecond(), before + before.elapsed() / 2))
}
