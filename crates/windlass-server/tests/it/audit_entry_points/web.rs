//! Every action with a form of the UI.

use windlass::admin::Action;

use super::world::{World, new_name};
use crate::support::people::PASSWORD;

/// Performs the action; returns the target that its row must have. None: no form does it.
#[expect(clippy::too_many_lines, reason = "one arm for each action")]
pub(super) async fn perform(world: &World, action: Action) -> Option<String> {
    Some(match action {
        Action::DefinitionCreate => {
            let key = new_name();
            world.form("/ui/definitions/new", &[("key", &key), ("is_active", "on")]).await;
            world.definition_id(&key).await
        }
        Action::DefinitionChange => {
            let (id, _) = world.definition().await;
            world.form(&format!("/ui/definitions/{id}"), &[("description", "x"), ("is_active", "on")]).await;
            id.to_string()
        }
        Action::InvitationCreate => {
            let email = format!("{}@example.com", new_name());
            world.form("/ui/members/new", &[("email", &email), ("role", "viewer"), ("days", "1")]).await;
            world.newest("invitations").await
        }
        Action::InvitationRevoke => {
            let (id, _) = world.invitation(&format!("{}@example.com", new_name())).await;
            world.form("/ui/members", &[("revoke", &id)]).await;
            id
        }
        Action::InvitationAccept => {
            // A member of another tenant is invited to this one, and is signed in.
            let email = format!("{}@example.com", new_name());
            let other = world.tenant().await;
            world.server.member(other, &email, "viewer").await;
            let browser = world.server.browser(&email).await;
            let (id, link) = world.invitation(&email).await;
            world.form_as(&browser, &link, &[("do", "accept")]).await;
            id
        }
        Action::JobCancel => {
            let id = world.job().await.to_string();
            world.form("/ui/jobs/act", &[("cancel", &id)]).await;
            id
        }
        Action::JobRetry => {
            let id = world.job().await;
            world.cancel(id).await;
            world.form("/ui/jobs/act", &[("retry", &id.to_string())]).await;
            id.to_string()
        }
        Action::JobCancelMany => {
            let (_, tag) = world.tagged().await;
            world.form("/ui/jobs/act", &[("act", "cancel"), ("every", &format!("tag={tag}"))]).await;
            "1 job".to_owned()
        }
        Action::JobRetryMany => {
            world.dead_letter().await;
            world.form("/ui/dead-letters", &[("all", "yes")]).await;
            let of_dead_letters = world.rows().await;
            assert_eq!(of_dead_letters.len(), 1, "{of_dead_letters:?}");
            let (id, tag) = world.tagged().await;
            world.cancel(id).await;
            world.form("/ui/jobs/act", &[("act", "retry"), ("every", &format!("tag={tag}"))]).await;
            "1 job".to_owned()
        }
        Action::JobDeleteMany => {
            let id = world.job().await.to_string();
            world.form("/ui/jobs/act", &[("act", "delete"), ("id", &id)]).await;
            "1 job".to_owned()
        }
        Action::JobEnqueue => {
            let fields = [("definition", "a"), ("mode", "json"), ("json", "{}")];
            let response = world.form("/ui/jobs/new", &fields).await;
            let to = response.header("location").unwrap().split('?').next().unwrap().to_owned();
            to.rsplit('/').next().unwrap().to_owned()
        }
        Action::MemberRole => {
            let (user, _) = world.person("viewer").await;
            world.form("/ui/members", &[("user", &user.to_string()), ("role", "operator")]).await;
            user.to_string()
        }
        Action::MemberRemove => {
            let (user, _) = world.person("viewer").await;
            world.form("/ui/members", &[("remove", &user.to_string())]).await;
            user.to_string()
        }
        Action::PasswordChange => {
            let (user, email) = world.person("viewer").await;
            let browser = world.server.browser(&email).await;
            let new = "another long password";
            let fields = [("current_password", PASSWORD), ("new_password", new)];
            world.form_as(&browser, "/ui/account", &fields).await;
            user.to_string()
        }
        Action::PasswordResetLink => {
            let (user, email) = world.person("viewer").await;
            world.form("/ui/members", &[("reset", &email)]).await;
            user.to_string()
        }
        Action::PasswordResetRevoke => {
            let (user, email) = world.person("viewer").await;
            world.reset_link(&email).await;
            world.form("/ui/members", &[("revoke_reset", &user.to_string())]).await;
            user.to_string()
        }
        Action::PasswordReset => {
            let (user, email) = world.person("viewer").await;
            let link = &world.reset_link(&email).await;
            let new = "another long password";
            let anyone = world.server.anonymous().with("sec-fetch-site", "same-origin");
            world.form_as(&anyone, link, &[("new_password", new)]).await;
            user.to_string()
        }
        Action::QueuePause | Action::QueueResume => {
            let name = world.queue(action).await;
            let is_paused = if action == Action::QueuePause { "yes" } else { "no" };
            world.form("/ui/queues", &[("queue", &name), ("paused", is_paused)]).await;
            name
        }
        Action::SessionBegin => {
            let (user, email) = world.person("viewer").await;
            let anyone = world.server.anonymous().with("sec-fetch-site", "same-origin");
            world.form_as(&anyone, "/ui/sign-in", &[("email", &email), ("password", PASSWORD)]).await;
            format!("user:{user}")
        }
        Action::SessionEnd => {
            let (user, email) = world.person("viewer").await;
            let browser = world.server.browser(&email).await;
            world.form_as(&browser, "/ui/sign-out", &[]).await;
            format!("user:{user}")
        }
        Action::SessionTenant => {
            let (_, email) = world.person("viewer").await;
            let other = world.tenant().await;
            world.server.member(other, &email, "viewer").await;
            let browser = world.server.browser(&email).await;
            world.form_as(&browser, "/ui/tenant", &[("tenant", &other.to_string())]).await;
            other.to_string()
        }
        Action::TenantCreate => {
            let slug = new_name();
            world.form("/ui/tenants/new", &[("slug", &slug), ("name", "T")]).await;
            world.newest("tenants").await
        }
        Action::TenantChange => {
            let id = world.tenant().await;
            world.form(&format!("/ui/tenants/{id}"), &[("name", "other"), ("weight", "2")]).await;
            id.to_string()
        }
        Action::TenantDelete => {
            let id = world.tenant().await;
            world.form(&format!("/ui/tenants/{id}"), &[("do", "delete")]).await;
            id.to_string()
        }
        Action::TokenCreate => {
            world.form("/ui/tokens/new", &[("name", "t"), ("role", "viewer")]).await;
            world.newest("api_tokens").await
        }
        Action::TokenRevoke => {
            let id = world.token().await;
            world.form("/ui/tokens", &[("revoke", &id)]).await;
            id
        }
        Action::TriggerCreate => {
            let fields = [
                ("trigger_type", "event"),
                ("label", "l"),
                ("event_name", "x.y"),
                ("definition_key", "a"),
                ("is_enabled", "on"),
            ];
            world.form("/ui/triggers/new", &fields).await;
            world.newest("job_triggers").await
        }
        Action::TriggerUpdate => {
            let id = world.trigger().await.to_string();
            world.form("/ui/triggers/act", &[("trigger", &id), ("do", "off")]).await;
            let of_list = world.rows().await;
            let id = world.trigger().await.to_string();
            let fields = [
                ("trigger_type", "schedule"),
                ("label", "nightly"),
                ("cron_expr", "0 2 * * *"),
                ("definition_key", "a"),
            ];
            world.form(&format!("/ui/triggers/{id}"), &fields).await;
            world.recorded_like(&of_list).await;
            id
        }
        Action::TriggerDelete => {
            let id = world.trigger().await.to_string();
            world.form("/ui/triggers/act", &[("trigger", &id), ("do", "delete")]).await;
            id
        }
        Action::TriggerRun => {
            let id = world.trigger().await.to_string();
            world.form("/ui/triggers/act", &[("trigger", &id), ("do", "run")]).await;
            id
        }
        Action::WorkerDrain | Action::WorkerResume => {
            let id = world.worker(action).await;
            let is_draining = if action == Action::WorkerDrain { "yes" } else { "no" };
            world.form("/ui/workers", &[("worker", &id), ("draining", is_draining)]).await;
            id
        }
        Action::EventEmit
        | Action::EventRetry
        | Action::HoldPlace
        | Action::HoldRelease
        | Action::JobEnqueueMany
        | Action::RetentionClear
        | Action::RetentionSet
        | Action::TenantLimits
        | Action::TokenRotate
        | Action::TriggerBackfill => return None,
        _ => panic!("{action}: perform it with a form, or return None if there is none"),
    })
}
