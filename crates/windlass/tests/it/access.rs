//! Who may do what, tested with the roles that deployments log in as: none of them owns anything here.

mod arguments;
mod borrowed;
mod bounds;
mod callers;
mod calls;
mod changes;
mod forged;
mod hijack;
mod hostile;
mod installation;
mod lasting;
mod logins;
mod long_names;
mod matrix;
mod nil;
mod odd_arguments;
mod privileges;
mod recorded;
mod same_row;
mod secrets;
mod stock;
mod tenant_list;
mod unchanged;
mod upgrades;
mod written;

use std::time::Duration;

use tokio_postgres::Client;
use uuid::Uuid;
use windlass::job::{Filter, State};
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::pull::{Claim, Pull, Puller};
use windlass::{Context, Definition, Done, Error, Failure, Handler, NewJob, Queue, Worker};
use windlass_testing::{Login, TestQueue, eventually, settings};

/// The rows that row-level security shows to every role.
pub(crate) async fn set_tenant(client: &Client, tenant: Option<Uuid>) {
    let tenant = tenant.map(|tenant| tenant.to_string()).unwrap_or_default();
    client.execute("select set_config('windlass.tenant_id', $1, false)", &[&tenant]).await.unwrap();
}

/// The SQLSTATE of a call that must have been rejected.
pub(crate) fn refusal<T>(result: Result<T, tokio_postgres::Error>) -> String {
    match result {
        Ok(_) => "it was not rejected".to_owned(),
        Err(error) => error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned()),
    }
}

/// Every role that a deployment may grant.
const GROUPS: [&str; 8] = [
    "windlass_app",
    "windlass_worker",
    "windlass_keeper",
    "windlass_server",
    "windlass_admin",
    "windlass_operator",
    "windlass_reader",
    "windlass_puller",
];

/// Tables without rows of tenants, each by decision.
const WITHOUT_TENANT: [&str; 11] = [
    "installed_functions",
    "job_definitions",
    "keeper_mark",
    "lane_mark",
    "leader",
    "migrating",
    "migration",
    "prune_mark",
    "queues",
    "unblock_mark",
    "waiting",
];

#[tokio::test]
async fn row_security_is_on_for_every_table_of_tenants() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let made: i32 =
        client.query_one("select made from windlass.maintain_partitions(9)", &[]).await.unwrap().get(0);
    assert!(made > 0, "later partitions have the same rules");
    let query = "select c.relname::text, c.relrowsecurity and not c.relforcerowsecurity,
                        exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped)
                   from pg_class c where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p') order by 1";
    let mut unguarded = Vec::new();
    for row in client.query(query, &[]).await.unwrap() {
        let (table, is_guarded, has_tenant): (String, bool, bool) = (row.get(0), row.get(1), row.get(2));
        assert!(
            is_guarded || !has_tenant,
            "{table} has tenants' rows without row security, or with forced row security, which prevents a dump"
        );
        if !is_guarded {
            unguarded.push(table);
        }
    }
    assert_eq!(unguarded, WITHOUT_TENANT);
    let query = "select c.relname::text from pg_class c where c.relnamespace = 'windlass'::regnamespace and c.relkind = 'v'
                    and not coalesce(c.reloptions @> array['security_invoker=true'], false)";
    let owners: Vec<String> = client.query(query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(owners, Vec::<String>::new(), "a view without security_invoker reads as its owner");
}

