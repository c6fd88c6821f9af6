//! Jobs that a login of Postgres takes, extends and ends with SQL functions, without a process of ours.

mod edge;
mod refused;
mod rule;

use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::keeper::Duty;
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_testing::{Login, TestQueue, eventually};

use crate::access::refusal;
use crate::support::{assert_counts_are_exact, attempts, count, job, keeper, soon, status};

/// A queue with the definition `taken`, and the login of a SQL worker.
struct Set {
    queue: TestQueue,
    login: Login,
    worker: Client,
    admin: Client,
}

/// A job that was taken, as JSON with the names of the columns.
#[derive(Debug)]
struct Taken(Value);

impl Taken {
    fn id(&self) -> Uuid {
        self.0["id"].as_str().unwrap().parse().unwrap()
    }

    fn token(&self) -> Uuid {
        self.0["token"].as_str().unwrap().parse().unwrap()
    }

    /// The first arguments of every call about it.
    fn held(&self) -> String {
        format!("'{}', '{}'", self.id(), self.token())
    }
}

impl Set {
    async fn new() -> Self {
        let queue = TestQueue::create().await;
        queue.define(&Definition::new("taken").backoff(soon())).await.unwrap();
        let login = Login::create(&queue, "windlass_puller").await;
        let (worker, admin) = (login.client().await, queue.client().await);
        Self { queue, login, worker, admin }
    }

    async fn enqueue(&self, arguments: &str) -> Uuid {
        let query = format!("select id from windlass.enqueue('taken', {arguments})");
        self.admin.query_one(&query, &[]).await.unwrap().get(0)
    }

    async fn take(&self, arguments: &str) -> Vec<Taken> {
        take(&self.worker, arguments).await
    }

    async fn take_one(&self) -> Taken {
        let mut jobs = self.take("array['taken']").await;
        assert_eq!(jobs.len(), 1);
        jobs.remove(0)
    }

    /// Ends an attempt. Returns the job's status.
    async fn end(&self, call: &str) -> String {
        self.worker.query_one(&format!("select windlass.{call}"), &[]).await.unwrap().get(0)
    }

    async fn promote(&self, id: Uuid) {
        let keeper = keeper(&self.queue);
        eventually("it is due again", async || {
            keeper.run_once(Duty::Promote).await.unwrap();
            status(&self.admin, id).await == "queued"
        })
        .await;
    }

    async fn drop(self) {
        drop(self.worker);
        self.login.drop().await;
    }
}

async fn take(client: &Client, arguments: &str) -> Vec<Taken> {
    let query = format!("select to_jsonb(t) from windlass.take({arguments}) t");
    client.query(&query, &[]).await.unwrap().iter().map(|row| Taken(row.get(0))).collect()
}

#[tokio::test]
async fn a_login_takes_a_job_and_finishes_it_with_next_jobs() {
    let set = Set::new().await;
    let arguments = r#"'{"n": 1}', subject_type => 'call', subject_id => '7', tags => '{a,b}', correlation_id => 'c',
        max_attempts => 4, deadline => clock_timestamp() + interval '1 day'"#;
    let id = set.enqueue(arguments).await;
    let taken = set.take("array['taken'], lease => '45 s', worker_id => 'edge-1'").await.remove(0);
    let shown = json!({"id": id, "definition_key": "taken", "queue": "default", "payload": {"n": 1}, "attempt": 1,
        "max_attempts": 4, "failures": 0, "subject_type": "call", "subject_id": "7", "correlation_id": "c", "tags": ["a", "b"],
        "parent_id": null, "source_ref": null, "trace": null});
    for (name, value) in shown.as_object().unwrap() {
        assert_eq!(&taken.0[name], value, "{name}");
    }
    let row = job(&set.admin, id).await;
    assert_eq!(row["status"], json!("running"));
    assert_eq!(row["claimed_by_worker"], json!(format!("edge-1@{DEFAULT_TENANT}")));
    let lease =
        "select count(*) from windlass.pull_lease where lease_seconds = 45 and expires_at < times_out_at";
    assert_eq!(count(&set.admin, lease).await, 1);

    let beat = format!(
        "select to_jsonb(e) from windlass.extend({}, percent => 140, message => E'half\\x1b', log => '{{one,two}}') e",
        taken.held()
    );
    let extended: Value = set.worker.query_one(&beat, &[]).await.unwrap().get(0);
    assert_eq!(extended["cancel_requested"], json!(false));
    assert!(extended["lease_expires_at"].as_str() >= taken.0["lease_expires_at"].as_str());
    let row = job(&set.admin, id).await;
    assert_eq!((&row["progress_percent"], &row["progress_message"]), (&json!(100), &json!("half\u{fffd}")));
    let logged: String =
        set.admin.query_one("select string_agg(text, '') from windlass.job_log", &[]).await.unwrap().get(0);
    assert_eq!(logged, "one\ntwo\n");

    let done = format!(
        r#"finish({}, result => '{{"ok": true, "none": null}}', artifact => '"s3://a"',
            next => '[{{"definition_key": "taken", "payload": {{"after": null}}, "priority": 5}}]')"#,
        taken.held()
    );
    assert_eq!(set.end(&done).await, "succeeded");
    let row = job(&set.admin, id).await;
    assert_eq!((&row["result"], &row["artifact"]), (&json!({"ok": true, "none": null}), &json!("s3://a")));
    let next = set.take_one().await;
    assert_eq!((&next.0["parent_id"], &next.0["payload"]), (&json!(id), &json!({"after": null})));
    assert_eq!(set.end(&format!("finish({})", next.held())).await, "succeeded");
    assert_eq!(count(&set.admin, "select count(*) from windlass.pull_lease").await, 0);
    assert_counts_are_exact(&set.admin).await;
    assert!(set.take("array['taken']").await.is_empty());
    set.drop().await;
}

