//! What a login leaves behind for others: leases, names, views. None of it outlasts the login for long or stops another.

use serde_json::json;
use uuid::Uuid;
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::setup::{Severity, examine};
use windlass::{DEFAULT_TENANT, Definition, NewJob, migrate};
use windlass_testing::{Login, TestQueue, settings};

use super::refusal;
use crate::support::{Hand, count};

async fn findings(queue: &TestQueue, check: &str) -> Vec<String> {
    let all = examine(&settings(queue.url())).await.unwrap();
    let found = all.into_iter().filter(|one| one.check == check && one.severity == Severity::Warning);
    found.map(|one| one.found).collect()
}

/// Two empty ranges of 2020, with the partitions `job_20200106` and `job_20200113`.
async fn create_old_partitions(queue: &TestQueue) {
    let make = "select count(*) filter (where windlass.make_partition(p, d) = 'made')
        from unnest(windlass.partitioned()) p, unnest(array['2020-01-06', '2020-01-13']::date[]) d";
    let client = queue.client().await;
    client.batch_execute("set role windlass_owner").await.unwrap();
    assert_eq!(count(&client, make).await, 8);
}

/// a login needs no privilege on a partition to make a view depend on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_view_on_a_partition_stops_neither_new_partitions_nor_a_migration() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    create_old_partitions(&queue).await;
    let role = Login::create(&queue, "windlass_reader").await;
    let reader = role.client().await;
    assert_eq!(refusal(reader.query("select from windlass.job_20200106", &[]).await), "42501");
    reader.batch_execute("create temp view mine as select from windlass.job_20200106").await.unwrap();

    let round = "select made, dropped, is_unfinished from windlass.maintain_partitions(4)";
    let row = admin.query_one(round, &[]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, i32>(1), row.get::<_, bool>(2)), (8, 1, false));
    assert_eq!(count(&admin, "select count(to_regclass('windlass.job_20200106'))").await, 1);
    let aside = findings(&queue, "skipped rows").await;
    assert!(aside.len() == 1 && aside[0].contains("mine depends on table job_20200106"), "{aside:?}");
    let dependents = findings(&queue, "dependents").await;
    assert!(
        dependents.len() == 1 && dependents[0].contains("mine depends on windlass.job_20200106"),
        "{dependents:?}"
    );
    admin.batch_execute("update windlass.installed_functions set checksum = 'another'").await.unwrap();
    assert!(migrate(&settings(queue.url())).await.unwrap().functions_installed);

    reader.batch_execute("drop view mine").await.unwrap();
    let row = admin.query_one(round, &[]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, i32>(1)), (0, 1));
    assert_eq!(findings(&queue, "skipped rows").await, Vec::<String>::new());
    assert_eq!(findings(&queue, "dependents").await, Vec::<String>::new());
    drop(reader);
    role.drop().await;
}

/// the same with a function of an earlier release, which a migration drops.
#[tokio::test(flavor = "multi_thread")]
async fn a_view_on_an_old_function_does_not_stop_an_upgrade() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let old = "set role windlass_owner;
        create function windlass.waiting_behind(a uuid, b uuid) returns integer language sql as 'select 1';
        revoke all on function windlass.waiting_behind from public;
        grant execute on function windlass.waiting_behind to windlass_reader;
        reset role;
        update windlass.installed_functions set checksum = 'another'";
    admin.batch_execute(old).await.unwrap();
    let role = Login::create(&queue, "windlass_reader").await;
    let reader = role.client().await;
    reader
        .batch_execute("create temp view mine as select windlass.waiting_behind(null, null)")
        .await
        .unwrap();
    assert!(migrate(&settings(queue.url())).await.unwrap().functions_installed);
    let left = "select count(*) from pg_proc p where p.pronamespace = 'windlass'::regnamespace and p.proname ~ 'waiting_behind'
                   and p.proname like 'replaced\\_%' and not has_function_privilege('windlass_reader', p.oid, 'execute')";
    assert_eq!(count(&admin, left).await, 1);
    let named = "select count(*) from pg_proc p where p.proname = 'waiting_behind'";
    assert_eq!(count(&admin, named).await, 0);
    assert_eq!(refusal(reader.query("select * from mine", &[]).await), "42501");
    let schema = findings(&queue, "schema").await;
    assert!(
        schema.len() == 1 && schema[0].contains("waiting_behind is not part of this release"),
        "{schema:?}"
    );
    assert!(findings(&queue, "dependents").await[0].contains("waiting_behind"));
    drop(reader);
    role.drop().await;
}