/// Jobs of a tenant in every table of jobs.
async fn create_jobs_in_every_table(queue: &TestQueue, tenant: Uuid) {
    let new = |key: &str| NewJob::new(key).tenant(tenant);
    queue.define(&Definition::new("unserved").start_deadline(Duration::from_secs(3600))).await.unwrap();
    let worker = Worker::builder(queue).handler(Talk).grace(Duration::ZERO).start().await.unwrap();
    let first =
        queue.enqueue(&new("unserved").dedupe_key("d").idempotency_key("i").ordering_key("o")).await.unwrap();
    queue.enqueue(&new("unserved").ordering_key("o")).await.unwrap();
    queue.enqueue(&new("unserved").delay(Duration::from_secs(60))).await.unwrap();
    let canceled = queue.enqueue(&new("unserved").depends_on(first.id)).await.unwrap();
    queue.cancel(tenant, canceled.id).await.unwrap();
    queue.retry(tenant, canceled.id, "somebody").await.unwrap();
    let done = queue.enqueue(&new("talk")).await.unwrap();
    let hanging = queue.enqueue(&new("talk").payload(&"hang")).await.unwrap();
    eventually("one is done and one logs", async || {
        let done = queue.job(tenant, done.id).await.unwrap().unwrap();
        let hanging = queue.job(tenant, hanging.id).await.unwrap().unwrap();
        done.status == State::Succeeded && hanging.progress_percent.is_some()
    })
    .await;
    worker.abort();
    queue.define(&Definition::new("pulled")).await.unwrap();
    queue.enqueue(&new("pulled")).await.unwrap();
    let pull = Pull::start(queue.queue()).await.unwrap();
    let claim = Claim::new(["pulled"]).wait(Duration::from_secs(30)).lease(Duration::from_secs(600));
    let puller = Puller::new("puller").tenant(tenant);
    assert_eq!(pull.claim(&puller, claim).await.unwrap().deliver().len(), 1);
    pull.stop().await;
    queue.cancel(tenant, hanging.id).await.unwrap();
    let trigger =
        "insert into windlass.job_triggers (tenant_id, label, trigger_type, event_name, definition_id)
                   select $1, 'l', 'event', 'e', id from windlass.job_definitions limit 1";
    queue.client().await.execute(trigger, &[&tenant]).await.unwrap();
    let rest = format!(
        "select windlass.emit('a', tenant_id => '{tenant}');
         insert into windlass.event_pending (tenant_id, event_id) values ('{tenant}', gen_random_uuid());
         insert into windlass.event_dispatch (tenant_id, event_id, trigger_id, outcome, reason) values ('{tenant}', gen_random_uuid(), gen_random_uuid(), 'failed', 'r');
         insert into windlass.fire (tenant_id, trigger_id, due_at, generation, outcome, reason) values ('{tenant}', gen_random_uuid(), now(), 1, 'skipped', 'r');
         insert into windlass.retention (tenant_id, definition_key, status) values ('{tenant}', '*', 'failed');
         insert into windlass.legal_hold (tenant_id, reason, created_by) values ('{tenant}', 'r', 'b');
         insert into windlass.purge_wait (tenant_id, job_id, cleanup_job_id) values ('{tenant}', gen_random_uuid(), gen_random_uuid())"
    );
    queue.client().await.batch_execute(&rest).await.unwrap();
}

struct Talk;

windlass_testing::payload!(TalkArgs(serde_json::Value) = "talk");

impl Handler for Talk {
    type Args = TalkArgs;

    async fn run(&self, job: &Context, TalkArgs(args): TalkArgs) -> Result<Done, Failure> {
        job.progress(10.0, "talking");
        job.log("talking");
        if args == "hang" {
            job.stopped().await;
            return Err(Failure::retry("stopped"));
        }
        Ok(Done::new())
    }
}

