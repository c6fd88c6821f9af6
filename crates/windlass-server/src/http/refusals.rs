//! Calls that were refused, as rows of the audit trail: of callers that may not, and of those that nobody knows.
//!
//! Whoever floods the server with refused calls must not be able to flood the trail: each caller, and each address without a
//! credential, has so many rows a minute, and all that are unknown together have so many. What is beyond that is counted, and
//! the next row, or the one written when the server stops, says how many there were.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{Extensions, HeaderMap, header};
use serde_json::json;
use windlass::{Act, Actor, Reach};

use super::app::App;
use super::limits::RequestId;
use crate::auth::{Caller, TokenSecret};
use crate::server::client_of;

/// Rows a minute of one caller that is known, of one address, and of all that are unknown.
const OF_A_CALLER: u32 = 600;
const OF_AN_ADDRESS: u32 = 30;
const OF_ALL_UNKNOWN: u32 = 300;

/// How many were not written since the last row.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    unwritten: AtomicU64,
}

/// One refused call.
#[derive(Debug)]
pub(crate) struct Refusal {
    reach: Reach,
    actor: Actor,
    is_known: bool,
    action: &'static str,
    target: String,
    credential: String,
}

impl Refusal {
    /// Of a caller that is known and may not.
    pub(crate) fn of(caller: &Caller, target: impl Into<String>) -> Self {
        Self::of_act(caller, "request", target)
    }

    /// Of a caller that is known, who tried this.
    pub(crate) fn of_act(caller: &Caller, action: &'static str, target: impl Into<String>) -> Self {
        Self {
            reach: caller.wide_reach(),
            actor: caller.actor(),
            is_known: true,
            action,
            target: target.into(),
            credential: caller.name(),
        }
    }

    /// Of whoever sent this, with a credential that is nobody's.
    pub(crate) fn of_nobody(headers: &HeaderMap, extensions: &Extensions, target: impl Into<String>) -> Self {
        let from = client_of(extensions).map(|address| address.to_string());
        let request_id = extensions.get::<RequestId>().map(|id| id.0.clone());
        Self::of_unknown("request", (from, request_id), target, shown(headers))
    }

    /// Of whoever sent a message that no hook knows by its signature.
    pub(crate) fn at_hook(from_address: Option<String>, request_id: Option<String>, hook: &str) -> Self {
        let hook = windlass::text::storable(hook.as_bytes(), 100);
        Self::of_unknown("hook.receive", (from_address, request_id), hook, "signature")
    }

    /// Of whoever wanted to make an account with an invitation, for an address that has one.
    pub(crate) fn at_invitation(from_address: Option<String>, invitation: uuid::Uuid) -> Self {
        Self::of_unknown("invitation.accept", (from_address, None), invitation.to_string(), "link")
    }

    /// Of whoever could not sign in.
    pub(crate) fn at_sign_in(
        from_address: Option<String>,
        target: impl Into<String>,
        credential: impl Into<String>,
    ) -> Self {
        Self::of_unknown("session.begin", (from_address, None), target, credential)
    }

    fn of_unknown(
        action: &'static str,
        (from_address, request_id): (Option<String>, Option<String>),
        target: impl Into<String>,
        credential: impl Into<String>,
    ) -> Self {
        Self {
            reach: Reach::Everything,
            actor: Actor { name: "anonymous".to_owned(), from_address, request_id, ..Actor::default() },
            is_known: false,
            action,
            target: target.into(),
            credential: credential.into(),
        }
    }
}

impl Refusals {
    /// Writes it down, or counts it. That it could not be written must not turn a refusal into anything else.
    pub(crate) async fn record(&self, app: &App, refusal: Refusal) {
        let address = refusal.actor.from_address.as_deref().unwrap_or("here");
        let has_room = if refusal.is_known {
            app.rates().has_room(OF_A_CALLER, &format!("refused:{}", refusal.actor.name))
        } else {
            app.rates().has_room(OF_AN_ADDRESS, &format!("refused:{address}"))
                && app.rates().has_room(OF_ALL_UNKNOWN, "refused")
        };
        if !has_room {
            self.unwritten.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let unwritten = self.unwritten.swap(0, Ordering::Relaxed);
        let mut after = json!({"credential": refusal.credential});
        if unwritten > 0 {
            after["unwritten_before"] = json!(unwritten);
        }
        let target = windlass::text::storable(refusal.target.as_bytes(), 500);
        let act = Act::new(refusal.action, &target).denied().after(&after);
        if let Err(error) = write(app, refusal.reach, &refusal.actor, &act).await {
            self.unwritten.fetch_add(unwritten + 1, Ordering::Relaxed);
            tracing::error!(%error, target, "a denied call could not be written to the audit trail");
        }
    }

    /// Says how many were not written, if any were. For when there will be no next row.
    pub(crate) async fn end(&self, app: &App) {
        let unwritten = self.unwritten.swap(0, Ordering::Relaxed);
        if unwritten == 0 {
            return;
        }
        let actor = Actor { name: "anonymous".to_owned(), ..Actor::default() };
        let act = Act::new("request", "calls").denied().after(&json!({"unwritten_before": unwritten}));
        if let Err(error) = write(app, Reach::Everything, &actor, &act).await {
            tracing::error!(%error, unwritten, "denied calls could not be written to the audit trail");
        }
    }
}

async fn write(app: &App, reach: Reach, actor: &Actor, act: &Act) -> windlass::Result<()> {
    app.queue().act(reach, actor).await?.commit(act).await
}

/// What kind of credential it was; of a token its id, which is no secret.
fn shown(headers: &HeaderMap) -> String {
    let Some(given) = headers.get(header::AUTHORIZATION) else {
        return if headers.contains_key(header::COOKIE) { "cookie" } else { "none" }.to_owned();
    };
    let bearer = given.to_str().ok().and_then(|text| text.split_once(' ')).map(|(_, bearer)| bearer.trim());
    match bearer.map(TokenSecret::parse) {
        Some(Some(token)) => format!("token:{}", token.id()),
        _ => "unreadable".to_owned(),
    }
}