/// others queue behind the exclusive lock while it waits for the open transaction.
#[tokio::test]
async fn a_partition_that_is_in_use_is_dropped_in_a_later_round() {
    let queue = TestQueue::create().await;
    let (admin, reader) = (queue.client().await, queue.client().await);
    create_old_partitions(&queue).await;
    reader.batch_execute("begin; select from windlass.job_20200113").await.unwrap();
    let keeper = Keeper::new(queue.queue().clone(), KeeperSettings::default());
    let round = keeper.run_once(Duty::Partition).await.unwrap();
    assert_eq!(
        (round.moved, round.next),
        (1, None),
        "the other one is dropped, and nothing is tried again soon"
    );
    reader.batch_execute("rollback").await.unwrap();
    assert_eq!(keeper.run_once(Duty::Partition).await.unwrap().moved, 0, "not again within ten minutes");
    let later = "update windlass.partition_rate set busy_at = busy_at - interval '11 minutes'";
    admin.batch_execute(later).await.unwrap();
    assert_eq!(keeper.run_once(Duty::Partition).await.unwrap().moved, 1);
    assert_eq!(count(&admin, "select count(to_regclass('windlass.job_20200113'))").await, 0);
}

/// the lead of a duty outlasts the login that took it.
#[tokio::test]
async fn a_lost_leader_is_replaced_quickly() {
    let queue = TestQueue::create().await;
    let role = Login::create(&queue, "windlass_keeper").await;
    let keeper = role.client().await;
    for call in [
        "lead('prune', gen_random_uuid(), 600001)",
        "lead('mine', gen_random_uuid(), 1000)",
        "lead(null, null, 1)",
    ] {
        assert_eq!(refusal(keeper.query(&format!("select windlass.{call}"), &[]).await), "WL007", "{call}");
    }
    let lead = "select windlass.lead('prune', $1, 60000)";
    let leads =
        async |holder: Uuid| -> Option<i64> { keeper.query_one(lead, &[&holder]).await.unwrap().get(0) };
    let (first, second) = (Uuid::new_v4(), Uuid::new_v4());
    assert!(leads(first).await.is_some() && leads(second).await.is_none());
    let far = "update windlass.leader set expires_at = clock_timestamp() + interval '24 days'";
    queue.client().await.batch_execute(far).await.unwrap();
    assert!(leads(second).await.is_some() && leads(first).await.is_none());
    drop(keeper);
    role.drop().await;
}

/// whoever keeps a duty from being done is at least seen.
#[tokio::test]
async fn the_doctor_reports_retention_without_progress() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let day = std::time::Duration::from_secs(86_400);
    queue.define(&Definition::new("a").retention(windlass::job::State::Succeeded, day)).await.unwrap();
    let keeper = Keeper::new(queue.queue().clone(), KeeperSettings::default());
    keeper.run_once(Duty::Prune).await.unwrap();
    let hand = Hand::new(queue.client().await).await;
    hand.enqueue("'a'").await;
    assert!(hand.settle(&hand.claim_one().await, None).await);
    assert_eq!(findings(&queue, "retention").await, Vec::<String>::new());
    let stop = "update windlass.history set finished_at = now() - interval '5 days';
        update windlass.keeper_mark set reached = now() - interval '10 days', updated_at = now() - interval '3 hours'";
    admin.batch_execute(stop).await.unwrap();
    let found = findings(&queue, "retention").await;
    assert!(found.len() == 1 && found[0].contains("no retention rule was applied for 3 h"), "{found:?}");
    keeper.run_once(Duty::Prune).await.unwrap();
    assert_eq!(findings(&queue, "retention").await, Vec::<String>::new());
}

/// the jobs of a worker run until its lease ends, also if its login cannot connect any more.
#[tokio::test]
async fn a_worker_cannot_hold_its_jobs_for_years() {
    let queue = TestQueue::create().await;
    let role = Login::create(&queue, "windlass_worker").await;
    let worker = role.client().await;
    let register = |seconds: i32| {
        format!("select windlass.register_worker('w{seconds}', 'h', '', '{{}}', '{{}}', {seconds}, '{{}}')")
    };
    for seconds in [i32::MAX, 86_401, 0, -1] {
        assert_eq!(refusal(worker.query(&register(seconds), &[]).await), "WL007", "{seconds}");
    }
    worker.query(&register(86_400), &[]).await.unwrap();
    drop(worker);
    role.drop().await;
}

/// a second token with the id of another tenant's disabled that one.
#[tokio::test]
async fn the_id_of_a_token_is_taken_for_all_tenants() {
    let queue = TestQueue::create().await;
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    let role = Login::create(&queue, "windlass_operator").await;
    let operator = role.client().await;
    let create = |tenant: Uuid, hash: &str| {
        format!(
            "select windlass.create_token('{tenant}', '{{\"id\": \"same\", \"kind\": \"api\", \"name\": \"n\", \"role\": \"viewer\"}}', '{hash}')"
        )
    };
    operator.query(&create(a, "\\x01"), &[]).await.unwrap();
    assert_eq!(refusal(operator.query(&create(b, "\\x02"), &[]).await), "WL018");
    let found = "select t ->> 'secret_hash' from windlass.find_token('same', '\\x01') t";
    let hash: String = queue.client().await.query_one(found, &[]).await.unwrap().get(0);
    assert_eq!(hash, "01");
    drop(operator);
    role.drop().await;
}

