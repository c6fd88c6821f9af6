//! API tokens in the database.

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::act::identify;
use super::database::{Database, Session, Statement};
use crate::error::{Error, Result};
use crate::model::token::{KnownToken, NewToken, Token};

pub(crate) const STATEMENTS: &[&Statement] = &[&FIND, &CREATE, &LIST, &REVOKE, &ROTATE];

static FIND: Statement =
    Statement { text: "select windlass.find_token($1, $2)", types: &[Type::TEXT, Type::BYTEA] };

pub(crate) async fn find(db: &Database, id: &str, shown: Option<&[u8]>) -> Result<Option<KnownToken>> {
    optional(&identify(db, &FIND, &[&id, &shown]).await?)
}

static CREATE: Statement = Statement {
    text: "select windlass.create_token($1, $2, $3)",
    types: &[Type::UUID, Type::JSONB, Type::BYTEA],
};

/// The creator is unknown if it has lost access.
pub(crate) async fn create(session: &Session, tenant: Uuid, token: &NewToken, hash: &[u8]) -> Result<Token> {
    optional(&session.query(&CREATE, &[&tenant, &fields_of(token)?, &hash]).await?)?
        .ok_or(Error::Unknown { what: "creator" })
}

fn fields_of(token: &NewToken) -> Result<Value> {
    serde_json::to_value(token).map_err(|error| Error::refused("token", error.to_string()))
}

static LIST: Statement =
    Statement { text: "select t from windlass.tokens_of($1, $2) t", types: &[Type::UUID, Type::TEXT] };

pub(crate) async fn list(session: &Session, tenant: Option<Uuid>, id: Option<&str>) -> Result<Vec<Token>> {
    session.query(&LIST, &[&tenant, &id]).await?.iter().map(|row| from_json(row.get(0))).collect()
}

static REVOKE: Statement =
    Statement { text: "select windlass.revoke_token($1, $2)", types: &[Type::UUID, Type::TEXT] };

pub(crate) async fn revoke(session: &Session, tenant: Uuid, id: &str) -> Result<Option<Token>> {
    optional(&session.query(&REVOKE, &[&tenant, &id]).await?)
}

static ROTATE: Statement = Statement {
    text: "select windlass.rotate_token($1, $2, $3, $4, $5)",
    types: &[Type::UUID, Type::TEXT, Type::INT4, Type::JSONB, Type::BYTEA],
};

/// Returns the successor. The creator is unknown if it has lost access; an old token that cannot be replaced is
/// [`Error::Changed`].
pub(crate) async fn rotate(
    session: &Session,
    old: &Token,
    overlap_seconds: i32,
    new: &NewToken,
    hash: &[u8],
) -> Result<Token> {
    let params: [&(dyn ToSql + Sync); 5] =
        [&old.tenant_id, &old.id, &overlap_seconds, &fields_of(new)?, &hash];
    optional(&session.query(&ROTATE, &params).await?)?.ok_or(Error::Unknown { what: "creator" })
}

/// Reads the JSON of the one row, if it has any.
pub(crate) fn optional<T: DeserializeOwned>(rows: &[Row]) -> Result<Option<T>> {
    let value: Option<Value> = rows.first().and_then(|row| row.get(0));
    value.map(from_json).transpose()
}

pub(crate) fn from_json<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(|error| Error::refused("stored value", error.to_string()))
}
