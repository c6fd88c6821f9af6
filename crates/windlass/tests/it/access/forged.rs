//! What an operator writes beside an act neither replaces nor hides nor falsifies the row of the act.

use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::admin::INSTALLATION;
use windlass::schedule::NewTrigger;
use windlass::{Definition, NewJob};
use windlass_testing::{Login, TestQueue};

use super::refusal;

/// An act with the row that it must leave. Before and after are a part of what the row contains.
struct Act {
    call: String,
    action: &'static str,
    target: String,
    trail: Uuid,
    before: Value,
    after: Value,
}

/// Acts on new objects.
async fn acts(queue: &TestQueue, tenant: Uuid) -> Vec<Act> {
    let admin = queue.client().await;
    let job = async || queue.enqueue(&NewJob::new("a").tenant(tenant)).await.unwrap().id;
    let (canceled, purged) = (job().await, job().await);
    let trigger =
        queue.create_trigger(tenant, &NewTrigger::event("t", "e", "a"), "fixture").await.unwrap().id;
    let (name, seconds) = (Uuid::now_v7().simple().to_string(), Uuid::now_v7().as_u64_pair().1 % 1_000_000);
    let fill = format!(
        "insert into windlass.api_tokens (tenant_id, id, kind, name, secret_hash, role, created_by)
           values ('{tenant}', '{name}', 'api', 'n', '\\x01', 'viewer', 'x');
         delete from windlass.retention; update windlass.tenants set weight = 1 where id = '{tenant}'"
    );
    admin.batch_execute(&fill).await.unwrap();
    let act = |call: String, action, target: String, trail, before, after| Act {
        call: format!("select windlass.{call}"),
        action,
        target,
        trail,
        before,
        after,
    };
    vec![
        act(
            format!("cancel('{tenant}', '{canceled}')"),
            "job.cancel",
            canceled.to_string(),
            tenant,
            json!({"status": "queued"}),
            json!({"status": "canceled"}),
        ),
        act(
            format!("purge('{tenant}', array['{purged}']::uuid[])"),
            "job.delete_many",
            "1 job".to_owned(),
            tenant,
            Value::Null,
            json!({"changed": 1, "ids": [purged]}),
        ),
        act(
            format!("set_retention('{tenant}', '*', 'failed', {seconds}, false)"),
            "retention.set",
            "*".to_owned(),
            tenant,
            Value::Null,
            json!({"definition_key": "*", "status": "failed", "keep_seconds": seconds}),
        ),
        act(
            format!("revoke_token('{tenant}', '{name}')"),
            "token.revoke",
            name.clone(),
            tenant,
            json!({"id": name, "revoked_at": null}),
            json!({"id": name}),
        ),
        act(
            format!("delete_trigger('{tenant}', '{trigger}', 1, '{{}}')"),
            "trigger.delete",
            trigger.to_string(),
            tenant,
            json!({"label": "t", "definition_key": "a"}),
            Value::Null,
        ),
        act(
            format!("change_tenant('{tenant}', '{{\"weight\": 2}}')"),
            "tenant.change",
            tenant.to_string(),
            INSTALLATION,
            json!({"weight": 1}),
            json!({"weight": 2}),
        ),
        act(
            format!("set_paused('{name}', true)"),
            "queue.pause",
            name,
            INSTALLATION,
            Value::Null,
            json!({"is_paused": true}),
        ),
    ]
}

/// Whether the value has all members of the other one.
fn contains(value: &Value, part: &Value) -> bool {
    match part.as_object() {
        Some(members) => members.iter().all(|(name, member)| value.get(name) == Some(member)),
        None => value == part,
    }
}

