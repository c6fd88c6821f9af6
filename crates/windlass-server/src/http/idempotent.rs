//! One request, one effect: a POST with an Idempotency-Key is answered the same however often it comes. The key is taken and the
//! answer kept in the transaction of the act itself.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use windlass::Acting;

use super::extract::IdempotencyKey;
use super::problem::Problem;

/// What this request was answered before, if it came before.
pub(crate) async fn replay(
    acting: &Acting,
    key: &IdempotencyKey,
    fingerprint: &[u8],
) -> Result<Option<Response>, Problem> {
    let Some(text) = &key.key else { return Ok(None) };
    let known = acting.remember_request(key.tenant, text, fingerprint).await?;
    Ok(known.map(|(status, answer)| {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
        (status, [("idempotency-replayed", "true")], Json(answer)).into_response()
    }))
}

/// Keeps the answer for the next time. What is secret in it must be taken out before: `kept` is written to the database.
pub(crate) async fn keep(
    acting: &Acting,
    key: &IdempotencyKey,
    status: StatusCode,
    kept: &Value,
) -> Result<(), Problem> {
    if let Some(text) = &key.key {
        acting.answer_request(key.tenant, text, status.as_u16(), kept).await?;
    }
    Ok(())
}
