//! The audit trail: of the tenant, or of all tenants for a super-admin without `X-Tenant-Id`.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass::admin::{AuditEntry, AuditFault, AuditHead, AuditQuery};

use crate::api::schema;
use crate::auth::Caller;
use crate::http::{App, Body, Problem, Query, Time, page_limit};

/// The filter of the audit trail.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditParams {
    actor: Option<String>,
    #[param(example = "job.cancel")]
    action: Option<String>,
    target: Option<String>,
    #[param(inline)]
    outcome: Option<Outcome>,
    /// The `next_cursor` of the previous page.
    cursor: Option<i64>,
    /// The maximum number of entries (default 100).
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u16>,
}

/// Whether the action was allowed.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Done,
    Denied,
}

/// A page of the audit trail, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditPage {
    #[schema(value_type = Vec<schema::AuditEntry>)]
    entries: Vec<AuditEntry>,
    next_cursor: Option<i64>,
}

/// Read the audit trail
///
/// A page ends after `limit` entries or about 4 MiB, whichever comes first; `next_cursor` continues there.
#[utoipa::path(get, path = "/api/v1/admin/audit", tag = "audit", params(AuditParams), responses((status = 200, body = AuditPage)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<AuditParams>,
) -> Result<Json<AuditPage>, Problem> {
    let limit = page_limit(query.limit, 100, 1000)?;
    let outcome = query.outcome.map(|outcome| match outcome {
        Outcome::Done => "done".to_owned(),
        Outcome::Denied => "denied".to_owned(),
    });
    let wanted = AuditQuery::newest(limit)
        .actor(query.actor)
        .action(query.action)
        .target(query.target)
        .outcome(outcome)
        .before(query.cursor);
    let reading = app.queue().read(caller.wide_reach()).await?;
    let (entries, has_more) = reading.audit(&wanted).await?;
    reading.end().await?;
    let next_cursor = entries.last().filter(|_| has_more).map(|entry| entry.id);
    Ok(Json(AuditPage { entries, next_cursor }))
}

/// The ends of the hash chains of the audit trail. Store them outside the database as a checkpoint for `verify`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditHeads {
    #[schema(value_type = Vec<schema::AuditHead>)]
    heads: Vec<AuditHead>,
}

/// Read the end of the audit trail
///
/// Returns the end of the tenant's hash chain, or of every chain for a super-admin without `X-Tenant-Id`.
#[utoipa::path(get, path = "/api/v1/admin/audit/head", tag = "audit", responses((status = 200, body = AuditHeads)))]
pub(crate) async fn head(State(app): State<App>, caller: Caller) -> Result<Json<AuditHeads>, Problem> {
    let reading = app.queue().read(caller.wide_reach()).await?;
    let heads = reading.audit_heads().await?;
    reading.end().await?;
    Ok(Json(AuditHeads { heads }))
}

/// The checkpoint that the audit trail is compared with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Verification {
    /// The `heads` that were read earlier. Each must still be in its chain.
    #[schema(max_items = 10_000)]
    checkpoint: Option<Vec<KeptHead>>,
}

/// The end of a chain as it was read earlier.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptHead {
    tenant_id: uuid::Uuid,
    #[schema(minimum = 1)]
    position: i64,
    #[schema(
        pattern = "^[0-9a-f]{64}$",
        example = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    )]
    hash: String,
    /// For information; not compared.
    #[schema(value_type = Option<String>, format = DateTime)]
    sealed_at: Option<Time>,
}

/// Parses the heads of a checkpoint.
fn kept(checkpoint: &[KeptHead]) -> Result<Vec<AuditHead>, Problem> {
    if checkpoint.len() > MAX_HEADS {
        return Err(Problem::invalid("/checkpoint", format!("must have at most {MAX_HEADS} heads")));
    }
    let head = |(at, kept): (usize, &KeptHead)| {
        let place = |field: &str| format!("/checkpoint/{at}/{field}");
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if kept.hash.len() != 64 || !kept.hash.bytes().all(is_digit) {
            return Err(Problem::invalid(place("hash"), "must have 64 lowercase hexadecimal digits"));
        }
        if kept.position < 1 {
            return Err(Problem::invalid(place("position"), "must be at least 1"));
        }
        let sealed_at = kept.sealed_at.as_ref().map_or(jiff::Timestamp::UNIX_EPOCH, |at| at.0);
        let (tenant_id, position, hash) = (kept.tenant_id, kept.position, kept.hash.clone());
        Ok(AuditHead::new(tenant_id, position, hash, sealed_at))
    };
    checkpoint.iter().enumerate().map(head).collect()
}

const MAX_HEADS: usize = 10_000;

/// The result of a verification.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Verified {
    is_whole: bool,
    #[schema(value_type = Vec<schema::AuditFault>)]
    faults: Vec<AuditFault>,
}

/// Verify the audit trail
///
/// Verifies every hash chain from its first entry to its last. It reads the whole audit trail.
#[utoipa::path(post, path = "/api/v1/admin/audit/verify", tag = "audit", request_body = Verification, responses((status = 200, body = Verified)))]
pub(crate) async fn verify(
    State(app): State<App>,
    caller: Caller,
    body: Body<Verification>,
) -> Result<Json<Verified>, Problem> {
    let checkpoint = kept(body.value.checkpoint.as_deref().unwrap_or_default())?;
    let reading = app.queue().read(caller.global_reach()).await?;
    let faults = reading.verify_audit(&checkpoint).await?;
    reading.end().await?;
    Ok(Json(Verified { is_whole: faults.is_empty(), faults }))
}
