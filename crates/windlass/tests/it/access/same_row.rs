//! Every act of an operator, with SQL and with the library: each leaves one row, and both rows are the same.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::admin::{Acting, Action, Actor, Fields, INSTALLATION, Reach};
use windlass::events::NewEvent;
use windlass::internals::NewToken;
use windlass::job::Filter;
use windlass::retention::HoldOn;
use windlass::schedule::NewTrigger;
use windlass::{Definition, NewJob, Queue};
use windlass_testing::{Login, TestQueue, settings};

use crate::support::register;

/// Only the server does these, or they have no row if they are done with SQL: the job or the event is the record.
const NOT_OF_OPERATORS: [Action; 17] = [
    Action::EventEmit,
    Action::HookReceive,
    Action::InvitationAccept,
    Action::InvitationCreate,
    Action::InvitationRevoke,
    Action::JobEnqueue,
    Action::JobEnqueueMany,
    Action::MemberRemove,
    Action::MemberRole,
    Action::PasswordChange,
    Action::PasswordReset,
    Action::PasswordResetLink,
    Action::PasswordResetRevoke,
    Action::Request,
    Action::SessionBegin,
    Action::SessionEnd,
    Action::SessionTenant,
];

/// What an act is done to, new for each.
struct Objects {
    tenant: Uuid,
    other: Uuid,
    job: Uuid,
    ended: Uuid,
    definition: Uuid,
    worker: String,
    hold: Uuid,
    trigger: Uuid,
    schedule: Uuid,
    event: Uuid,
    /// Of a definition, a tag, a queue, a slug and a token.
    name: String,
    unused: String,
}

async fn objects(queue: &TestQueue, action: Action) -> Objects {
    let admin = queue.client().await;
    let [name, unused] = [(); 2].map(|()| format!("n{}", Uuid::now_v7().simple()));
    let (tenant, other) =
        (queue.tenant(&format!("{name}-a")).await, queue.tenant(&format!("{name}-b")).await);
    let definition = queue.define(&Definition::new(&name)).await.unwrap();
    let new = NewJob::new("a").tenant(tenant).tag(&name);
    let [job, ended] = [queue.enqueue(&new).await.unwrap().id, queue.enqueue(&new).await.unwrap().id];
    queue.cancel(tenant, ended).await.unwrap();
    let hold =
        queue.hold(tenant, &HoldOn::Subject { kind: "s".into(), id: "1".into() }, "r", "x").await.unwrap();
    let trigger = queue.create_trigger(tenant, &NewTrigger::event("t", "e", "a"), "x").await.unwrap().id;
    let schedule = NewTrigger::schedule("s", "0 2 * * *", "a");
    let schedule = queue.create_trigger(tenant, &schedule, "x").await.unwrap().id;
    let event = queue.emit(&NewEvent::new("e").tenant(tenant)).await.unwrap().id;
    let worker = register(&admin).await;
    let fill = format!(
        "insert into windlass.api_tokens (tenant_id, id, kind, name, secret_hash, role, created_by)
           values ('{tenant}', '{name}', 'api', 'n', '\\x01', 'viewer', 'x');
         insert into windlass.retention (tenant_id, definition_key, status, keep_seconds) values ('{tenant}', '{name}', 'canceled', 60);
         insert into windlass.event_dispatch (tenant_id, event_id, trigger_id, outcome, reason)
           values ('{tenant}', '{event}', '{trigger}', 'failed', 'r');
         insert into windlass.queues (name, is_paused) values ('{name}', {});
         insert into windlass.drain_request select {worker}, 'w' where {}",
        action == Action::QueueResume,
        action == Action::WorkerResume
    );
    admin.batch_execute(&fill).await.unwrap();
    let query = format!("select worker_id from windlass.job_workers where id = {worker}");
    let worker = admin.query_one(&query, &[]).await.unwrap().get(0);
    Objects { tenant, other, job, ended, definition, worker, hold, trigger, schedule, event, name, unused }
}

fn token(id: &str) -> NewToken {
    let [kind, name, role] = ["api", "n", "viewer"].map(str::to_owned);
    let (scopes, created_by, expires_at) = (None, String::new(), None);
    NewToken { id: id.to_owned(), kind, name, role, scopes, created_by, expires_at }
}

/// The fields of a trigger, as create_trigger takes them.
fn trigger(label: &str) -> Value {
    let mut fields = json!(NewTrigger::event(label, "e", "a"));
    fields.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    fields
}

