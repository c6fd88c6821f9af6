//! The jobs that a search reads.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::database::{Session, Statement};
use super::list::read_redaction;
use super::param::read_texts;
use crate::error::Result;
use crate::text::redact::Redaction;

pub(crate) const STATEMENTS: &[&Statement] = &[&SEARCH];

static SEARCH: Statement = Statement {
    text: include_str!("sql/job/search.sql"),
    types: &[Type::UUID, Type::UUID, Type::UUID, Type::INT8, Type::INT8],
};

/// A job that a search reads.
pub(crate) struct Candidate {
    pub(crate) id: Uuid,
    pub(crate) subject_id: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) source_ref: Option<String>,
    pub(crate) dedupe_key: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) payload: String,
    /// The redaction of its definition; `None` if it cannot be read.
    pub(crate) redaction: Option<Redaction>,
}

/// Returns the next jobs below an id, newest first, with a maximum number and a maximum size of the payloads.
pub(crate) async fn candidates(
    session: &Session,
    tenant: Uuid,
    below: Uuid,
    from: Uuid,
    rows: i64,
    bytes: i64,
) -> Result<Vec<Candidate>> {
    let rows = session.query(&SEARCH, &[&tenant, &below, &from, &rows, &bytes]).await?;
    let read = |row: &Row| Candidate {
        id: row.get(0),
        subject_id: row.get(1),
        correlation_id: row.get(2),
        source_ref: row.get(3),
        dedupe_key: row.get(4),
        tags: read_texts(row, 5),
        payload: row.get(6),
        redaction: read_redaction(row.get(7)),
    };
    Ok(rows.iter().map(read).collect())
}
