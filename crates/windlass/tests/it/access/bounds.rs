//! What a login can store or keep locked: nothing that others cannot read, and nothing that they wait for.

use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::DEFAULT_TENANT;
use windlass::schedule::NewTrigger;
use windlass_testing::{Login, TestQueue, until_waits_or_ends};

use super::refusal;
use crate::support::count;

/// The field that a call is refused for (WL007).
async fn refused_field(client: &Client, call: &str) -> String {
    let error = client.batch_execute(call).await.expect_err(call);
    let error = error.as_db_error().unwrap_or_else(|| panic!("{call}: {error}")).clone();
    assert_eq!(error.code().code(), "WL007", "{call}: {error}");
    error.column().unwrap_or_default().to_owned()
}

/// A-421: a new partition locks the default one until the end of the transaction.
#[tokio::test]
async fn a_keepers_login_creates_no_more_partitions_than_keepers_do() {
    let queue = TestQueue::create().await;
    let role = Login::create(&queue, "windlass_keeper").await;
    let keeper = role.client().await;
    assert_eq!(refused_field(&keeper, "select windlass.maintain_partitions(3)").await, "days_ahead");
    keeper.batch_execute("begin; select windlass.maintain_partitions(2)").await.unwrap();
    let locks = "select count(*) from pg_locks l join pg_class c on c.oid = l.relation
        where c.relnamespace = 'windlass'::regnamespace and l.mode = 'AccessExclusiveLock'
          and l.database = (select d.oid from pg_database d where d.datname = current_database())";
    assert_eq!(count(&queue.client().await, locks).await, 0, "all of them exist");
    drop(keeper);
    role.drop().await;
}

/// A-422: each try makes all readers wait for a tenth of a second, and every worker process has a keeper.
#[tokio::test]
async fn a_partition_that_is_not_needed_yet_is_tried_once_per_round() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let drop_next = "do $$ declare part text;
      begin
        foreach part in array windlass.partitioned() loop
          execute format('drop table windlass.%I', part || to_char(now() at time zone 'UTC' + interval '2 days', '_YYYYMMDD'));
        end loop;
      end $$";
    admin.batch_execute(drop_next).await.unwrap();
    let reader = queue.client().await;
    reader.batch_execute("begin; select count(*) from windlass.jobs").await.unwrap();
    let round = "select made, is_unfinished from windlass.maintain_partitions(2)";
    let row = admin.query_one(round, &[]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, bool>(1)), (0, false));
    // Nor by another keeper, whose round comes a moment later, and not before ten minutes have passed.
    reader.batch_execute("commit").await.unwrap();
    for (minutes, made) in [(0, 0), (9, 0), (11, 4)] {
        let passed = "update windlass.partition_rate set busy_at = busy_at - make_interval(mins => $1)";
        assert_eq!(admin.execute(passed, &[&minutes]).await.unwrap(), 1);
        let row = admin.query_one(round, &[]).await.unwrap();
        assert_eq!((row.get::<_, i32>(0), row.get::<_, bool>(1)), (made, false), "after {minutes} minutes");
    }
}