/// Runs the statements of one transaction, each after a savepoint. Returns the refusals.
async fn transact(client: &Client, statements: &[&str]) -> Vec<String> {
    let mut refused = Vec::new();
    client.batch_execute("begin").await.unwrap();
    for statement in statements {
        client.batch_execute("savepoint each_statement").await.unwrap();
        if let Err(error) = client.batch_execute(statement).await {
            refused.push(refusal::<()>(Err(error)));
            client.batch_execute("rollback to each_statement").await.unwrap();
        }
    }
    client.batch_execute("commit").await.unwrap();
    refused
}

/// A-351: an operator wrote the row of an act before or after it, with a false state before and after, or into the trail of the
/// installation, and no other row was written.
#[tokio::test(flavor = "multi_thread")]
async fn no_row_of_an_operator_replaces_that_of_an_action() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let tenant = queue.tenant("acme").await;
    let role = Login::create(&queue, "windlass_operator").await;
    let (client, admin) = (role.client().await, queue.client().await);
    let at_once = "set constraints all immediate";
    for way in 0..7 {
        for act in acts(&queue, tenant).await {
            let (call, action, target) = (act.call.as_str(), act.action, &act.target);
            let forge = |trail: Uuid| {
                format!(
                    "select windlass.record_audit('{trail}', null, null, null, null, '{action}', '{target}', 'done',
                       '{{\"status\": \"forged\"}}', '{{\"status\": \"forged\"}}')"
                )
            };
            let many = format!(
                "select windlass.record_audits('{tenant}', '{{a}}', '{{a}}', '{{a}}', '{{a}}', '{action}', array['{target}'],
                   array['{{\"status\": \"forged\"}}']::jsonb[])"
            );
            let job = Uuid::now_v7();
            let enqueued = format!(
                "select windlass.enqueue_as('{tenant}', '{job}', r.lane, 1::smallint, '{{}}', null, '{tenant}', null, null, null, null,
                   '{action}', '{target}', 'done', null, null) from windlass.route_of('{tenant}', 'a', null, null) r"
            );
            let (own, nil) = (forge(tenant), forge(INSTALLATION));
            let (statements, forged) = match way {
                0 => (vec![call, &own], 1),
                1 => (vec![call, &nil], 1),
                2 => (vec![&own, &nil, call], 2),
                3 => (vec![call, at_once, &own, "set constraints all deferred", &nil], 2),
                4 => (vec!["savepoint s", call, &own, "release s", &nil], 2),
                5 => (vec![call, &many, &many], 2),
                _ => (vec!["set local windlass.actor = '{\"name\": \"user:ada\"}'", call, &own], 1),
            };
            let query = "select coalesce(max(id), 0) from windlass.audit";
            let mark: i64 = admin.query_one(query, &[]).await.unwrap().get(0);
            assert_eq!(transact(&client, &statements).await, vec!["WL007"; forged], "{statements:?}");
            assert_eq!(transact(&client, &[&enqueued]).await, ["WL007"], "{enqueued}");
            let rows = "select tenant_id, actor, role, action, target, outcome, before, after from windlass.audit where id > $1";
            let rows = admin.query(rows, &[&mark]).await.unwrap();
            let [row] = &rows[..] else { panic!("{statements:?}: {rows:?}") };
            // `cancel` takes no name.
            let actor = if way == 6 && action != "job.cancel" { " as user:ada" } else { "" };
            assert_eq!(row.get::<_, Uuid>(0), act.trail, "{statements:?}");
            assert_eq!(row.get::<_, String>(1), format!("login:{}{actor}", role.name));
            let texts = [2, 3, 4, 5].map(|column| row.get::<_, String>(column));
            assert_eq!(texts, [&role.name, action, target, "done"].map(str::to_owned));
            for (column, part) in [(6, &act.before), (7, &act.after)] {
                let found = row.get::<_, Option<Value>>(column).unwrap_or_default();
                assert!(contains(&found, part), "{statements:?}: {found} does not contain {part}");
            }
        }
    }
    drop(client);
    role.drop().await;
}