#[tokio::test]
async fn every_end_follows_the_policies_of_the_definition() {
    let set = Set::new().await;
    let id = set.enqueue("'{}', max_attempts => 3").await;
    let held = set.take_one().await.held();
    assert_eq!(set.end(&format!("release({held})")).await, "queued");
    let held = set.take_one().await.held();
    assert_eq!(set.end(&format!("snooze({held}, '1 ms')")).await, "scheduled");
    set.promote(id).await;
    let held = set.take_one().await.held();
    assert_eq!(set.end(&format!("fail({held}, 'once')")).await, "scheduled");
    set.promote(id).await;
    let taken = set.take_one().await;
    assert_eq!((&taken.0["attempt"], &taken.0["failures"]), (&json!(4), &json!(1)));
    assert_eq!(
        set.end(&format!("fail({}, 'twice', retry_after => '1 hour')", taken.held())).await,
        "scheduled"
    );
    let due = "select count(*) from windlass.deferred where due_at between now() + interval '59 m' and now() + interval '61 m'";
    assert_eq!(count(&set.admin, due).await, 1);
    set.admin.batch_execute("update windlass.deferred set due_at = now()").await.unwrap();
    set.promote(id).await;
    let held = set.take_one().await.held();
    assert_eq!(set.end(&format!("fail({held}, 'thrice')")).await, "dead_letter");
    assert_eq!(attempts(&set.admin, id).await, ["released", "snoozed", "failed", "failed", "failed"]);
    assert_eq!(job(&set.admin, id).await["reason"], json!("attempts_exhausted"));

    let id = set.enqueue("'{}'").await;
    let held = set.take_one().await.held();
    assert_eq!(set.end(&format!("fail({held}, E'ne\\x07ver', retryable => false)")).await, "failed");
    let row = job(&set.admin, id).await;
    assert_eq!((&row["last_error"], &row["reason"]), (&json!("ne\u{fffd}ver"), &json!("permanent")));
    assert_counts_are_exact(&set.admin).await;
    set.drop().await;
}

/// Invariants 41 and 42.
#[tokio::test]
async fn a_cancel_is_returned_by_extend_and_overrules_the_end() {
    let set = Set::new().await;
    let id = set.enqueue("'{}'").await;
    let held = set.take_one().await.held();
    set.queue.cancel(DEFAULT_TENANT, id).await.unwrap();
    let beat = format!("select cancel_requested from windlass.extend({held})");
    assert!(set.worker.query_one(&beat, &[]).await.unwrap().get::<_, bool>(0));
    assert_eq!(set.end(&format!("finish({held})")).await, "canceled");
    assert_eq!(attempts(&set.admin, id).await, ["canceled"]);
    set.drop().await;
}

/// Invariants 5 to 8: the keeper recovers the job, and its first worker can do nothing about it any more.
#[tokio::test]
async fn a_lease_that_expired_is_recovered_and_its_token_is_stale() {
    let set = Set::new().await;
    let id = set.enqueue("'{}'").await;
    let first = set.take_one().await;
    let expire = "update windlass.pull_lease set expires_at = clock_timestamp() - interval '1 s'";
    set.admin.batch_execute(expire).await.unwrap();
    // An expired lease is valid until the job is recovered.
    set.worker.query_one(&format!("select windlass.extend({})", first.held()), &[]).await.unwrap();
    set.admin.batch_execute(expire).await.unwrap();
    assert_eq!(keeper(&set.queue).run_once(Duty::Reap).await.unwrap().moved, 1);
    set.admin.batch_execute("update windlass.deferred set due_at = now()").await.unwrap();
    set.promote(id).await;
    let second = set.take_one().await;
    for call in ["extend({})", "finish({})", "fail({}, 'e')", "snooze({}, '1 s')", "release({})"] {
        let call = format!("select windlass.{}", call.replace("{}", &first.held()));
        assert_eq!(refusal(set.worker.query(&call, &[]).await), "WL019", "{call}");
    }
    assert_eq!(set.end(&format!("finish({})", second.held())).await, "succeeded");
    assert_eq!(attempts(&set.admin, id).await, ["lost", "succeeded"]);
    set.drop().await;
}