/// A-423: such a row made the whole list unreadable.
#[tokio::test]
async fn nothing_is_stored_that_a_list_of_workers_or_tokens_cannot_show() {
    let queue = TestQueue::create().await;
    let worker = Login::create(&queue, "windlass_worker").await;
    let client = worker.client().await;
    let long = "repeat('x', 501)";
    for (arguments, field) in [
        ("'x', 'h', 'v', '{}', array[null]::text[], 60, '{}'".to_owned(), "definition_keys"),
        ("'x', 'h', 'v', array['a', null], '{}', 60, '{}'".to_owned(), "queues"),
        (format!("'x', 'h', 'v', array[{long}], '{{}}', 60, '{{}}'"), "queues"),
        ("'', 'h', 'v', '{}', '{}', 60, '{}'".to_owned(), "worker_id"),
        ("E'a\\x1b[2J', 'h', 'v', '{}', '{}', 60, '{}'".to_owned(), "worker_id"),
        (format!("'x', {long}, 'v', '{{}}', '{{}}', 60, '{{}}'"), "hostname"),
        (format!("'x', 'h', {long}, '{{}}', '{{}}', 60, '{{}}'"), "version"),
        ("'x', 'h', 'v', '{}', '{}', 60, to_jsonb(repeat(md5('x'), 9000))".to_owned(), "metadata"),
    ] {
        for function in ["register_worker", "pull_register"] {
            let call = format!("select windlass.{function}({arguments})");
            assert_eq!(refused_field(&client, &call).await, field, "{call}");
        }
    }
    assert_eq!(refused_field(&client, "select windlass.heartbeat(1, -1)").await, "running");

    let operator = Login::create(&queue, "windlass_operator").await;
    let client = operator.client().await;
    let scopes: Vec<String> = (0..101).map(|n| n.to_string()).collect();
    for (fields, field) in [
        (json!({"scopes": [null]}), "scopes"),
        (json!({"scopes": [["a"]]}), "scopes"),
        (json!({"scopes": "a"}), "scopes"),
        (json!({"scopes": ["x".repeat(101)]}), "scopes"),
        (json!({"scopes": scopes}), "scopes"),
        (json!({"id": ""}), "id"),
        (json!({"name": "x".repeat(501)}), "name"),
    ] {
        let mut token = json!({"id": "T", "kind": "api", "name": "n", "role": "viewer"});
        token.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let call = format!("select windlass.create_token('{DEFAULT_TENANT}', '{token}', '\\x00')");
        assert_eq!(refused_field(&client, &call).await, field, "{call}");
    }
    let hold = |why: &str, subject: &str| {
        format!(
            "select windlass.place_hold('{DEFAULT_TENANT}', null, 'a', {subject}, {why}, repeat('z', 300000))"
        )
    };
    assert_eq!(refused_field(&client, &hold("repeat('w', 4097)", "'b'")).await, "reason");
    assert_eq!(refused_field(&client, &hold("'w'", long)).await, "subject_id");
    client.batch_execute(&hold("'w'", "'b'")).await.unwrap();
    let largest = "select max(octet_length(after::text))::bigint from windlass.audit";
    assert!(count(&queue.client().await, largest).await < 2000);
    let tenant = "select windlass.ensure_tenant('t', '', 1)";
    assert_eq!(refused_field(&client, tenant).await, "name");
    assert_eq!(
        refused_field(&client, r#"select windlass.define('{"key": "a", "max_attempts": 5.0}')"#).await,
        "max_attempts"
    );
    drop(client);
    worker.drop().await;
    operator.drop().await;
}

/// A-424: an operator is a person, whose jobs are checked like those of an application.
#[tokio::test]
async fn a_routed_job_of_an_operator_is_checked() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let (own, other) = (queue.tenant("own").await, queue.tenant("other").await);
    admin.batch_execute(r#"select windlass.define('{"key": "a"}')"#).await.unwrap();
    for tenant in [own, other] {
        admin.execute("select windlass.enqueue('a', tenant_id => $1)", &[&tenant]).await.unwrap();
    }
    let lane = |tenant: Uuid| format!("(select id from windlass.lane where tenant_id = '{tenant}')");
    let number =
        async |tenant| count(&admin, &format!("select id::bigint from {} l (id)", lane(tenant))).await;
    let (own_lane, other_lane) = (number(own).await, number(other).await);
    let role = Login::create(&queue, "windlass_operator").await;
    let operator = role.client().await;
    let routed = |tenant: Uuid, lane: i64, attempts: i32, payload: &str| {
        format!(
            "select windlass.enqueue_routed('{tenant}', gen_random_uuid(), {lane}, ({attempts})::smallint, {payload}, null)"
        )
    };
    for (call, field) in [
        (routed(Uuid::from_u128(9), 999_999, 5, "'{}'"), "lane"),
        (routed(own, other_lane, 5, "'{}'"), "lane"),
        (routed(own, own_lane, -5, "'{}'"), "max_attempts"),
    ] {
        assert_eq!(refused_field(&operator, &call).await, field, "{call}");
    }
    let large = routed(own, own_lane, 5, "to_json(repeat('x', 2000000))");
    assert_eq!(refusal(operator.query(&large, &[]).await), "WL005");
    operator.batch_execute(&routed(own, own_lane, 5, "'{}'")).await.unwrap();
    admin.batch_execute(r#"select windlass.define('{"key": "a", "is_active": false}')"#).await.unwrap();
    assert_eq!(refusal(operator.query(&routed(own, own_lane, 5, "'{}'"), &[]).await), "WL002");
    drop(operator);
    role.drop().await;
}

/// A-425: workers that start at once define what is stored already.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_that_defines_what_is_stored_stops_nobody() {
    let queue = TestQueue::create().await;
    let (open, other) = (queue.client().await, queue.client().await);
    let define = r#"select windlass.define('{"key": "a", "timeout_seconds": 7}')"#;
    other.batch_execute(define).await.unwrap();
    open.batch_execute(&format!("begin; {define}")).await.unwrap();
    other.batch_execute("set lock_timeout = '50ms'").await.unwrap();
    other.batch_execute(r#"select windlass.define('{"key": "a", "timeout_seconds": 8}')"#).await.unwrap();
    // A change blocks other changes, and no trigger.
    open.batch_execute(r#"select windlass.define('{"key": "a", "timeout_seconds": 9}')"#).await.unwrap();
    crate::schedule::create(&queue, &NewTrigger::event("t", "x.y", "a")).await;
    other.batch_execute("reset lock_timeout").await.unwrap();
    let change = r#"select windlass.define('{"key": "a", "timeout_seconds": 10}')"#;
    assert_eq!(refusal(other.query(change, &[]).await), "WL016");
}

/// A-426: the second one was recorded as a creation, with what the first one had set.
#[tokio::test(flavor = "multi_thread")]
async fn the_second_of_two_first_definitions_is_recorded_as_a_change() {
    let queue = TestQueue::create().await;
    let (first, second, admin) = (queue.client().await, queue.client().await, queue.client().await);
    first.batch_execute(r#"begin; select windlass.define('{"key": "a", "max_attempts": 1}')"#).await.unwrap();
    let waiting = tokio::spawn(async move {
        second.batch_execute(r#"select windlass.define('{"key": "a", "max_attempts": 9}')"#).await
    });
    until_waits_or_ends(&admin, &waiting).await;
    first.batch_execute("commit").await.unwrap();
    waiting.await.unwrap().unwrap();
    let recorded = "select action, before -> 'max_attempts', after -> 'max_attempts' from windlass.audit
        where action like 'definition.%' order by id";
    let rows = admin.query(recorded, &[]).await.unwrap();
    let rows: Vec<(String, Option<Value>, Value)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let expected = [
        ("definition.create".to_owned(), None, json!(1)),
        ("definition.change".to_owned(), Some(json!(1)), json!(9)),
    ];
    assert_eq!(rows, expected);
}

/// A-427: the time of a transaction is that of its first statement.
#[tokio::test]
async fn an_entry_has_the_time_of_the_act_and_not_of_its_transaction() {
    let queue = TestQueue::create().await;
    let (operator, admin) = (queue.client().await, queue.client().await);
    operator.batch_execute("begin; select now()").await.unwrap();
    let later: String = admin.query_one("select clock_timestamp()::text", &[]).await.unwrap().get(0);
    operator.batch_execute("select windlass.set_paused('backdated', true); commit").await.unwrap();
    let recorded =
        format!("select count(*) from windlass.audit where target = 'backdated' and at >= '{later}'");
    assert_eq!(count(&admin, &recorded).await, 1);
}

/// A-428: an insert that finds its row uses a number too, and at the last one every tenant is refused.
#[tokio::test]
async fn a_turn_at_a_gate_uses_no_number() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let turn = "select windlass.take_turn('00000000-0000-0000-0000-000000000009', 'test')";
    client.batch_execute(turn).await.unwrap();
    let used = "select last_value from windlass.gate_number_seq";
    let before = count(&client, used).await;
    for _ in 0..3 {
        client.batch_execute(turn).await.unwrap();
    }
    assert_eq!(count(&client, used).await, before);
}

/// A-429: the installation is never the current tenant.
#[tokio::test]
async fn the_installation_as_current_tenant_shows_nothing() {
    let queue = TestQueue::create().await;
    let role = Login::create(&queue, "windlass_server").await;
    let server = role.client().await;
    server
        .batch_execute(
            "select set_config('windlass.tenant_id', '00000000-0000-0000-0000-000000000000', false)",
        )
        .await
        .unwrap();
    for call in ["windlass.tokens_of(null, null)", "windlass.heads_of(null)", "windlass.verify_audit()"] {
        assert_eq!(refusal(server.query(&format!("select * from {call}"), &[]).await), "WL003", "{call}");
    }
    drop(server);
    role.drop().await;
}
