//! Rows that a keeper duty could not process, with the reason.

use jiff::Timestamp;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::database::{Database, Session, Statement};
use crate::error::Result;
use crate::model::record::Problem;
use crate::text;

pub(crate) const STATEMENTS: &[&Statement] = &[&NOTE, &NOTE_LOCKED, &LIST];

static NOTE: Statement = Statement {
    text: "select windlass.note_problem($1, $2, $3, $4)",
    types: &[Type::TEXT, Type::UUID, Type::TEXT, Type::TEXT],
};

/// Records a problem with a row: the duty skips it for a minute, and the reason is shown to operators.
pub(crate) async fn note(db: &Database, duty: &str, tenant: Uuid, subject: Uuid, reason: &str) -> Result<()> {
    let reason = text::storable(reason.as_bytes(), 500);
    db.query(&NOTE, &[&duty, &tenant, &subject.to_string(), &reason]).await?;
    Ok(())
}

static NOTE_LOCKED: Statement = Statement {
    text: "select windlass.note_locked($1, $2, $3, $4)",
    types: &[Type::TEXT, Type::UUID, Type::TEXT, Type::TEXT],
};

/// The same for a row that waits for an open transaction: the duty skips it for two seconds.
pub(crate) async fn note_locked(
    db: &Database,
    duty: &str,
    tenant: Uuid,
    subject: Uuid,
    reason: &str,
) -> Result<()> {
    db.query(&NOTE_LOCKED, &[&duty, &tenant, &subject.to_string(), &reason]).await?;
    Ok(())
}

pub(crate) static LIST: Statement =
    Statement { text: "select duty, tenant_id, subject, reason, since from windlass.problems()", types: &[] };

/// Of the current tenant, or of all tenants.
pub(crate) async fn list(session: &Session) -> Result<Vec<Problem>> {
    Ok(session.query(&LIST, &[]).await?.iter().map(read).collect())
}

pub(crate) fn read(row: &tokio_postgres::Row) -> Problem {
    Problem {
        duty: row.get(0),
        tenant_id: Some(row.get(1)).filter(|tenant: &Uuid| !tenant.is_nil()),
        subject: row.get(2),
        reason: row.get(3),
        since: row.get::<_, Option<Timestamp>>(4),
    }
}
