//! Every action with a command, on a server or on a database.

use serde_json::{Value, json};
use windlass::DEFAULT_TENANT;
use windlass::admin::Action;
use windlass::retention::HoldOn;

use super::world::{World, id_of, new_name};
use crate::cli::{Ran, windlass};

/// Performs the action; returns the target that its row must have. None: no command does it. `to` names the server or the database.
#[expect(clippy::too_many_lines, reason = "one arm for each action")]
pub(super) async fn perform(world: &World, to: &[String], action: Action) -> Option<String> {
    // Marks, runs the command and returns what it printed.
    let does = async |words: &[&str]| {
        world.mark().await;
        world.note_command(words);
        let mut command = windlass(words);
        command.args(to).env("WINDLASS_TENANT", "default");
        Ran::of(command.output().await.unwrap()).expect(0)
    };
    let queue = &world.server.queue;
    Some(match action {
        Action::DefinitionCreate => {
            let key = new_name();
            does(&["definitions", "apply", &file(&json!([{"key": key}]), &key)]).await;
            world.definition_id(&key).await
        }
        Action::DefinitionChange => {
            let (id, key) = world.definition().await;
            does(&["definitions", "apply", &file(&json!([{"key": key, "description": "x"}]), &key)]).await;
            id.to_string()
        }
        Action::HoldPlace => {
            let job = world.job().await.to_string();
            let hold = does(&["holds", "place", "--job", &job, "--reason", "r"]).await;
            hold.out.trim().to_owned()
        }
        Action::HoldRelease => {
            let on = HoldOn::Job(world.job().await);
            let id = queue.hold(DEFAULT_TENANT, &on, "r", "fixture").await.unwrap().to_string();
            does(&["holds", "release", &id]).await;
            id
        }
        Action::JobCancel => {
            let id = world.job().await.to_string();
            does(&["jobs", "cancel", &id]).await;
            id
        }
        Action::JobRetry => {
            let id = world.job().await;
            world.cancel(id).await;
            does(&["jobs", "retry", &id.to_string()]).await;
            id.to_string()
        }
        Action::JobCancelMany => {
            let (_, tag) = world.tagged().await;
            does(&["jobs", "cancel", "--tag", &tag]).await;
            "1 job".to_owned()
        }
        Action::JobRetryMany => {
            let (id, tag) = world.tagged().await;
            world.cancel(id).await;
            does(&["jobs", "retry", "--tag", &tag]).await;
            "1 job".to_owned()
        }
        Action::JobEnqueue => id_of(&does(&["jobs", "enqueue", "a", "--json"]).await.json()),
        Action::QueuePause | Action::QueueResume => {
            let name = world.queue(action).await;
            does(&["queues", if action == Action::QueuePause { "pause" } else { "resume" }, &name]).await;
            name
        }
        Action::RetentionSet => {
            let (_, key) = world.definition().await;
            does(&["retention", "set", "failed", "7d", "--definition", &key]).await;
            key
        }
        Action::RetentionClear => {
            let (_, key) = world.definition().await;
            let failed = windlass::job::State::Failed;
            queue.set_retention(DEFAULT_TENANT, Some(&key), failed, None, "fixture").await.unwrap();
            does(&["retention", "clear", "failed", "--definition", &key]).await;
            key
        }
        Action::TenantCreate => {
            does(&["tenants", "create", &new_name(), "--name", "T"]).await.out.trim().to_owned()
        }
        Action::TenantChange => {
            let id = world.tenant().await.to_string();
            does(&["tenants", "set", &id, "--name", "other", "--weight", "2"]).await;
            id
        }
        Action::TenantDelete => {
            let id = world.tenant().await.to_string();
            does(&["tenants", "delete", &id, "--yes"]).await;
            id
        }
        Action::TokenCreate => {
            id_of(&does(&["tokens", "create", "t", "--role", "viewer", "--json"]).await.json())
        }
        Action::TokenRotate => {
            let id = world.token().await;
            id_of(&does(&["tokens", "rotate", &id, "--json"]).await.json())
        }
        Action::TokenRevoke => {
            let id = world.token().await;
            does(&["tokens", "revoke", &id]).await;
            id
        }
        Action::TriggerRun => {
            let id = world.trigger().await.to_string();
            does(&["triggers", "run", &id]).await;
            id
        }
        Action::TriggerUpdate => {
            let other = world.trigger().await.to_string();
            does(&["triggers", "pause", &other]).await;
            does(&["triggers", "resume", &other]).await;
            let id = world.trigger().await.to_string();
            does(&["triggers", "pause", &id]).await;
            id
        }
        Action::WorkerDrain | Action::WorkerResume => {
            let id = world.worker(action).await;
            does(&["workers", if action == Action::WorkerDrain { "drain" } else { "resume" }, &id]).await;
            id
        }
        Action::EventEmit
        | Action::EventRetry
        | Action::InvitationAccept
        | Action::InvitationCreate
        | Action::InvitationRevoke
        | Action::JobDeleteMany
        | Action::JobEnqueueMany
        | Action::MemberRemove
        | Action::MemberRole
        | Action::PasswordChange
        | Action::PasswordReset
        | Action::PasswordResetLink
        | Action::PasswordResetRevoke
        | Action::SessionBegin
        | Action::SessionEnd
        | Action::SessionTenant
        | Action::TenantLimits
        | Action::TriggerBackfill
        | Action::TriggerCreate
        | Action::TriggerDelete => return None,
        _ => panic!("{action}: perform it with a command, or return None if there is none"),
    })
}

/// A file of this name with these definitions.
fn file(definitions: &Value, name: &str) -> String {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.json"));
    std::fs::write(&file, definitions.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}
