//! The audit trail: of the tenant, or of everyone for a super-admin that names no tenant.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass::{AuditEntry, AuditFault, AuditHead, AuditQuery};

use crate::api::schema;
use crate::auth::Caller;
use crate::http::{App, Body, Problem, Query, Time, page_limit};

/// Which rows.
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
    /// `next_cursor` of the page before.
    cursor: Option<i64>,
    /// Rows per page: 100, if not given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u16>,
}

/// How it ended.
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
/// A page ends after `limit` rows or about 4 MiB, whichever comes first; `next_cursor` goes on from there.
#[utoipa::path(get, path = "/api/v1/admin/audit", tag = "audit", params(AuditParams), responses((status = 200, body = AuditPage)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<AuditParams>,
) -> Result<Json<AuditPage>, Problem> {
    let limit = page_limit(query.limit, 100, 1000)?;
    let wanted = AuditQuery {
        actor: query.actor,
        action: query.action,
        target: query.target,
        outcome: query.outcome.map(|outcome| match outcome {
            Outcome::Done => "done".to_owned(),
            Outcome::Denied => "denied".to_owned(),
        }),
        before: query.cursor,
        limit,
    };
    let looking = app.queue().look(caller.wide_reach()).await?;
    let (entries, has_more) = looking.audit(&wanted).await?;
    looking.end().await?;
    let next_cursor = entries.last().filter(|_| has_more).map(|entry| entry.id);
    Ok(Json(AuditPage { entries, next_cursor }))
}

/// The ends of the audit trail's chains. Kept elsewhere, they are a checkpoint that shows later whether anything was removed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditHeads {
    #[schema(value_type = Vec<schema::AuditHead>)]
    heads: Vec<AuditHead>,
}

/// Read the end of the audit trail
///
/// Of the tenant's chain; of every chain, for a super-admin that names no tenant.
#[utoipa::path(get, path = "/api/v1/admin/audit/head", tag = "audit", responses((status = 200, body = AuditHeads)))]
pub(crate) async fn head(State(app): State<App>, caller: Caller) -> Result<Json<AuditHeads>, Problem> {
    let looking = app.queue().look(caller.wide_reach()).await?;
    let heads = looking.audit_heads().await?;
    looking.end().await?;
    Ok(Json(AuditHeads { heads }))
}

/// What the audit trail is compared with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Verification {
    /// `heads` that were read earlier. Each must still be in its chain.
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
    /// For people; it is not compared.
    #[schema(value_type = Option<String>, format = DateTime)]
    sealed_at: Option<Time>,
}

/// The heads to be looked for, or what is wrong with them.
fn kept(checkpoint: &[KeptHead]) -> Result<Vec<AuditHead>, Problem> {
    if checkpoint.len() > MOST_HEADS {
        return Err(Problem::invalid("/checkpoint", format!("has at most {MOST_HEADS} heads")));
    }
    let head = |(at, kept): (usize, &KeptHead)| {
        let place = |field: &str| format!("/checkpoint/{at}/{field}");
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if kept.hash.len() != 64 || !kept.hash.bytes().all(is_digit) {
            return Err(Problem::invalid(place("hash"), "must have 64 hexadecimal digits in lower case"));
        }
        if kept.position < 1 {
            return Err(Problem::invalid(place("position"), "must be at least 1"));
        }
        let sealed_at = kept.sealed_at.as_ref().map_or(jiff::Timestamp::UNIX_EPOCH, |at| at.0);
        let (tenant_id, position, hash) = (kept.tenant_id, kept.position, kept.hash.clone());
        Ok(AuditHead { tenant_id, position, hash, sealed_at })
    };
    checkpoint.iter().enumerate().map(head).collect()
}

const MOST_HEADS: usize = 10_000;

/// What was found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Verified {
    is_whole: bool,
    #[schema(value_type = Vec<schema::AuditFault>)]
    faults: Vec<AuditFault>,
}

/// Verify the audit trail
///
/// Follows every chain from its first entry to its last. It reads the whole trail.
#[utoipa::path(post, path = "/api/v1/admin/audit/verify", tag = "audit", request_body = Verification, responses((status = 200, body = Verified)))]
pub(crate) async fn verify(
    State(app): State<App>,
    caller: Caller,
    body: Body<Verification>,
) -> Result<Json<Verified>, Problem> {
    let checkpoint = kept(body.value.checkpoint.as_deref().unwrap_or_default())?;
    let looking = app.queue().look(caller.global_reach()).await?;
    let faults = looking.verify_audit(&checkpoint).await?;
    looking.end().await?;
    Ok(Json(Verified { is_whole: faults.is_empty(), faults }))
}