/// Tables and views with a tenant's rows, as (name, the column with the tenant).
async fn relations(client: &Client) -> Vec<(String, &'static str)> {
    let query = "select c.relname::text from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
                  where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p', 'v') order by 1";
    let rows = client.query(query, &[]).await.unwrap();
    let mut relations: Vec<(String, &str)> = rows.iter().map(|row| (row.get(0), "tenant_id")).collect();
    relations.push(("tenants".to_owned(), "id"));
    relations
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_sees_only_its_own_rows() {
    let queue = TestQueue::create().await;
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    create_jobs_in_every_table(&queue, a).await;
    create_jobs_in_every_table(&queue, b).await;
    // Counters of both tenants, folded and not.
    Keeper::new(queue.queue().clone(), KeeperSettings::default()).run_once(Duty::Fold).await.unwrap();
    for tenant in [a, b] {
        queue.enqueue(&NewJob::new("unserved").tenant(tenant)).await.unwrap();
    }
    let admin = queue.client().await;
    let relations = relations(&admin).await;

    for group in ["windlass_app", "windlass_reader", "windlass_server"] {
        let role = Login::create(&queue, group).await;
        let client = role.client().await;
        let mut readable = 0;
        for (relation, column) in &relations {
            let rows_of =
                format!("select count(*) filter (where {column} = $1), count(*) from windlass.{relation}");
            let all = admin.query_one(&rows_of, &[&a]).await.unwrap();
            let (of_a, total): (i64, i64) = (all.get(0), all.get(1));

            set_tenant(&client, None).await;
            let seen = client.query_one(&rows_of, &[&a]).await;
            if seen.as_ref().is_err_and(|error| error.code().is_some_and(|code| code.code() == "42501")) {
                continue;
            }
            readable += 1;
            assert_eq!(
                seen.unwrap().get::<_, i64>(1),
                0,
                "{group} sees rows of {relation} without a current tenant"
            );

            assert!(of_a > 0 && total > of_a, "{relation} has rows of both: {of_a} of {total}");
            set_tenant(&client, Some(a)).await;
            let seen = client.query_one(&rows_of, &[&a]).await.unwrap();
            assert_eq!((seen.get::<_, i64>(0), seen.get::<_, i64>(1)), (of_a, of_a), "{group} on {relation}");
        }
        assert!(readable >= 12, "{group} may read only {readable} relations");
        role.drop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worker_role_runs_jobs_and_reads_no_table() {
    let queue = TestQueue::create().await;
    let (app, worker) = (
        Login::create(&queue, "windlass_app").await,
        Login::create(&queue, "windlass_worker, windlass_keeper").await,
    );
    let tenant = queue.tenant("a").await;

    // A whole life through functions alone: registered, claimed, settled, maintained.
    let workers_queue = Queue::connect(settings(worker.url())).await.unwrap();
    let running = Worker::builder(&workers_queue).handler(Talk).start().await.unwrap();
    let apps_queue = Queue::connect(settings(app.url())).await.unwrap();
    let job = apps_queue.enqueue(&NewJob::new("talk").tenant(tenant)).await.unwrap().id;
    eventually("the job has run", async || {
        apps_queue.job(tenant, job).await.unwrap().is_some_and(|job| job.status == State::Succeeded)
    })
    .await;
    let listed = apps_queue.list(&Filter::new(tenant).state(State::Succeeded)).await.unwrap().jobs;
    assert_eq!(listed.len(), 1, "an application lists through row-level security");
    running.stop().await.unwrap();

    let client = worker.client().await;
    set_tenant(&client, Some(tenant)).await;
    for (relation, _) in relations(&queue.client().await).await {
        let result = client.query(&format!("select * from windlass.{relation}"), &[]).await;
        assert_eq!(refusal(result), "42501", "{relation}");
    }
    let denied = workers_queue.list(&Filter::new(tenant)).await.unwrap_err();
    assert!(matches!(&denied, Error::Database(error) if error.code().unwrap().code() == "42501"), "{denied}");
    drop((workers_queue, apps_queue, client));
    app.drop().await;
    worker.drop().await;
}

#[tokio::test]
async fn no_role_writes_a_table_of_jobs() {
    let queue = TestQueue::create().await;
    for group in GROUPS {
        let role = Login::create(&queue, group).await;
        let client = role.client().await;
        set_tenant(&client, Some(windlass::DEFAULT_TENANT)).await;
        for (relation, _) in relations(&queue.client().await).await {
            let result = client.execute(&format!("delete from windlass.{relation}"), &[]).await;
            // 55000: a view that cannot be written through.
            assert!(matches!(refusal(result).as_str(), "42501" | "55000"), "{group} on {relation}");
        }
        let result = client.batch_execute("create table windlass.mine ()").await;
        assert_eq!(refusal(result), "42501", "{group} creates a table");
        role.drop().await;
    }
}

#[tokio::test]
async fn a_reader_can_only_read() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let tenant = queue.tenant("a").await;
    let job = queue.enqueue(&NewJob::new("a").tenant(tenant)).await.unwrap().id;
    let role = Login::create(&queue, "windlass_reader").await;
    let readers = Queue::connect(settings(role.url())).await.unwrap();
    assert_eq!(readers.job(tenant, job).await.unwrap().map(|job| job.status), Some(State::Queued));
    assert_eq!(readers.counts(Some(tenant)).await.unwrap()[0].queued, 1);
    let client = role.client().await;
    for call in [
        "windlass.enqueue('a')",
        "windlass.enqueue_many('a', '{}')",
        "windlass.cancel(null, null)",
        "windlass.retry(null, null, '')",
        "windlass.purge(null, '{}')",
        "windlass.claim(1, null, '{}', '{}', '{}')",
    ] {
        assert_eq!(refusal(client.query(&format!("select {call}"), &[]).await), "42501", "{call}");
    }
    drop((readers, client));
    role.drop().await;
}

#[tokio::test]
async fn a_role_without_a_grant_calls_nothing_and_reads_nothing() {
    let queue = TestQueue::create().await;
    let role = Login::create(&queue, "").await;
    let client = role.client().await;
    let admin = queue.client().await;
    let functions = "select format('windlass.%I(%s)', p.proname,
            (select string_agg('null::' || format_type(t, null), ', ') from unnest(p.proargtypes) t))
        from pg_proc p where p.pronamespace = 'windlass'::regnamespace";
    // So that types are named with their schema.
    admin.batch_execute("set search_path = pg_catalog").await.unwrap();
    let calls = admin.query(functions, &[]).await.unwrap();
    assert!(calls.len() > 40);
    for row in calls {
        let call: String = row.get(0);
        assert_eq!(refusal(client.query(&format!("select {call}"), &[]).await), "42501", "{call}");
    }
    for (relation, _) in relations(&admin).await {
        let result = client.query(&format!("select from windlass.{relation}"), &[]).await;
        assert_eq!(refusal(result), "42501", "{relation}");
    }
    let query = "select count(*) from pg_proc p where p.pronamespace = 'windlass'::regnamespace
                    and exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) g where g.grantee = 0)";
    let public: i64 = admin.query_one(query, &[]).await.unwrap().get(0);
    assert_eq!(public, 0, "functions that everyone may execute");
    role.drop().await;
}

