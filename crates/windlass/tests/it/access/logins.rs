//! Checks the table of logins in the guide on security: each row becomes a login with exactly those roles.

use windlass::events::{EventFilter, NewEvent};
use windlass::job::{Filter, State};
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::{Definition, Error, NewJob, Queue, Worker, migrate};
use windlass_testing::{Login, Plain, TestQueue, eventually, settings};

use super::refusal;

const GUIDE: &str = include_str!("../../../../../docs/guides/security.md");

/// The roles that the guide gives to a process or a person, as they are granted.
fn roles_of(who: &str) -> String {
    let (_, table) = GUIDE.split_once("<!-- checked: database-logins -->").unwrap();
    let row =
        table.lines().find(|line| line.starts_with(&format!("| {who} |"))).unwrap_or_else(|| panic!("{who}"));
    row.split('|').nth(2).unwrap().replace('`', "").trim().to_owned()
}

/// In an installation with several tenants, through the library.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_enqueues_emits_and_reads_for_the_tenant_it_names() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("plain")).await.unwrap();
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    let role = Login::create(&queue, &roles_of("application that enqueues")).await;
    let app = Queue::connect(settings(role.url())).await.unwrap();
    for tenant in [a, b] {
        let job = app.enqueue(&NewJob::new("plain").tenant(tenant)).await.unwrap().id;
        app.enqueue(&NewJob::new("plain").tenant(tenant).dedupe_key("k")).await.unwrap();
        app.enqueue_many(&[NewJob::new("plain").tenant(tenant), NewJob::new("plain").tenant(tenant)])
            .await
            .unwrap();
        app.emit(&NewEvent::new("it.happened").tenant(tenant)).await.unwrap();
        assert_eq!(app.list(&Filter::new(tenant)).await.unwrap().jobs.len(), 4);
        app.cancel(tenant, job).await.unwrap();
        app.retry(tenant, job, "the application").await.unwrap();
        assert_eq!(queue.events(tenant, &EventFilter::default()).await.unwrap().len(), 1);
    }
    let rejected = app.enqueue(&NewJob::new("plain")).await;
    assert!(matches!(rejected, Err(Error::TenantRefused { .. })), "{rejected:?}");
    let mixed = app.enqueue_many(&[NewJob::new("plain").tenant(a), NewJob::new("plain").tenant(b)]).await;
    assert!(matches!(mixed, Err(Error::TenantRefused { .. })), "{mixed:?}");
    for refused in [
        "find_user('a')",
        "define('{}')",
        "set_paused('a', true)",
        "ensure_tenant('c', 'c', 1)",
        "tokens_of(null, null)",
    ] {
        let result = role.client().await.query(&format!("select windlass.{refused}"), &[]).await;
        assert_eq!(refusal(result), "42501", "{refused}");
    }
    drop(app);
    role.drop().await;
}

/// No other tenant, so none has to be named.
#[tokio::test]
async fn an_application_need_not_name_the_only_tenant() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("plain")).await.unwrap();
    let role = Login::create(&queue, &roles_of("application that enqueues")).await;
    let app = Queue::connect(settings(role.url())).await.unwrap();
    app.enqueue(&NewJob::new("plain")).await.unwrap();
    let other = queue.tenant("b").await;
    let client = role.client().await;
    for call in
        ["windlass.enqueue('plain')".to_owned(), format!("windlass.enqueue('plain', tenant_id => '{other}')")]
    {
        assert_eq!(refusal(client.query(&format!("select {call}"), &[]).await), "WL003", "{call}");
    }
    drop((app, client));
    role.drop().await;
}

/// A job in another tenant's lane would use that tenant's turn.
#[tokio::test]
async fn an_application_cannot_use_another_tenants_lane() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("plain")).await.unwrap();
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    let query = "select lane from windlass.route_of($1, 'plain', null, null)";
    let lane: i32 = queue.client().await.query_one(query, &[&b]).await.unwrap().get(0);
    let role = Login::create(&queue, "windlass_app").await;
    let client = role.client().await;
    client.execute("select set_config('windlass.tenant_id', $1, false)", &[&a.to_string()]).await.unwrap();
    let one = "select windlass.enqueue_routed($1, gen_random_uuid(), $2, 3::smallint, '{}', null)";
    assert_eq!(refusal(client.execute(one, &[&a, &lane]).await), "WL007");
    role.drop().await;
}

