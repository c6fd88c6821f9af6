//! Every action with the library: by the functions of `Queue` where it has one, otherwise in a caller's transaction.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;
use windlass::admin::{Acting, Action, Fields, INSTALLATION, Reach};
use windlass::events::NewEvent;
use windlass::internals::{InvitedTo, NewAccount, NewSession, NewToken, SessionOf};
use windlass::job::{Filter, State};
use windlass::retention::HoldOn;
use windlass::schedule::NewTrigger;
use windlass::{DEFAULT_TENANT, Definition, NewJob};

use super::world::{World, new_name};

/// Performs the action; returns the target that its row must have.
#[expect(clippy::too_many_lines, reason = "one arm for each action")]
pub(super) async fn perform(world: &World, action: Action) -> Option<String> {
    let queue = &world.server.queue;
    let tenant = DEFAULT_TENANT;
    Some(match action {
        Action::DefinitionCreate => {
            world.mark().await;
            queue.define(&Definition::new(new_name())).await.unwrap().to_string()
        }
        Action::DefinitionChange => {
            let (id, key) = world.definition().await;
            world.mark().await;
            // A definition that is already as requested is not written, and not recorded.
            queue.define(&Definition::new(&key)).await.unwrap();
            queue.define(&Definition::new(&key).description("x")).await.unwrap();
            id.to_string()
        }
        Action::EventEmit => {
            let acting = begin(world, Reach::Tenant(tenant)).await;
            let emitted = acting.emit(&NewEvent::new("x.y")).await.unwrap();
            acting.commit().await.unwrap();
            emitted.id.to_string()
        }
        Action::EventRetry => {
            let (event, trigger) = world.failed;
            world.mark().await;
            queue.retry_event(tenant, event, trigger, "tester").await.unwrap();
            event.to_string()
        }
        Action::HoldPlace => {
            let on = HoldOn::Job(world.job().await);
            world.mark().await;
            queue.hold(tenant, &on, "r", "tester").await.unwrap().to_string()
        }
        Action::HoldRelease => {
            let on = HoldOn::Job(world.job().await);
            let id = queue.hold(tenant, &on, "r", "fixture").await.unwrap();
            world.mark().await;
            queue.release(tenant, id, "tester").await.unwrap();
            id.to_string()
        }
        Action::JobCancel => {
            let id = world.job().await;
            world.mark().await;
            queue.cancel(tenant, id).await.unwrap();
            id.to_string()
        }
        Action::JobRetry => {
            let id = world.job().await;
            world.cancel(id).await;
            world.mark().await;
            queue.retry(tenant, id, "tester").await.unwrap();
            id.to_string()
        }
        Action::JobCancelMany => {
            let (_, tag) = world.tagged().await;
            world.mark().await;
            assert_eq!(queue.cancel_matching(&Filter::new(tenant).tag(tag)).await.unwrap(), 1);
            "1 job".to_owned()
        }
        Action::JobRetryMany => {
            let (id, tag) = world.tagged().await;
            world.cancel(id).await;
            world.mark().await;
            assert_eq!(queue.retry_matching(&Filter::new(tenant).tag(tag), "tester").await.unwrap(), 1);
            "1 job".to_owned()
        }
        Action::JobDeleteMany => {
            let id = world.job().await;
            world.mark().await;
            assert_eq!(queue.purge(tenant, &[id]).await.unwrap(), 1);
            "1 job".to_owned()
        }
        Action::JobEnqueue => {
            world.mark().await;
            let placed = queue.enqueue_as(tenant, &World::actor(), &NewJob::new("a")).await.unwrap();
            placed.enqueued.id.to_string()
        }
        Action::JobEnqueueMany => {
            let job = NewJob::new("a");
            let checked = queue.check_job(&job).await.unwrap();
            let acting = begin(world, Reach::Tenant(tenant)).await;
            acting.enqueue_each(&[checked]).await.unwrap();
            acting.commit().await.unwrap();
            "1 job".to_owned()
        }
        Action::QueuePause | Action::QueueResume => {
            let name = world.queue(action).await;
            world.mark().await;
            queue.set_paused(&name, action == Action::QueuePause).await.unwrap();
            name
        }
        Action::RetentionSet => {
            let (_, key) = world.definition().await;
            world.mark().await;
            let week = Some(Duration::from_secs(604_800));
            queue.set_retention(tenant, Some(&key), State::Failed, week, "tester").await.unwrap();
            key
        }
        Action::RetentionClear => {
            let (_, key) = world.definition().await;
            queue.set_retention(tenant, Some(&key), State::Failed, None, "fixture").await.unwrap();
            let acting = begin(world, Reach::Tenant(tenant)).await;
            acting.clear_retention(Some(&key), "failed").await.unwrap();
            acting.commit().await.unwrap();
            key
        }
        Action::TenantCreate => {
            world.mark().await;
            queue.ensure_tenant(&new_name(), "T", 1).await.unwrap().to_string()
        }
        Action::TenantChange => {
            let slug = new_name();
            let id = queue.tenant(&slug).await;
            world.mark().await;
            // One that is already as requested is not written, and not recorded.
            queue.ensure_tenant(&slug, &slug, 1).await.unwrap();
            queue.ensure_tenant(&slug, "other", 2).await.unwrap();
            id.to_string()
        }
        Action::TenantLimits => {
            let id = world.tenant().await;
            let acting = begin(world, Reach::Everything).await;
            let limits = Fields::from_iter([("max_queued".to_owned(), json!(7))]);
            acting.change_tenant(id, &limits).await.unwrap();
            acting.commit().await.unwrap();
            id.to_string()
        }
        Action::TenantDelete => {
            let id = world.tenant().await;
            world.mark().await;
            queue.delete_tenant(id, |_| ()).await.unwrap();
            id.to_string()
        }
        Action::TriggerCreate => {
            world.mark().await;
            let new = NewTrigger::event("l", "x.y", "a");
            queue.create_trigger(tenant, &new, "tester").await.unwrap().id.to_string()
        }
        Action::TriggerUpdate => {
            let id = world.trigger().await;
            let changes = Map::from_iter([("is_enabled".to_owned(), Value::from(false))]);
            world.mark().await;
            queue.update_trigger(tenant, id, None, &changes, "tester").await.unwrap();
            id.to_string()
        }
        Action::TriggerDelete => {
            let id = world.trigger().await;
            world.mark().await;
            queue.delete_trigger(tenant, id, None, "tester").await.unwrap();
            id.to_string()
        }
        Action::TriggerRun => {
            let id = world.trigger().await;
            world.mark().await;
            queue.run_trigger(tenant, id, None, "tester").await.unwrap();
            id.to_string()
        }
        Action::TriggerBackfill => {
            let id = world.trigger().await;
            let at = |text: &str| -> Timestamp { text.parse().unwrap() };
            let range = at("2026-01-01T00:00:00Z")..=at("2026-01-02T12:00:00Z");
            world.mark().await;
            queue.backfill(tenant, id, range.clone(), true, "tester").await.unwrap();
            queue.backfill(tenant, id, range, false, "tester").await.unwrap();
            id.to_string()
        }
        Action::WorkerDrain | Action::WorkerResume => {
            let id = world.worker(action).await;
            world.mark().await;
            assert!(queue.set_draining(&id, action == Action::WorkerDrain).await.unwrap());
            id
        }
        _ => return of_people(world, action).await,
    })
}