#[tokio::test]
async fn the_end_is_committed_with_the_transaction_of_the_work() {
    let set = Set::new().await;
    let id = set.enqueue("'{}'").await;
    let held = set.take_one().await.held();
    let finish = format!("begin; select windlass.finish({held}); rollback");
    set.worker.batch_execute(&finish).await.unwrap();
    assert_eq!(status(&set.admin, id).await, "running");
    set.worker.batch_execute(&format!("begin; select windlass.finish({held}); commit")).await.unwrap();
    assert_eq!(status(&set.admin, id).await, "succeeded");
    set.drop().await;
}

#[tokio::test]
async fn take_follows_priorities_limits_pauses_and_drains() {
    let set = Set::new().await;
    set.queue.define(&Definition::new("limited").max_running(1)).await.unwrap();
    for _ in 0..3 {
        set.admin.batch_execute("select windlass.enqueue('limited')").await.unwrap();
    }
    assert_eq!(set.take("array['limited'], 10").await.len(), 1);
    assert_eq!(set.take("array['limited'], 10").await.len(), 0, "it has reached its limit");

    let mut first = 0;
    for _ in 0..20 {
        let late = set.enqueue("'{}', priority => 200").await;
        let soon = set.enqueue("'{}', priority => 10").await;
        let taken = set.take("array['taken'], 2").await;
        assert_eq!(taken.len(), 2);
        first += usize::from(taken[0].id() == soon && taken[1].id() == late);
    }
    assert!(first >= 10, "one call in ten ignores priorities, and half of those keep the order: {first}");

    let id = set.enqueue("'{}', queue => 'slow'").await;
    set.queue.set_paused("slow", true).await.unwrap();
    assert!(set.take("array['taken']").await.is_empty(), "the queue is paused");
    set.queue.set_paused("slow", false).await.unwrap();
    let drain = "select windlass.set_draining(worker_id, true) from windlass.job_workers";
    set.admin.batch_execute(drain).await.unwrap();
    assert!(set.take("array['taken']").await.is_empty(), "the worker is drained");
    let others = set.take("queues => array['slow'], worker_id => 'other'").await;
    assert_eq!(others.iter().map(Taken::id).collect::<Vec<_>>(), [id]);
    set.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_at_the_same_time_take_different_jobs() {
    let set = Set::new().await;
    let many: Vec<NewJob> = (0..60).map(|_| NewJob::new("taken")).collect();
    set.queue.enqueue_many(&many).await.unwrap();
    let mut calls = Vec::new();
    for _ in 0..6 {
        let client = set.login.client().await;
        calls.push(tokio::spawn(async move { take(&client, "array['taken'], 10").await }));
    }
    let mut ids = Vec::new();
    for call in calls {
        ids.extend(call.await.unwrap().iter().map(Taken::id));
    }
    assert_eq!(ids.len(), 60, "none of them waits in vain for another");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 60);
    set.drop().await;
}

/// The statement that PostgREST sends for `rpc("take", {…})`: arguments by name from a JSON object, rows as a JSON array.
#[tokio::test]
async fn the_functions_can_be_called_as_postgrest_calls_them() {
    let set = Set::new().await;
    let id = set.enqueue(r#"'{"n": 1}'"#).await;
    let rpc = async |function: &str, types: &str, arguments: Value| -> Value {
        let names: Vec<&str> = types.split(", ").map(|one| one.split(' ').next().unwrap()).collect();
        let passed: Vec<String> = names.iter().map(|name| format!("{name} := a.{name}")).collect();
        let query = format!(
            "with arguments as (select * from json_to_record($1) as _ ({types}))
             select coalesce(json_agg(r), '[]')
               from (select f.* from arguments a, lateral windlass.{function}({}) f) r",
            passed.join(", ")
        );
        set.worker.query_one(&query, &[&arguments]).await.unwrap().get(0)
    };
    let types = "keys text[], most integer, lease interval, worker_id text";
    let arguments = json!({"keys": ["taken"], "most": 5, "lease": "90 s", "worker_id": "edge"});
    let taken = rpc("take", types, arguments).await;
    assert_eq!((&taken[0]["id"], &taken[0]["payload"]), (&json!(id), &json!({"n": 1})));
    let (job, token) = (&taken[0]["id"], &taken[0]["token"]);
    let renewed = rpc(
        "extend",
        "job uuid, token uuid, percent real",
        json!({"job": job, "token": token, "percent": 5}),
    )
    .await;
    assert_eq!(renewed[0]["cancel_requested"], json!(false));
    let arguments = json!({"job": job, "token": token, "result": {"ok": [1]}});
    let ended = rpc("finish", "job uuid, token uuid, result jsonb", arguments).await;
    assert_eq!(ended, json!([{"f": "succeeded"}]));
    assert_eq!(crate::support::job(&set.admin, id).await["result"], json!({"ok": [1]}));
    set.drop().await;
}