/// The policies of the lane's definition apply, as they do in `enqueue`.
#[tokio::test]
async fn enqueueing_by_lane_does_not_bypass_the_definition() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("plain")).await.unwrap();
    let a = queue.tenant("a").await;
    let admin = queue.client().await;
    let query = "select lane from windlass.route_of($1, 'plain', null, null)";
    let lane: i32 = admin.query_one(query, &[&a]).await.unwrap().get(0);
    let role = Login::create(&queue, "windlass_app").await;
    let client = role.client().await;
    client.execute("select set_config('windlass.tenant_id', $1, false)", &[&a.to_string()]).await.unwrap();
    let calls = [
        format!("enqueue_routed('{a}', gen_random_uuid(), {lane}, 3::smallint, '{{}}', null)"),
        format!("enqueue_routed('{a}', gen_random_uuid(), {lane}, 3::smallint, '{{}}', '{{\"source_ref\": \"t\"}}')"),
        format!("enqueue_alike('{a}', {lane}, 3::smallint, array[gen_random_uuid()], array['{{}}']::json[])"),
        format!(
            "enqueue_routed_many(array['{a}']::uuid[], array[gen_random_uuid()], array[{lane}], array[3]::smallint[], array[1],
               array['{{}}']::json[], null)"
        ),
    ];
    let set = "update windlass.job_definitions set is_active = $1, start_deadline_seconds = $2";
    admin.execute(set, &[&false, &None::<i32>]).await.unwrap();
    for call in &calls {
        assert_eq!(refusal(client.execute(&format!("select windlass.{call}"), &[]).await), "WL002", "{call}");
    }
    admin.execute(set, &[&true, &Some(60)]).await.unwrap();
    for call in &calls {
        client.execute(&format!("select windlass.{call}"), &[]).await.unwrap();
    }
    let timely = "select count(*) from windlass.job b join windlass.expiry e on e.tenant_id = b.tenant_id and e.job_id = b.id
        where b.start_by = b.created_at + interval '1 minute' and e.expires_at = b.start_by and e.only_unstarted";
    assert_eq!(admin.query_one(timely, &[]).await.unwrap().get::<_, i64>(0), 4);
    role.drop().await;
}

