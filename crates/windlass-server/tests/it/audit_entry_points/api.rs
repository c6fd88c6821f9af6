//! Every action over HTTP, with JSON.

use reqwest::Method;
use serde_json::{Value, json};
use windlass::DEFAULT_TENANT;
use windlass::admin::Action;
use windlass::retention::HoldOn;

use super::world::{World, id_of, new_name};
use crate::support::people::PASSWORD;

/// Performs the action; returns the target that its row must have. None: the API has no such action.
#[expect(clippy::too_many_lines, reason = "one arm for each action")]
pub(super) async fn perform(world: &World, action: Action) -> Option<String> {
    let post = async |path: &str, body: Value| world.call(Method::POST, path, body).await;
    let patch = async |path: &str, body: Value| world.call(Method::PATCH, path, body).await;
    let delete = async |path: &str| world.call(Method::DELETE, path, Value::Null).await;
    let queue = &world.server.queue;
    Some(match action {
        Action::DefinitionCreate => {
            let key = new_name();
            post("/api/v1/admin/jobs/definitions/apply", json!({"definitions": [{"key": key}]})).await;
            let applied = world.rows().await;
            let id = id_of(&post("/api/v1/admin/jobs/definitions", json!({"key": new_name()})).await);
            world.recorded_like(&applied).await;
            id
        }
        Action::DefinitionChange => {
            let (id, _) = world.definition().await;
            patch(&format!("/api/v1/admin/jobs/definitions/{id}"), json!({"description": "x"})).await;
            id.to_string()
        }
        Action::EventEmit => id_of(&post("/api/v1/events", json!({"name": "x.y"})).await),
        Action::EventRetry => {
            let (event, trigger) = world.failed;
            post(&format!("/api/v1/events/{event}/retry"), json!({"trigger_id": trigger})).await;
            event.to_string()
        }
        Action::HoldPlace => {
            let body = json!({"reason": "r", "job_id": world.job().await});
            id_of(&post("/api/v1/retention/holds", body).await)
        }
        Action::HoldRelease => {
            let on = HoldOn::Job(world.job().await);
            let id = queue.hold(DEFAULT_TENANT, &on, "r", "fixture").await.unwrap();
            delete(&format!("/api/v1/retention/holds/{id}")).await;
            id.to_string()
        }
        Action::InvitationCreate => {
            let body = json!({"email": format!("{}@example.com", new_name()), "role": "viewer"});
            id_of(&post("/api/v1/admin/invitations", body).await)
        }
        Action::InvitationRevoke => {
            let (id, _) = world.invitation(&format!("{}@example.com", new_name())).await;
            delete(&format!("/api/v1/admin/invitations/{id}")).await;
            id
        }
        Action::JobCancel => {
            let id = world.job().await;
            post(&format!("/api/v1/jobs/{id}/cancel"), json!({})).await;
            id.to_string()
        }
        Action::JobRetry => {
            let id = world.job().await;
            world.cancel(id).await;
            post(&format!("/api/v1/jobs/{id}/retry"), json!({})).await;
            id.to_string()
        }
        Action::JobCancelMany => {
            let (_, tag) = world.tagged().await;
            post("/api/v1/jobs/cancel", json!({"filter": {"tag": tag}})).await;
            "1 job".to_owned()
        }
        Action::JobRetryMany => {
            let (id, tag) = world.tagged().await;
            world.cancel(id).await;
            post("/api/v1/jobs/retry", json!({"filter": {"tag": tag}})).await;
            "1 job".to_owned()
        }
        Action::JobDeleteMany => {
            post("/api/v1/jobs/delete", json!({"ids": [world.job().await]})).await;
            "1 job".to_owned()
        }
        Action::JobEnqueue => {
            // Without a key in one statement, with one in a transaction of the request: both are recorded alike.
            post("/api/v1/jobs", json!({"definition_key": "a"})).await;
            let by_statement = world.rows().await;
            let admin = world.server.admin.with("idempotency-key", new_name());
            let body = json!({"definition_key": "a"});
            let id = id_of(&world.call_as(&admin, Method::POST, "/api/v1/jobs", body).await);
            world.recorded_like(&by_statement).await;
            id
        }
        Action::JobEnqueueMany => {
            post("/api/v1/jobs/bulk", json!({"jobs": [{"definition_key": "a"}]})).await;
            "1 job".to_owned()
        }
        Action::MemberRole => {
            let (user, _) = world.person("viewer").await;
            patch(&format!("/api/v1/admin/members/{user}"), json!({"role": "operator"})).await;
            user.to_string()
        }
        Action::MemberRemove => {
            let (user, _) = world.person("viewer").await;
            delete(&format!("/api/v1/admin/members/{user}")).await;
            user.to_string()
        }
        Action::PasswordChange => {
            let (user, email) = world.person("viewer").await;
            let browser = world.server.browser(&email).await;
            let body = json!({"current_password": PASSWORD, "new_password": "another long password"});
            world.call_as(&browser, Method::POST, "/api/v1/me/password", body).await;
            user.to_string()
        }
        Action::PasswordResetLink => {
            let (user, email) = world.person("viewer").await;
            post("/api/v1/admin/password-resets", json!({"email": email})).await;
            user.to_string()
        }
        Action::PasswordResetRevoke => {
            let (user, email) = world.person("viewer").await;
            world.reset_link(&email).await;
            delete(&format!("/api/v1/admin/password-resets/{user}")).await;
            user.to_string()
        }
        Action::QueuePause | Action::QueueResume => {
            let name = world.queue(action).await;
            let verb = if action == Action::QueuePause { "pause" } else { "resume" };
            post(&format!("/api/v1/admin/queues/{name}/{verb}"), json!({})).await;
            name
        }
        Action::RetentionSet => {
            let (_, key) = world.definition().await;
            let body = json!({"definition_key": key, "status": "failed", "keep_seconds": 604_800});
            post("/api/v1/retention/rules", body).await;
            key
        }
        Action::RetentionClear => {
            let (_, key) = world.definition().await;
            let failed = windlass::job::State::Failed;
            queue.set_retention(DEFAULT_TENANT, Some(&key), failed, None, "fixture").await.unwrap();
            delete(&format!("/api/v1/retention/rules?definition_key={key}&status=failed")).await;
            key
        }
        Action::TenantCreate => {
            id_of(&post("/api/v1/admin/tenants", json!({"name": "T", "slug": new_name()})).await)
        }
        Action::TenantChange => {
            let id = world.tenant().await;
            patch(&format!("/api/v1/admin/tenants/{id}"), json!({"name": "other", "weight": 2})).await;
            id.to_string()
        }
        Action::TenantLimits => {
            let id = world.tenant().await;
            patch(&format!("/api/v1/admin/limits/{id}"), json!({"max_queued": 7})).await;
            id.to_string()
        }
        Action::TenantDelete => {
            let id = world.tenant().await;
            delete(&format!("/api/v1/admin/tenants/{id}")).await;
            id.to_string()
        }
        Action::TokenCreate => {
            id_of(&post("/api/v1/admin/tokens", json!({"name": "t", "role": "viewer"})).await)
        }
        Action::TokenRotate => {
            let id = world.token().await;
            id_of(&post(&format!("/api/v1/admin/tokens/{id}/rotate"), json!({})).await)
        }
        Action::TokenRevoke => {
            let id = world.token().await;
            delete(&format!("/api/v1/admin/tokens/{id}")).await;
            id
        }
        Action::TriggerCreate => {
            let body =
                json!({"label": "l", "trigger_type": "event", "event_name": "x.y", "definition_key": "a"});
            id_of(&post("/api/v1/jobs/triggers", body).await)
        }
        Action::TriggerUpdate => {
            let id = world.trigger().await;
            patch(&format!("/api/v1/jobs/triggers/{id}"), json!({"is_enabled": false})).await;
            id.to_string()
        }
        Action::TriggerDelete => {
            let id = world.trigger().await;
            delete(&format!("/api/v1/jobs/triggers/{id}")).await;
            id.to_string()
        }
        Action::TriggerRun => {
            let id = world.trigger().await;
            post(&format!("/api/v1/jobs/triggers/{id}/run"), json!({})).await;
            id.to_string()
        }
        Action::TriggerBackfill => {
            let id = world.trigger().await;
            let body = json!({"from": "2026-01-01T00:00:00Z", "until": "2026-01-02T12:00:00Z"});
            post(&format!("/api/v1/jobs/triggers/{id}/backfill"), body).await;
            id.to_string()
        }
        Action::WorkerDrain | Action::WorkerResume => {
            let id = world.worker(action).await;
            let verb = if action == Action::WorkerDrain { "drain" } else { "resume" };
            post(&format!("/api/v1/admin/workers/{id}/{verb}"), json!({})).await;
            id
        }
        // Links and sessions are for people.
        Action::InvitationAccept
        | Action::PasswordReset
        | Action::SessionBegin
        | Action::SessionEnd
        | Action::SessionTenant => return None,
        _ => panic!("{action}: perform it over the API, or return None if there is no such call"),
    })
}
