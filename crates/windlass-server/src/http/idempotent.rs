//! Idempotent requests: a repeated POST with the same Idempotency-Key gets the same response. The key and the response are stored
//! in the transaction of the action itself.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use windlass::admin::Acting;

use super::extract::IdempotencyKey;
use super::problem::Problem;

/// The stored response, if this request was sent before.
pub(crate) async fn replay(
    acting: &Acting,
    key: &IdempotencyKey,
    fingerprint: &[u8],
) -> Result<Option<Response>, Problem> {
    let Some(text) = &key.key else { return Ok(None) };
    let stored = acting.remember_request(key.tenant, text, fingerprint).await?;
    Ok(stored.map(|(status, response)| {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
        (status, [("idempotency-replayed", "true")], Json(response)).into_response()
    }))
}

/// Stores the response for repeated requests. Secrets must be removed before: `response` is written to the database.
pub(crate) async fn store_response(
    acting: &Acting,
    key: &IdempotencyKey,
    status: StatusCode,
    response: &Value,
) -> Result<(), Problem> {
    if let Some(text) = &key.key {
        acting.answer_request(key.tenant, text, status.as_u16(), response).await?;
    }
    Ok(())
}