/// The call of the function; none if operators do not do this.
fn call(action: Action, of: &Objects) -> Option<String> {
    let Objects {
        tenant, other, job, ended, definition, worker, hold, schedule, event, name, unused, ..
    } = of;
    let (id, new) = (of.trigger, Uuid::now_v7());
    let filter = json!({"tag": name});
    Some(match action {
        Action::DefinitionCreate => format!("create_definition('{}')", json!({"key": unused})),
        Action::DefinitionChange => format!("change_definition('{definition}', '{{\"max_attempts\": 7}}', null)"),
        Action::EventRetry => {
            format!("retry_dispatch('{tenant}', '{event}', '{id}', null, '{new}', 'a', '{{}}', null, 0)")
        }
        Action::HoldPlace => format!("place_hold('{tenant}', '{job}', null, null, 'r', null)"),
        Action::HoldRelease => format!("release_hold('{tenant}', '{hold}')"),
        Action::JobCancel => format!("cancel('{tenant}', '{job}')"),
        Action::JobCancelMany => format!("cancel_many('{tenant}', array['{job}']::uuid[], '{filter}')"),
        Action::JobRetry => format!("retry('{tenant}', '{ended}', null)"),
        Action::JobRetryMany => format!("retry_many('{tenant}', array['{ended}']::uuid[], '{filter}', null)"),
        Action::JobDeleteMany => {
            format!("purge('{tenant}', array['{ended}', '{job}']::uuid[], false, '{filter}')")
        }
        Action::QueuePause => format!("set_paused('{name}', true)"),
        Action::QueueResume => format!("set_paused('{name}', false)"),
        Action::RetentionSet => format!("set_retention('{tenant}', '{name}', 'canceled', 90, false)"),
        Action::RetentionClear => format!("set_retention('{tenant}', '{name}', 'canceled', null, true)"),
        Action::TenantCreate => format!("create_tenant('{}')", json!({"slug": unused, "name": "T"})),
        Action::TenantChange => format!("change_tenant('{other}', '{{\"name\": \"T\", \"max_queued\": 7}}')"),
        Action::TenantLimits => format!("change_tenant('{other}', '{{\"max_queued\": 7}}')"),
        Action::TenantDelete => format!("mark_tenant_deleting('{other}')"),
        Action::TokenCreate => format!("create_token('{tenant}', '{}', '\\x02')", json!(token(unused))),
        Action::TokenRevoke => format!("revoke_token('{tenant}', '{name}')"),
        Action::TokenRotate => {
            format!("rotate_token('{tenant}', '{name}', 60, '{}', '\\x02')", json!(token(unused)))
        }
        Action::TriggerCreate => format!("create_trigger('{tenant}', '{}', null)", trigger("new")),
        Action::TriggerUpdate => {
            let fields = trigger("other");
            format!("update_trigger('{tenant}', '{id}', 1, '{fields}', false, null, '{{}}', '')")
        }
        Action::TriggerDelete => format!("delete_trigger('{tenant}', '{id}', 1, '{{}}')"),
        Action::TriggerRun => {
            format!("run_trigger('{tenant}', '{id}', 1, null, array['{new}']::uuid[], 'a', array['{{}}'::jsonb])")
        }
        Action::TriggerBackfill => format!(
            "run_trigger('{tenant}', '{schedule}', 1, array['2026-01-01T02:00:00Z', '2026-01-02T02:00:00Z']::timestamptz[],
               array['{new}', '{}']::uuid[], 'a', array['{{}}', '{{}}']::jsonb[])",
            Uuid::now_v7()
        ),
        Action::WorkerDrain => format!("set_draining('{worker}', true)"),
        Action::WorkerResume => format!("set_draining('{worker}', false)"),
        _ => return None,
    })
}

/// The same with the library. Tokens and the acts of the installation without a current tenant.
async fn act(theirs: &Queue, action: Action, of: &Objects) {
    let reach = match call(action, of).unwrap() {
        call if call.contains("token") || !call.contains(&of.tenant.to_string()) => Reach::Everything,
        _ => Reach::Tenant(of.tenant),
    };
    let acting = theirs.act(reach, &Actor::default()).await.unwrap();
    verb(&acting, action, of).await;
    acting.commit().await.unwrap();
}