/// A-352: the name that a caller gives with a setting follows its login; no setting changes what is recorded.
#[tokio::test]
async fn the_name_that_a_caller_gives_follows_its_login() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    for group in ["windlass_operator", "windlass_server"] {
        let role = Login::create(&queue, group).await;
        let client = role.client().await;
        let (name, login) = (&role.name, format!("login:{}", role.name));
        let full = r#"{"name": "user:ada", "role": "r", "from_address": "192.0.2.1", "request_id": "7"}"#;
        let local = format!(r#"{{"name": "local:ada@{name}"}}"#);
        let foreign =
            r#"{"name": "local:ada@postgres", "action": "queue.resume", "target": "x", "tenant_id": "y"}"#;
        let is_server = group == "windlass_server";
        let named = |name: &str| if is_server { name.to_owned() } else { format!("{login} as {name}") };
        let expected = [
            ("", login.clone(), name.clone(), None),
            ("{}", login.clone(), name.clone(), None),
            ("[1]", login.clone(), name.clone(), None),
            (r#""ada""#, login.clone(), name.clone(), None),
            (
                full,
                named("user:ada"),
                if is_server { "r".to_owned() } else { name.clone() },
                is_server.then_some("192.0.2.1"),
            ),
            (local.as_str(), format!("local:ada@{name}"), name.clone(), None),
            (foreign, named("local:ada@postgres"), name.clone(), None),
        ];
        for (setting, actor, recorded_role, address) in expected {
            let queue_name = Uuid::now_v7().to_string();
            let call =
                format!("set windlass.actor = '{setting}'; select windlass.set_paused('{queue_name}', true)");
            client.batch_execute(&call).await.unwrap();
            let row = "select tenant_id, action, actor, role, from_address, request_id from windlass.audit where target = $1";
            let row = admin.query_one(row, &[&queue_name]).await.unwrap();
            assert_eq!((row.get::<_, Uuid>(0), row.get::<_, &str>(1)), (INSTALLATION, "queue.pause"));
            let found: (String, String, Option<&str>) = (row.get(2), row.get(3), row.get(4));
            assert_eq!(found, (actor, recorded_role, address), "{group}: {setting}");
            assert_eq!(row.get::<_, Option<&str>>(5), address.map(|_| "7"), "{group}: {setting}");
        }
        // What cannot be read as a name is not ignored.
        client.batch_execute("set windlass.actor = 'ada'").await.unwrap();
        assert_eq!(refusal(client.query("select windlass.set_paused('unnamed', true)", &[]).await), "22P02");
        drop(client);
        role.drop().await;
    }
}

/// A-353: a session of the admin's login with another tenant as the current one.
#[tokio::test]
async fn an_act_on_an_account_is_in_the_trail_of_the_installation() {
    let queue = TestQueue::create().await;
    let tenant = queue.tenant("unrelated").await;
    let (admin, user) = (queue.client().await, Uuid::now_v7());
    let fill = format!(
        "insert into windlass.users (id, email, name, password_hash) values ('{user}', 'a@example.com', 'A', 'old')"
    );
    admin.batch_execute(&fill).await.unwrap();
    let role = Login::create(&queue, "windlass_admin").await;
    let calls = format!(
        "set windlass.tenant_id = '{tenant}'; select windlass.change_password('{user}', 'old', 'new', null);
         select windlass.create_session('\\x01', '{user}', null, 'new', null, 60, null, null); select windlass.end_session('\\x01')"
    );
    role.client().await.batch_execute(&calls).await.unwrap();
    let trails = "select action, tenant_id from windlass.audit where actor = $1 order by id";
    let rows = admin.query(trails, &[&format!("login:{}", role.name)]).await.unwrap();
    let rows: Vec<(String, Uuid)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let wanted =
        ["password.change", "session.begin", "session.end"].map(|action| (action.to_owned(), INSTALLATION));
    assert_eq!(rows, wanted);
    role.drop().await;
}