/// a database that has such tokens is migrated, and the first one works.
#[tokio::test]
async fn tokens_with_the_same_id_are_separated_by_the_migration() {
    const MIGRATION: &str = include_str!("../../../migrations/0025_token_ids.sql");
    let queue = TestQueue::create().await;
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    let admin = queue.client().await;
    let before = format!(
        "create table windlass.audit_due (); alter table windlass.audit_due owner to windlass_owner;
         drop index windlass.api_tokens_by_id; create index api_tokens_by_id on windlass.api_tokens (id);
         alter index windlass.api_tokens_by_id owner to windlass_owner;
         insert into windlass.api_tokens (tenant_id, id, kind, name, secret_hash, role, created_by, created_at) values
           ('{b}', 'same', 'api', 'second', '\\x02', 'viewer', 'x', now()),
           ('{a}', 'same', 'api', 'first', '\\x01', 'viewer', 'x', now() - interval '1 day')"
    );
    admin.batch_execute(&before).await.unwrap();
    admin.batch_execute(&format!("begin; {MIGRATION}; commit")).await.unwrap();
    let tokens = "select id, revoked_at is null from windlass.api_tokens order by name";
    let rows = admin.query(tokens, &[]).await.unwrap();
    let found: Vec<(String, bool)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(found, [("same".to_owned(), true), (format!("same-duplicate-{b}"), false)]);
}

/// the response to a repeated request is the one that was sent.
#[tokio::test]
async fn a_stored_response_cannot_be_rewritten() {
    let queue = TestQueue::create().await;
    let tenant = queue.tenant("a").await;
    let (remember, answer) = (
        format!("select windlass.remember_request('{tenant}', 'k', '\\x01')"),
        format!("select windlass.answer_request('{tenant}', 'k', 201, '{{\"job\": 1}}')"),
    );
    let operator = Login::create(&queue, "windlass_operator").await;
    for call in [&remember, &answer] {
        assert_eq!(refusal(operator.client().await.query(call, &[]).await), "42501", "{call}");
    }
    let server = Login::create(&queue, "windlass_server").await;
    let client = server.client().await;
    client.query(&remember, &[]).await.unwrap();
    client.query(&answer, &[]).await.unwrap();
    client.query(&answer.replace("201", "202").replace("1}", "2}"), &[]).await.unwrap();
    let stored = "select status::integer, answer ->> 'job' from windlass.request_keys";
    let row = queue.client().await.query_one(stored, &[]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, String>(1)), (201, "1".to_owned()));
    drop(client);
    operator.drop().await;
    server.drop().await;
}

/// `local:USER@LOGIN` is the name of a command, which an operator runs.
#[tokio::test]
async fn an_application_is_not_recorded_as_a_command() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    for (roles, is_operator) in [("windlass_app", false), ("windlass_app, windlass_operator", true)] {
        let job = queue.enqueue(&NewJob::new("a")).await.unwrap().id;
        queue.cancel(DEFAULT_TENANT, job).await.unwrap();
        let role = Login::create(&queue, roles).await;
        let local = format!("local:root@{}", role.name);
        let retry = format!("select windlass.retry('{DEFAULT_TENANT}', '{job}', '{local}')");
        role.client().await.query(&retry, &[]).await.unwrap();
        let actor = "select actor from windlass.audit where action = 'job.retry' order by id desc limit 1";
        let actor: String = queue.client().await.query_one(actor, &[]).await.unwrap().get(0);
        assert_eq!(actor, if is_operator { local } else { format!("login:{} as {local}", role.name) });
        role.drop().await;
    }
}

/// a gateway's login has the roles of all of its callers; each of them is recorded as what it is itself.
#[tokio::test]
async fn only_an_operator_or_admin_is_recorded_as_a_command() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let job = queue.enqueue(&NewJob::new("a")).await.unwrap().id;
    queue.cancel(DEFAULT_TENANT, job).await.unwrap();
    let gateway = Login::create(&queue, "windlass_operator").await;
    let caller = Login::create(&queue, "windlass_app").await;
    queue.client().await.batch_execute(&format!("grant {} to {}", caller.name, gateway.name)).await.unwrap();
    let local = format!("local:root@{}", gateway.name);
    let retry =
        format!("set role {}; select windlass.retry('{DEFAULT_TENANT}', '{job}', '{local}')", caller.name);
    gateway.client().await.batch_execute(&retry).await.unwrap();
    let actor = "select actor from windlass.audit where action = 'job.retry'";
    let actor: String = queue.client().await.query_one(actor, &[]).await.unwrap().get(0);
    assert_eq!(actor, format!("login:{} as {local}", gateway.name));
    caller.drop().await;
    gateway.drop().await;
}

