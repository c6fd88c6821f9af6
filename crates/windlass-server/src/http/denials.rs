//! Records denied calls in the audit trail: of callers without permission, and of anonymous clients.
//!
//! A flood of denied calls must not flood the audit trail: the number of entries per minute is limited for each caller, for each
//! address without a credential, and for all anonymous clients together. Calls beyond the limits are counted, and the next entry,
//! or the one written when the server stops, has their number.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{Extensions, HeaderMap, header};
use serde_json::json;
use windlass::admin::{Action, Actor, Reach};

use super::app::App;
use super::limits::RequestId;
use crate::auth::{Caller, TokenSecret};
use crate::server::client_of;

/// Entries per minute of one known caller, of one address, and of all anonymous clients.
const OF_A_CALLER: u32 = 600;
const OF_AN_ADDRESS: u32 = 30;
const OF_ALL_UNKNOWN: u32 = 300;

/// The number of calls that were not recorded since the last entry.
#[derive(Debug, Default)]
pub(crate) struct Denials {
    unwritten: AtomicU64,
}

/// One denied call.
#[derive(Debug)]
pub(crate) struct Denial {
    reach: Reach,
    actor: Actor,
    is_known: bool,
    action: Action,
    target: String,
    credential: String,
}

impl Denial {
    /// Of a known caller without permission.
    pub(crate) fn of(caller: &Caller, target: impl Into<String>) -> Self {
        Self::of_action(caller, Action::Request, target)
    }

    /// Of a known caller that tried this action.
    pub(crate) fn of_action(caller: &Caller, action: Action, target: impl Into<String>) -> Self {
        Self {
            reach: caller.wide_reach(),
            actor: caller.actor(),
            is_known: true,
            action,
            target: target.into(),
            credential: caller.name(),
        }
    }

    /// Of an anonymous client, or one with an invalid credential.
    pub(crate) fn of_anonymous(
        headers: &HeaderMap,
        extensions: &Extensions,
        target: impl Into<String>,
    ) -> Self {
        let from = client_of(extensions).map(|address| address.to_string());
        let request_id = extensions.get::<RequestId>().map(|id| id.0.clone());
        Self::of_anonymous_act(Action::Request, (from, request_id), target, shown(headers))
    }

    /// Of a person who has signed in, and who is no member of the tenant: for the installation.
    pub(crate) fn of_person(name: String, extensions: &Extensions, target: impl Into<String>) -> Self {
        let from = client_of(extensions).map(|address| address.to_string());
        let request_id = extensions.get::<RequestId>().map(|id| id.0.clone());
        let actor = Actor::new(&name).from_address(from).request_id(request_id);
        let (target, credential) = (target.into(), name);
        let reach = Reach::Everything;
        Self { reach, actor, is_known: true, action: Action::Request, target, credential }
    }

    /// Of a message with an invalid signature.
    pub(crate) fn at_hook(from_address: Option<String>, request_id: Option<String>, hook: &str) -> Self {
        let hook = windlass::internals::text::storable(hook.as_bytes(), 100);
        Self::of_anonymous_act(Action::HookReceive, (from_address, request_id), hook, "signature")
    }

    /// Of an invitation used to create an account for an email address that already has one.
    pub(crate) fn at_invitation(from_address: Option<String>, invitation: uuid::Uuid) -> Self {
        Self::of_anonymous_act(Action::InvitationAccept, (from_address, None), invitation.to_string(), "link")
    }

    /// Of a failed sign-in.
    pub(crate) fn at_sign_in(
        from_address: Option<String>,
        target: impl Into<String>,
        credential: impl Into<String>,
    ) -> Self {
        Self::of_anonymous_act(Action::SessionBegin, (from_address, None), target, credential)
    }

    fn of_anonymous_act(
        action: Action,
        (from_address, request_id): (Option<String>, Option<String>),
        target: impl Into<String>,
        credential: impl Into<String>,
    ) -> Self {
        Self {
            reach: Reach::Everything,
            actor: Actor::new("anonymous").from_address(from_address).request_id(request_id),
            is_known: false,
            action,
            target: target.into(),
            credential: credential.into(),
        }
    }
}

impl Denials {
    /// Records it, or counts it. A failure to record does not change the response.
    pub(crate) async fn record(&self, app: &App, denial: Denial) {
        let address = denial.actor.from_address.as_deref().unwrap_or("here");
        let has_room = if denial.is_known {
            app.rates().has_room(OF_A_CALLER, &format!("refused:{}", denial.actor.name))
        } else {
            app.rates().has_room(OF_AN_ADDRESS, &format!("refused:{address}"))
                && app.rates().has_room(OF_ALL_UNKNOWN, "refused")
        };
        if !has_room {
            self.unwritten.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let taken = self.take(1);
        let mut after = json!({"credential": denial.credential});
        if taken.count > 1 {
            after["unwritten_before"] = json!(taken.count - 1);
        }
        let target = windlass::internals::text::storable(denial.target.as_bytes(), 500);
        let by = (denial.reach, &denial.actor);
        match app.queue().record_denied(by, denial.action, &target, &after).await {
            Ok(()) => taken.written(),
            Err(error) => {
                tracing::error!(%error, request = target, "cannot record a denied call in the audit trail");
            }
        }
    }

    /// Takes the calls that were not recorded, and this many more, to record them.
    fn take(&self, more: u64) -> Taken<'_> {
        Taken { denials: self, count: self.unwritten.swap(0, Ordering::Relaxed) + more }
    }

    /// Records the number of calls that were not recorded, when the server stops.
    pub(crate) async fn end(&self, app: &App) {
        let taken = self.take(0);
        if taken.count == 0 {
            return;
        }
        let actor = Actor::new("anonymous");
        let (by, after) = ((Reach::Everything, &actor), json!({"unwritten_before": taken.count}));
        match app.queue().record_denied(by, Action::Request, "calls", &after).await {
            Ok(()) => taken.written(),
            Err(error) => {
                tracing::error!(%error, unwritten = taken.count, "cannot record denied calls in the audit trail");
            }
        }
    }
}

/// Calls that are being recorded. They count as not recorded again if that fails, or if the request is canceled meanwhile: its
/// client has disconnected or it timed out. At worst a call is counted twice.
struct Taken<'a> {
    denials: &'a Denials,
    count: u64,
}

impl Taken<'_> {
    fn written(mut self) {
        self.count = 0;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.denials.unwritten.fetch_add(self.count, Ordering::Relaxed);
    }
}

/// The kind of credential; for a token also its id, which is not secret.
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

#[cfg(test)]
mod tests {
    use super::{Denials, Ordering};

    /// a client that hangs up while its call is recorded.
    #[test]
    fn calls_that_could_not_be_recorded_are_counted_again() {
        let denials = Denials::default();
        denials.unwritten.store(7, Ordering::Relaxed);
        let taken = denials.take(1);
        assert_eq!((taken.count, denials.unwritten.load(Ordering::Relaxed)), (8, 0));
        drop(taken);
        assert_eq!(denials.unwritten.load(Ordering::Relaxed), 8);
        denials.take(1).written();
        assert_eq!(denials.unwritten.load(Ordering::Relaxed), 0);
    }
}