/// A transaction that acts for one tenant cannot act for another by naming it.
#[tokio::test]
async fn a_current_tenant_cannot_act_for_another() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    let job = queue.enqueue(&NewJob::new("a").tenant(b).subject("s", "1")).await.unwrap().id;
    let role = Login::create(&queue, "windlass_server").await;
    let client = role.client().await;
    set_tenant(&client, Some(a)).await;
    for call in [
        format!("windlass.enqueue('a', tenant_id => '{b}')"),
        format!("windlass.enqueue_many('a', '{{\"{{}}\"}}', '{b}')"),
        format!("windlass.route_of('{b}', 'a', null, null)"),
        format!("windlass.cancel('{b}', '{job}')"),
        format!("windlass.retry('{b}', '{job}', 'me')"),
        format!("windlass.purge('{b}', array['{job}'::uuid])"),
        format!("windlass.purge_subject('{b}', 's', '1')"),
        format!("windlass.purge_tenant('{b}', 10)"),
    ] {
        assert_eq!(refusal(client.query(&format!("select {call}"), &[]).await), "WL003", "{call}");
    }
    assert!(matches!(
        windlass::enqueue_in(&client, &NewJob::new("a").tenant(b)).await,
        Err(Error::TenantRefused { .. })
    ));
    let mine = windlass::enqueue_in(&client, &NewJob::new("a")).await.unwrap();
    assert_eq!(queue.job(a, mine.id).await.unwrap().unwrap().tenant_id, a);
    assert_eq!(queue.job(b, job).await.unwrap().unwrap().status, State::Queued);
    role.drop().await;
}

/// Invariant 45: also on the fast path, which our own code uses, one or many at a time.
#[tokio::test]
async fn the_fast_path_rejects_any_tenant_but_the_current_one() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    let query = "select lane from windlass.route_of($1, 'a', null, null)";
    let lane: i32 = queue.client().await.query_one(query, &[&b]).await.unwrap().get(0);
    let role = Login::create(&queue, "windlass_app").await;
    let client = role.client().await;
    set_tenant(&client, Some(a)).await;
    let one = "select windlass.enqueue_routed($1, gen_random_uuid(), $2, 3::smallint, '{}', null)";
    let many = "select windlass.enqueue_routed_many(array[$1::uuid], array[gen_random_uuid()], array[$2::integer], array[3::smallint],
                  array[1], array['{}'::json], null)";
    let alike =
        "select windlass.enqueue_alike($1, $2, 3::smallint, array[gen_random_uuid()], array['{}'::json])";
    for call in [one, many, alike] {
        assert_eq!(refusal(client.execute(call, &[&b, &lane]).await), "WL003");
    }
    role.drop().await;
}
