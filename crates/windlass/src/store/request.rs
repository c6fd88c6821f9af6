//! Stored responses to requests with an Idempotency-Key.

use serde_json::Value;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::database::{Session, Statement};
use crate::error::Result;

pub(crate) const STATEMENTS: &[&Statement] = &[&REMEMBER, &ANSWER];

static REMEMBER: Statement = Statement {
    text: "select windlass.remember_request($1, $2, $3)",
    types: &[Type::UUID, Type::TEXT, Type::BYTEA],
};

pub(crate) async fn remember(
    session: &Session,
    owner: Uuid,
    key: &str,
    fingerprint: &[u8],
) -> Result<Option<(u16, Value)>> {
    let rows = session.query(&REMEMBER, &[&owner, &key, &fingerprint]).await?;
    let known: Option<Value> = rows.first().and_then(|row| row.get(0));
    Ok(known.map(|known| {
        let status = known["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        (status.unwrap_or(200), known["answer"].clone())
    }))
}

static ANSWER: Statement = Statement {
    text: "select windlass.answer_request($1, $2, $3, $4)",
    types: &[Type::UUID, Type::TEXT, Type::INT4, Type::JSONB],
};

pub(crate) async fn answer(
    session: &Session,
    owner: Uuid,
    key: &str,
    status: u16,
    answer: &Value,
) -> Result<()> {
    session.query(&ANSWER, &[&owner, &key, &i32::from(status), &answer]).await?;
    Ok(())
}
