//! Retention in the database: a tenant's own rules, legal holds, and the progress of pruning.

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::database::{Database, Session, Statement};
use super::param::read_json;
use crate::error::Result;
use crate::model::record::{LegalHold, PurgeWait, RetentionProgress, RetentionRule};

pub(crate) const STATEMENTS: &[&Statement] = &[&SET, &RULES, &PLACE, &RELEASE, &HOLDS, &WAITS, &PROGRESS];

static SET: Statement = Statement {
    text: "select windlass.set_retention($1, $2, $3, $4, $5)",
    types: &[Type::UUID, Type::TEXT, Type::TEXT, Type::INT8, Type::BOOL],
};

/// `None` removes the rule, `Some(None)` keeps forever. Returns whether there was a rule to remove.
pub(crate) async fn set(
    session: &Session,
    tenant: Uuid,
    key: &str,
    status: &str,
    keep: Option<Option<i64>>,
) -> Result<bool> {
    let params: [&(dyn ToSql + Sync); 5] = [&tenant, &key, &status, &keep.flatten(), &keep.is_none()];
    Ok(session.query(&SET, &params).await?[0].get(0))
}

static RULES: Statement = Statement { text: include_str!("sql/retention/rules.sql"), types: &[Type::UUID] };

pub(crate) async fn rules(session: &Session, tenant: Uuid) -> Result<Vec<RetentionRule>> {
    session.query(&RULES, &[&tenant]).await?.iter().map(|row| read_json(row, 0)).collect()
}

static PLACE: Statement = Statement {
    text: "select windlass.place_hold($1, $2, $3, $4, $5, $6)",
    types: &[Type::UUID, Type::UUID, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT],
};

pub(crate) async fn place_hold(
    session: &Session,
    tenant: Uuid,
    job: Option<Uuid>,
    subject: Option<(&str, &str)>,
    reason: &str,
    by: &str,
) -> Result<Uuid> {
    let (kind, id) = (subject.map(|subject| subject.0), subject.map(|subject| subject.1));
    let params: [&(dyn ToSql + Sync); 6] = [&tenant, &job, &kind, &id, &reason, &by];
    Ok(session.query(&PLACE, &params).await?[0].get(0))
}

static RELEASE: Statement =
    Statement { text: "select windlass.release_hold($1, $2)", types: &[Type::UUID, Type::UUID] };

pub(crate) async fn release_hold(session: &Session, tenant: Uuid, hold: Uuid) -> Result<bool> {
    Ok(session.query(&RELEASE, &[&tenant, &hold]).await?[0].get(0))
}

static HOLDS: Statement =
    Statement { text: include_str!("sql/retention/holds.sql"), types: &[Type::UUID, Type::UUID] };

/// Returns all of them, or only the given one.
pub(crate) async fn holds(session: &Session, tenant: Uuid, only: Option<Uuid>) -> Result<Vec<LegalHold>> {
    session.query(&HOLDS, &[&tenant, &only]).await?.iter().map(|row| read_json(row, 0)).collect()
}

static WAITS: Statement =
    Statement { text: include_str!("sql/retention/waits.sql"), types: &[Type::UUID, Type::INT8] };

pub(crate) async fn waits(session: &Session, tenant: Uuid, limit: i64) -> Result<Vec<PurgeWait>> {
    session.query(&WAITS, &[&tenant, &limit]).await?.iter().map(|row| read_json(row, 0)).collect()
}

static PROGRESS: Statement = Statement {
    text: "select tenant_id, definition_key, status, keep_seconds, reached, behind_seconds, purged, checked_at, due, is_due_partial, \
           held_back from windlass.retention_progress()",
    types: &[],
};

pub(crate) async fn progress(db: &Database) -> Result<Vec<RetentionProgress>> {
    Ok(db.query(&PROGRESS, &[]).await?.iter().map(read_progress).collect())
}

/// Of the current tenant, and of the definitions.
pub(crate) async fn progress_in(session: &Session) -> Result<Vec<RetentionProgress>> {
    Ok(session.query(&PROGRESS, &[]).await?.iter().map(read_progress).collect())
}

fn read_progress(row: &tokio_postgres::Row) -> RetentionProgress {
    RetentionProgress {
        tenant_id: row.get(0),
        definition_key: row.get(1),
        status: row.get(2),
        keep_seconds: row.get(3),
        reached: row.get(4),
        behind_seconds: row.get(5),
        purged: row.get(6),
        checked_at: row.get(7),
        due: row.get(8),
        is_due_partial: row.get(9),
        held_back: row.get(10),
    }
}