/// Tokens, accounts and sessions: only in a caller's transaction.
async fn of_people(world: &World, action: Action) -> Option<String> {
    let tenant = DEFAULT_TENANT;
    let hash = Sha256::digest(new_name()).to_vec();
    Some(match action {
        Action::TokenCreate | Action::TokenRotate | Action::TokenRevoke => {
            let acting = world.acting(Reach::Everything).await;
            let first = acting.create_token(tenant, &new_token(), &hash).await.unwrap();
            if action == Action::TokenCreate {
                world.mark().await;
                acting.commit().await.unwrap();
                return Some(first.id);
            }
            acting.commit().await.unwrap();
            let acting = begin(world, Reach::Everything).await;
            let id = if action == Action::TokenRotate {
                let other = Sha256::digest(new_name()).to_vec();
                acting.rotate_token(&first, 60, &new_token(), &other).await.unwrap().id
            } else {
                acting.revoke_token(tenant, &first.id).await.unwrap().id
            };
            acting.commit().await.unwrap();
            id
        }
        Action::MemberRole | Action::MemberRemove => {
            let (user, _) = world.person("viewer").await;
            let acting = begin(world, Reach::Tenant(tenant)).await;
            if action == Action::MemberRole {
                acting.set_member_role(tenant, user, "operator").await.unwrap();
            } else {
                acting.remove_member(tenant, user).await.unwrap();
            }
            acting.commit().await.unwrap();
            user.to_string()
        }
        Action::InvitationCreate => {
            let acting = begin(world, Reach::Tenant(tenant)).await;
            let email = format!("{}@example.com", new_name());
            let made = acting.create_invitation(tenant, (&email, "viewer"), &hash, 600).await.unwrap();
            acting.commit().await.unwrap();
            made.id.to_string()
        }
        Action::InvitationRevoke => {
            let invited = invited(world, &hash).await;
            let acting = begin(world, Reach::Tenant(tenant)).await;
            acting.revoke_invitation(tenant, invited.id).await.unwrap();
            acting.commit().await.unwrap();
            invited.id.to_string()
        }
        Action::InvitationAccept => {
            let invited = invited(world, &hash).await;
            let acting = begin(world, Reach::Tenant(tenant)).await;
            let account =
                NewAccount { id: Uuid::now_v7(), name: String::new(), password_hash: "h".to_owned() };
            assert!(acting.accept_invitation_as_new(&invited, &hash, &account).await.unwrap().is_some());
            acting.commit().await.unwrap();
            invited.id.to_string()
        }
        Action::PasswordChange => {
            let (user, email) = world.person("viewer").await;
            let old = world.server.queue.account(&email).await.unwrap().unwrap().password_hash.unwrap();
            let acting = begin(world, Reach::Tenant(tenant)).await;
            assert!(acting.change_password(user, (&old, "h"), None).await.unwrap());
            acting.commit().await.unwrap();
            user.to_string()
        }
        Action::PasswordResetLink | Action::PasswordReset | Action::PasswordResetRevoke => {
            let (user, _) = world.person("viewer").await;
            let acting = begin(world, Reach::Everything).await;
            assert!(acting.create_password_reset(INSTALLATION, user, &hash, 600).await.unwrap().is_some());
            acting.commit().await.unwrap();
            if action == Action::PasswordReset {
                let acting = begin(world, Reach::Everything).await;
                assert_eq!(acting.reset_password(&hash, "h").await.unwrap(), Some(user));
                acting.commit().await.unwrap();
            } else if action == Action::PasswordResetRevoke {
                let acting = begin(world, Reach::Everything).await;
                assert_eq!(acting.revoke_password_reset(None, user).await.unwrap().user_id, user);
                acting.commit().await.unwrap();
            }
            user.to_string()
        }
        Action::SessionBegin | Action::SessionEnd | Action::SessionTenant => {
            let (user, email) = world.person("viewer").await;
            let known = world.server.queue.account(&email).await.unwrap().unwrap().password_hash.unwrap();
            let acting = begin(world, Reach::Everything).await;
            let of = SessionOf::User { id: user, password_hash: &known };
            let (seconds, replaces) = (600, None);
            let new = NewSession { hash: &hash, of, seconds, replaces, from_address: None, user_agent: None };
            assert!(acting.create_session(&new).await.unwrap());
            acting.commit().await.unwrap();
            if action == Action::SessionBegin {
                return Some(format!("user:{user}"));
            }
            if action == Action::SessionEnd {
                let acting = begin(world, Reach::Everything).await;
                assert!(acting.end_session(&hash).await.unwrap());
                acting.commit().await.unwrap();
                return Some(format!("user:{user}"));
            }
            let other = world.tenant().await;
            world.server.member(other, &email, "viewer").await;
            let acting = begin(world, Reach::Tenant(other)).await;
            acting.choose_tenant(&hash, other).await.unwrap();
            acting.commit().await.unwrap();
            other.to_string()
        }
        _ => panic!("{action}: perform it with the library"),
    })
}

/// Marks, and starts a transaction.
async fn begin(world: &World, reach: Reach) -> Acting {
    world.mark().await;
    world.acting(reach).await
}

fn new_token() -> NewToken {
    NewToken {
        id: format!("{:016x}", Uuid::now_v7().as_u64_pair().1),
        kind: "api".to_owned(),
        name: "t".to_owned(),
        role: "viewer".to_owned(),
        scopes: None,
        created_by: "tester".to_owned(),
        expires_at: None,
    }
}

async fn invited(world: &World, hash: &[u8]) -> InvitedTo {
    let acting = world.acting(Reach::Tenant(DEFAULT_TENANT)).await;
    let email = format!("{}@example.com", new_name());
    acting.create_invitation(DEFAULT_TENANT, (&email, "viewer"), hash, 600).await.unwrap();
    acting.commit().await.unwrap();
    world.server.queue.find_invitation(hash).await.unwrap().unwrap()
}