/// a transaction can take a role after the act.
#[tokio::test]
async fn the_role_that_is_recorded_is_the_one_that_acted() {
    let queue = TestQueue::create().await;
    let role = Login::create(&queue, "windlass_operator, windlass_reader").await;
    let acts = "begin; select windlass.set_paused('q', true); set local role windlass_reader; commit";
    role.client().await.batch_execute(acts).await.unwrap();
    let recorded = "select role from windlass.audit where action = 'queue.pause'";
    let recorded: String = queue.client().await.query_one(recorded, &[]).await.unwrap().get(0);
    assert_eq!(recorded, role.name);
    role.drop().await;
}

/// from PostgreSQL 16 on, a login can administer a role without its privileges.
#[tokio::test]
async fn who_only_administers_a_role_does_not_serve_all_tenants() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    if count(&admin, "select current_setting('server_version_num')::bigint").await < 160_000 {
        return;
    }
    let role = Login::create(&queue, "windlass_app").await;
    for group in ["windlass_worker", "windlass_keeper", "windlass_admin", "windlass_operator"] {
        let grant = format!("grant {group} to {} with admin true, inherit false, set false", role.name);
        admin.batch_execute(&grant).await.unwrap();
    }
    let other = queue.tenant("b").await;
    let client = role.client().await;
    let call = format!("select windlass.enqueue('a', tenant_id => '{other}')");
    assert_eq!(refusal(client.query(&call, &[]).await), "WL003");
    drop(client);
    role.drop().await;
}

/// a thousand ids that do not exist hid the one that does.
#[tokio::test]
async fn a_purge_of_more_jobs_than_its_row_names_is_refused() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let job = queue.enqueue(&NewJob::new("a")).await.unwrap().id;
    let role = Login::create(&queue, "windlass_operator").await;
    let client = role.client().await;
    let purge = |others: i32| {
        format!(
            "select windlass.purge('{DEFAULT_TENANT}', array(select gen_random_uuid() from generate_series(1, {others})) || '{job}'::uuid)"
        )
    };
    assert_eq!(refusal(client.query(&purge(1000), &[]).await), "WL007");
    let run = format!(
        "select windlass.run_trigger('{DEFAULT_TENANT}', '{job}', 1, null,
           array(select gen_random_uuid() from generate_series(1, 1001)), 'a', array['{{}}'::jsonb])"
    );
    assert_eq!(refusal(client.query(&run, &[]).await), "WL007");
    client.query(&purge(999), &[]).await.unwrap();
    let named = format!(
        "select count(*) from windlass.audit where action = 'job.delete_many' and after -> 'ids' ? '{job}'"
    );
    assert_eq!(count(&queue.client().await, &named).await, 1);
    drop(client);
    role.drop().await;
}

/// a token that ends because of a rotation is named by a token that exists.
#[tokio::test]
async fn a_token_is_not_rotated_to_one_that_does_not_exist() {
    let queue = TestQueue::create().await;
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    let admin = queue.client().await;
    let tokens = format!(
        "insert into windlass.api_tokens (tenant_id, id, kind, name, secret_hash, role, created_by) values
           ('{a}', 'old', 'api', 'n', '\\x01', 'viewer', 'x'), ('{b}', 'other', 'api', 'n', '\\x03', 'viewer', 'x')"
    );
    admin.batch_execute(&tokens).await.unwrap();
    let role = Login::create(&queue, "windlass_operator").await;
    let client = role.client().await;
    let rotate = |id: &str, successor: &str| {
        let fields = json!({"id": successor, "kind": "api", "name": "n", "role": "viewer"});
        format!("select windlass.rotate_token('{a}', '{id}', 0, '{fields}', '\\x04')")
    };
    for (id, successor, code) in [
        ("old", "old", "WL018"),
        ("old", "other", "WL018"),
        ("n/a", "new", "WL011"),
        ("other", "new", "WL011"),
        ("new", "new", "WL011"),
    ] {
        assert_eq!(refusal(client.query(&rotate(id, successor), &[]).await), code, "{id} {successor}");
    }
    client.query(&rotate("old", "new"), &[]).await.unwrap();
    assert_eq!(refusal(client.query(&rotate("old", "newer"), &[]).await), "WL011", "a second rotation");
    let recorded = "select target, before ->> 'id', after ->> 'id', after ? 'secret_hash' from windlass.audit where action like 'token.%'";
    let rows = admin.query(recorded, &[]).await.unwrap();
    let rows: Vec<(String, String, String, bool)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
    assert_eq!(rows, [("new".to_owned(), "old".to_owned(), "new".to_owned(), false)]);
    drop(client);
    role.drop().await;
}
