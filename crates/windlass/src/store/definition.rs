//! Definitions in the database.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::database::{Database, Session, Statement};
use super::param::{JsonOut, JsonText};
use crate::error::{Error, Result};
use crate::model::definition::{Definition, Policies};
use crate::text::redact::Redaction;

pub(crate) const STATEMENTS: &[&Statement] = &[&DEFINE, &READ, &SCHEMA, &REDACTION];

static DEFINE: Statement = Statement { text: "select windlass.define($1)", types: &[Type::JSONB] };

pub(crate) async fn define(db: &Database, definition: &Definition) -> Result<Uuid> {
    let fields =
        serde_json::to_string(definition).map_err(|error| Error::refused("definition", error.to_string()))?;
    Ok(db.query_one(&DEFINE, &[&JsonText(&fields)]).await?.get(0))
}

static READ: Statement = Statement { text: "select windlass.definition($1)", types: &[Type::TEXT] };

pub(crate) async fn policies(db: &Database, key: &str) -> Result<Policies> {
    let row = db.query_one(&READ, &[&key]).await?;
    let fields: Option<JsonOut<'_>> = row.get(0);
    let fields = fields.ok_or_else(|| Error::UnknownDefinition { key: key.to_owned() })?;
    serde_json::from_str(fields.0)
        .map_err(|error| Error::refused(format!("definition {key}"), error.to_string()))
}

static SCHEMA: Statement =
    Statement { text: include_str!("sql/definition/schema.sql"), types: &[Type::TEXT] };

/// Returns whether the definition is active, and its schema; `None` if there is no such definition.
pub(crate) async fn schema(session: &Session, key: &str) -> Result<Option<(bool, String)>> {
    let rows = session.query(&SCHEMA, &[&key]).await?;
    Ok(rows.first().map(|row| (row.get(0), row.get::<_, JsonOut<'_>>(1).0.to_owned())))
}

static REDACTION: Statement =
    Statement { text: include_str!("sql/definition/redaction.sql"), types: &[Type::TEXT] };

/// Returns what the definition redacts in payloads; `None` if there is no such definition.
pub(crate) async fn redaction(session: &Session, key: &str) -> Result<Option<Redaction>> {
    let rows = session.query(&REDACTION, &[&key]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let rules = serde_json::from_str(row.get::<_, JsonOut<'_>>(0).0);
    rules.map(Some).map_err(|error| Error::refused("redaction", error.to_string()))
}