async fn verb(acting: &Acting, action: Action, of: &Objects) {
    let fields = |value: Value| -> Fields { value.as_object().unwrap().clone() };
    let filter = Filter::new(of.tenant).tag(&of.name);
    let (name, keep) = (of.name.as_str(), Some(std::time::Duration::from_secs(90)));
    let done = match action {
        Action::DefinitionCreate => {
            acting.create_definition(&fields(json!({"key": of.unused}))).await.map(drop)
        }
        Action::DefinitionChange => {
            acting.change_definition(of.definition, &fields(json!({"max_attempts": 7})), None).await.map(drop)
        }
        Action::EventRetry => acting.retry_event(of.event, of.trigger).await.map(drop),
        Action::HoldPlace => acting.hold(&HoldOn::Job(of.job), "r").await.map(drop),
        Action::HoldRelease => acting.release(of.hold).await.map(drop),
        Action::JobCancel => acting.cancel(of.job).await.map(drop),
        Action::JobCancelMany => acting.cancel_many(&filter, None).await.map(drop),
        Action::JobRetry => acting.retry(of.ended).await.map(drop),
        Action::JobRetryMany => acting.retry_many(&filter, None).await.map(drop),
        Action::JobDeleteMany => acting.delete_many(&filter, None).await.map(drop),
        Action::QueuePause | Action::QueueResume => {
            acting.set_paused(name, action == Action::QueuePause).await
        }
        Action::RetentionSet => acting.set_retention_by_name(Some(name), "canceled", keep).await.map(drop),
        Action::RetentionClear => acting.clear_retention(Some(name), "canceled").await,
        Action::TenantCreate => {
            acting.create_tenant(&fields(json!({"slug": of.unused, "name": "T"}))).await.map(drop)
        }
        Action::TenantChange => {
            acting.change_tenant(of.other, &fields(json!({"name": "T", "max_queued": 7}))).await.map(drop)
        }
        Action::TenantLimits => {
            acting.change_tenant(of.other, &fields(json!({"max_queued": 7}))).await.map(drop)
        }
        Action::TenantDelete => acting.delete_tenant(of.other).await.map(drop),
        Action::TokenCreate => acting.create_token(of.tenant, &token(&of.unused), &[2]).await.map(drop),
        Action::TokenRevoke => acting.revoke_token(of.tenant, name).await.map(drop),
        Action::TokenRotate => {
            let old = acting.token(name).await.unwrap();
            acting.rotate_token(&old, 60, &token(&of.unused), &[2]).await.map(drop)
        }
        Action::TriggerCreate => acting.create_trigger(&NewTrigger::event("new", "e", "a")).await.map(drop),
        Action::TriggerUpdate => {
            acting.update_trigger(of.trigger, None, &fields(json!({"label": "other"}))).await.map(drop)
        }
        Action::TriggerDelete => acting.delete_trigger(of.trigger, None).await,
        Action::TriggerRun => acting.run_trigger(of.trigger, None).await.map(drop),
        Action::TriggerBackfill => {
            let range = "2026-01-01T00:00:00Z".parse().unwrap()..="2026-01-02T12:00:00Z".parse().unwrap();
            acting.backfill(of.schedule, range, false).await.map(drop)
        }
        Action::WorkerDrain | Action::WorkerResume => {
            acting.set_draining(&of.worker, action == Action::WorkerDrain).await
        }
        _ => panic!("{action}: perform it with the library"),
    };
    done.unwrap_or_else(|error| panic!("{action}: {error}"));
}

/// Trail, action, target, actor, before and after, without what differs between two objects.
fn comparable(row: &tokio_postgres::Row, of: &Objects) -> Value {
    let trail = match row.get::<_, Uuid>(0) {
        INSTALLATION => "installation",
        tenant if tenant == of.tenant => "tenant",
        _ => "another tenant",
    };
    let texts = [1, 2, 3].map(|column| row.get::<_, String>(column));
    let states = [4, 5].map(|column| row.get::<_, Option<Value>>(column));
    let mut all = json!([trail, texts, states]);
    strip(&mut all, of);
    all
}

fn strip(value: &mut Value, of: &Objects) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| name != "version");
            members.values_mut().for_each(|member| strip(member, of));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| strip(item, of)),
        Value::String(text) => {
            for name in [&of.name, &of.unused, &of.worker] {
                *text = text.replace(name.as_str(), "name");
            }
            if text.parse::<Uuid>().is_ok() {
                *text = "id".to_owned();
            } else if text.parse::<jiff::Timestamp>().is_ok() {
                *text = "instant".to_owned();
            }
        }
        _ => {}
    }
}

/// The one row since a mark.
async fn row(admin: &Client, mark: i64, of: &Objects) -> Value {
    let query = "select tenant_id, action, target, actor, before, after from windlass.audit where id > $1";
    let rows = admin.query(query, &[&mark]).await.unwrap();
    let [row] = &rows[..] else { panic!("{} rows: {rows:?}", rows.len()) };
    comparable(row, of)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_act_has_the_same_row_with_sql_and_with_the_library() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let role = Login::create(&queue, "windlass_operator").await;
    let (client, admin) = (role.client().await, queue.client().await);
    let theirs = Queue::connect_as_operator(settings(role.url()).connections(1)).await.unwrap();
    let mark = async || -> i64 {
        admin.query_one("select coalesce(max(id), 0) from windlass.audit", &[]).await.unwrap().get(0)
    };
    let mut not_done = BTreeSet::new();
    for action in Action::ALL.iter().copied() {
        let of = objects(&queue, action).await;
        let Some(call) = call(action, &of) else {
            not_done.insert(action);
            continue;
        };
        let since = mark().await;
        client.batch_execute(&format!("select windlass.{call}")).await.unwrap();
        let with_sql = row(&admin, since, &of).await;
        let trail = if call.contains(&of.tenant.to_string()) { "tenant" } else { "installation" };
        assert_eq!((&with_sql[0], &with_sql[1][0]), (&json!(trail), &json!(action.as_str())));
        let of = objects(&queue, action).await;
        let since = mark().await;
        act(&theirs, action, &of).await;
        assert_eq!(row(&admin, since, &of).await, with_sql, "{action}");
    }
    assert_eq!(not_done, BTreeSet::from(NOT_OF_OPERATORS), "perform these with SQL and with the library");
    drop((client, theirs));
    role.drop().await;
}