/// The installation's workers run the jobs of all tenants, and `/why` names them; pull workers with a tenant's credential belong to it.
#[tokio::test]
async fn an_application_sees_the_workers_of_the_installation_and_of_its_own_tenant() {
    let queue = TestQueue::create().await;
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    let admin = queue.client().await;
    for name in ["host:1:boot".to_owned(), "mac@pull".to_owned(), format!("own@{a}"), format!("own@{b}")] {
        let register =
            "insert into windlass.job_workers (worker_id, hostname, lease_expires_at, lease_seconds)
            values ($1, 'host', now(), 30)";
        admin.execute(register, &[&name]).await.unwrap();
        admin.query_one("select windlass.set_draining($1, true)", &[&name]).await.unwrap();
    }
    for group in ["windlass_app", "windlass_reader", "windlass_server"] {
        let role = Login::create(&queue, group).await;
        let client = role.client().await;
        let seen = async |tenant: &str| -> Vec<String> {
            client.execute("select set_config('windlass.tenant_id', $1, false)", &[&tenant]).await.unwrap();
            let names = async |list: &str| -> Vec<String> {
                client.query(list, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
            };
            let workers = names("select worker_id from windlass.job_workers order by 1").await;
            assert_eq!(names("select worker_id from windlass.drain_request order by 1").await, workers);
            let own = "select worker_id from windlass.job_workers where windlass.is_draining(id) order by 1";
            assert_eq!(names(own).await, workers);
            workers
        };
        assert_eq!(
            seen(&a.to_string()).await,
            ["host:1:boot".to_owned(), "mac@pull".to_owned(), format!("own@{a}")]
        );
        assert_eq!(seen("").await, ["host:1:boot", "mac@pull"], "{group}");
        role.drop().await;
    }
}

/// Values that every claim must read or count are checked if an application passes them without the library.
#[tokio::test]
async fn the_arguments_of_the_routed_functions_are_checked() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("plain")).await.unwrap();
    let a = queue.tenant("a").await;
    let query = "select lane from windlass.route_of($1, 'plain', null, null)";
    let lane: i32 = queue.client().await.query_one(query, &[&a]).await.unwrap().get(0);
    let role = Login::create(&queue, "windlass_app").await;
    let client = role.client().await;
    client.execute("select set_config('windlass.tenant_id', $1, false)", &[&a.to_string()]).await.unwrap();
    let of =
        |id: &str, job: &str| format!("select windlass.enqueue_routed('{a}', {id}, {lane}, {job}, null)");
    let alike = |jobs: &str, payloads: &str| {
        format!("select windlass.enqueue_alike('{a}', {lane}, 3::smallint, {jobs}, {payloads})")
    };
    let many = |count: usize, part: &str, id: &str| {
        format!(
            "select windlass.enqueue_routed_many(array_agg('{a}'::uuid), array_agg({id}), array_agg({lane}),
               array_agg(3::smallint), {part}, array_agg('{{}}'::json), null) from generate_series(1, {count})"
        )
    };
    let (new, one) = ("gen_random_uuid()", "array['{}'::json]");
    let ours = queue.client().await;
    let at = async |when: &str| {
        let id = format!(
            "overlay(windlass.uuid7()::text placing left(windlass.uuid7_floor(now() + interval '{when}')::text, 13) from 1)"
        );
        format!("'{}'::uuid", ours.query_one(&format!("select {id}"), &[]).await.unwrap().get::<_, String>(0))
    };
    let (ahead, near, past) = (at("3 weeks").await, at("23 hours").await, at("-30 years").await);
    let plain = |id: &str| format!("select windlass.enqueue('plain', job_id => {id})");
    let shapes = [
        many(65, "array_agg(1)", new),
        many(1, "array[2000000000]", new),
        many(1, "array[null::integer]", new),
        many(2, "array[1]", new),
        many(2, "array[[1], [1]]", new),
        many(2, "'[0:1]={1,1}'::integer[]", new),
        alike("array[[gen_random_uuid()], [gen_random_uuid()]]", one),
        alike("array[gen_random_uuid(), gen_random_uuid()]", one),
        alike("array[gen_random_uuid()]", "array[['{}'::json]]"),
        many(1, "array[1]", &ahead),
        alike(&format!("array[{ahead}]"), one),
        plain(&ahead),
    ];
    let calls = [
        (of(new, "3::smallint, '{}'"), None),
        (many(64, "array_agg(1)", new), None),
        (alike("array[gen_random_uuid()]", one), None),
        (plain(&near), None),
        (many(1, "array[1]", &past), None),
        (of(&ahead, "3::smallint, '{}'"), Some("WL007")),
        (of(new, "0::smallint, '{}'"), Some("WL007")),
        (of(new, "3::smallint, to_json(repeat('x', 2000000))"), Some("WL005")),
        (of(new, "3::smallint, (repeat('[', 40) || repeat(']', 40))::json"), Some("WL005")),
        (format!("select windlass.retry('{a}', gen_random_uuid(), repeat('x', 501))"), Some("WL007")),
    ];
    for (call, code) in calls.into_iter().chain(shapes.iter().map(|call| (call.clone(), Some("WL007")))) {
        let result = client.execute(&call, &[]).await;
        match code {
            None => assert!(result.is_ok(), "{call}: {result:?}"),
            Some(code) => assert_eq!(refusal(result), code, "{call}"),
        }
    }
    // Our own processes are restricted to the shapes too, and to the times of ids.
    for call in &shapes {
        assert_eq!(refusal(ours.execute(call, &[]).await), "WL007", "{call}");
    }
    let far: uuid::Uuid = ours.query_one(&format!("select {ahead}"), &[]).await.unwrap().get(0);
    for job in [NewJob::new("plain").id(far), NewJob::new("plain").id(far).dedupe_key("k")] {
        let refused = queue.enqueue(&job).await;
        assert!(matches!(&refused, Err(Error::Refused { field, .. }) if field == "job_id"), "{refused:?}");
    }
    role.drop().await;
}

/// Every call of a verb leaves a row in the audit trail, regardless of the session's settings: one row each, with the login.
#[tokio::test]
async fn no_session_variable_suppresses_an_audit_row() {
    let queue = TestQueue::create().await;
    let role = Login::create(&queue, "windlass_app, windlass_worker").await;
    let client = role.client().await;
    client.batch_execute("set windlass.audited = 'on'; set windlass.audit = 'off'").await.unwrap();
    client.batch_execute("select windlass.define('{\"key\": \"plain\"}')").await.unwrap();
    let job = queue.enqueue(&NewJob::new("plain")).await.unwrap().id;
    let tenant = windlass::DEFAULT_TENANT;
    for verb in ["cancel($1, $2)", "retry($1, $2, null)"] {
        client.query(&format!("select windlass.{verb}"), &[&tenant, &job]).await.unwrap();
    }
    for verb in ["cancel_many($1, $2, '{}')", "retry_many($1, $2, '{}', 'somebody')"] {
        client.query(&format!("select windlass.{verb}"), &[&tenant, &[job].as_slice()]).await.unwrap();
    }
    let audited = "select action, actor from windlass.audit where role = $1 order by id";
    let rows = queue.client().await.query(audited, &[&role.name]).await.unwrap();
    let rows: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let login = format!("login:{}", role.name);
    let row = |action: &str, actor: &str| (action.to_owned(), actor.to_owned());
    assert_eq!(
        rows,
        [
            row("definition.create", &login),
            row("job.cancel", &login),
            row("job.retry", &login),
            row("job.cancel_many", &login),
            row("job.retry_many", &format!("{login} as somebody")),
        ]
    );
    // Functions that record nothing may not be called.
    for function in ["cancel_unaudited($1, $2)", "retry_unaudited($1, $2)"] {
        let result = client.query(&format!("select windlass.{function}"), &[&tenant, &job]).await;
        assert_eq!(refusal(result), "42501", "{function}");
    }
    role.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_and_keepers_work_with_their_own_roles() {
    let queue = TestQueue::create().await;
    let tenant = queue.tenant("a").await;
    for who in ["application that embeds a worker", "`windlass worker`"] {
        let role = Login::create(&queue, &roles_of(who)).await;
        let theirs = Queue::connect(settings(role.url())).await.unwrap();
        let worker = Worker::builder(&theirs).handler(Plain).start().await.unwrap();
        let job = queue.enqueue(&NewJob::new("plain").tenant(tenant)).await.unwrap().id;
        eventually("the job has run", async || {
            queue.job(tenant, job).await.unwrap().is_some_and(|job| job.status == State::Succeeded)
        })
        .await;
        worker.stop().await.unwrap();
        drop(theirs);
        role.drop().await;
    }
    for who in ["`windlass keeper`", "`windlass worker`", "`windlass serve`, also with `--with-keeper`"] {
        let role = Login::create(&queue, &roles_of(who)).await;
        let theirs = Queue::connect(settings(role.url())).await.unwrap();
        let keeper = Keeper::new(theirs.clone(), KeeperSettings::default());
        for duty in Duty::ALL {
            keeper.run_once(duty).await.unwrap_or_else(|error| panic!("{who}: {}: {error}", duty.as_str()));
        }
        drop((theirs, keeper));
        role.drop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_migrator_installs_functions_and_the_operator_examines() {
    let queue = TestQueue::create().await;
    let role = Login::create(&queue, &roles_of("`windlass migrate`")).await;
    let undo = "update windlass.installed_functions set checksum = 'another'";
    queue.client().await.batch_execute(undo).await.unwrap();
    assert!(migrate(&settings(role.url())).await.unwrap().functions_installed);
    role.drop().await;
    let role = Login::create(&queue, &roles_of("operator with `--database-url`")).await;
    windlass::setup::examine(&settings(role.url())).await.unwrap();
    let theirs = Queue::connect(settings(role.url())).await.unwrap();
    assert_eq!(theirs.verify_audit(&[]).await.unwrap(), []);
    theirs.ensure_tenant("b", "b", 1).await.unwrap();
    drop(theirs);
    role.drop().await;
}
