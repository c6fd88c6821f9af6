//! Shared by the tests of a job's life: handlers that a test controls, and functions that inspect the tables.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::{Client, SimpleQueryMessage};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::job::{Backoff, Fence};
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::worker::WorkerBuilder;
use windlass::{Context, DEFAULT_TENANT, Definition, Done, Failure, Handler, Queue, Worker};
use windlass_testing::{TestQueue, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

/// A handler whose every run is passed to the test, which decides how it ends. Its definition is `held`.
pub(crate) struct Held {
    runs: mpsc::UnboundedSender<Run>,
    policies: fn(Definition) -> Definition,
}

/// One run that waits for the test's decision.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) job: Uuid,
    pub(crate) attempt: i32,
    pub(crate) payload: Value,
    pub(crate) stop: CancellationToken,
    answer: oneshot::Sender<Answer>,
}

#[derive(Debug)]
enum Answer {
    Return(Result<Done, Failure>),
    Panic,
}

/// Where the runs of [`Held`] arrive.
pub(crate) struct Desk(mpsc::UnboundedReceiver<Run>);

impl Held {
    pub(crate) fn new() -> (Self, Desk) {
        Self::with(|definition| definition)
    }

    pub(crate) fn with(policies: fn(Definition) -> Definition) -> (Self, Desk) {
        let (runs, desk) = mpsc::unbounded_channel();
        (Self { runs, policies }, Desk(desk))
    }
}

windlass_testing::payload!(pub(crate) HeldArgs(Value) = "held");

impl Handler for Held {
    type Args = HeldArgs;

    async fn run(&self, job: &Context, HeldArgs(payload): HeldArgs) -> Result<Done, Failure> {
        let (answer, word) = oneshot::channel();
        let run =
            Run { job: job.job_id(), attempt: job.attempt(), payload, stop: job.cancellation(), answer };
        self.runs.send(run).map_err(|_| Failure::retry("the test has ended"))?;
        match word.await {
            Ok(Answer::Return(answer)) => answer,
            Ok(Answer::Panic) => panic!("as the test requested"),
            Err(_) => Err(Failure::retry("the test gave no instruction")),
        }
    }

    fn definition(&self) -> Definition {
        (self.policies)(Definition::of::<HeldArgs>().backoff(soon()))
    }
}

impl Desk {
    pub(crate) async fn next(&mut self) -> Run {
        let run =
            tokio::time::timeout(PATIENCE, self.0.recv()).await.expect("no run started within a minute");
        run.expect("the handler was dropped")
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Run {
    pub(crate) fn succeed(self) {
        self.end(Ok(Done::new()));
    }

    pub(crate) fn fail(self, error: &str) {
        self.end(Err(Failure::retry(error)));
    }

    pub(crate) fn end(self, answer: Result<Done, Failure>) {
        // A run that was dropped meanwhile does not receive it; the test checks the rows.
        let _ = self.answer.send(Answer::Return(answer));
    }

    pub(crate) fn panic(self) {
        let _ = self.answer.send(Answer::Panic);
    }
}

/// A handler that does what its payload specifies. Its definition is `acting`.
pub(crate) struct Acting;

windlass_testing::payload!(pub(crate) ActingArgs(Value) = "acting");

impl Handler for Acting {
    type Args = ActingArgs;

    async fn run(&self, job: &Context, ActingArgs(payload): ActingArgs) -> Result<Done, Failure> {
        match payload["act"].as_str().unwrap_or("succeed") {
            "fail" => Err(Failure::retry("as requested")),
            "fail_once" if job.failures() == 0 => Err(Failure::retry_after(Duration::ZERO, "once")),
            "permanent" => Err(Failure::permanent("as requested")),
            "snooze_once" if job.attempt() == 1 => Ok(Done::snooze(Duration::ZERO)),
            "panic" => panic!("as requested"),
            _ => Ok(Done::new()),
        }
    }

    fn definition(&self) -> Definition {
        Definition::of::<ActingArgs>().backoff(soon())
    }
}

/// A backoff that is short enough for a test.
pub(crate) fn soon() -> Backoff {
    Backoff::fixed(Duration::from_millis(10)).jitter(0.0)
}

/// A worker that polls often, so that no test waits for a default interval.
pub(crate) fn worker(queue: &Queue) -> WorkerBuilder {
    let often = Duration::from_millis(50);
    let keeper =
        KeeperSettings::default().promote(often).reap(often).expire(often).unblock(often).fold(often);
    Worker::builder(queue).poll_interval(often).keeper(keeper)
}

pub(crate) fn keeper(queue: &Queue) -> Keeper {
    Keeper::new(queue.clone(), KeeperSettings::default())
}

/// The job's row of `windlass.jobs`, or null if there is none.
pub(crate) async fn job(client: &Client, id: Uuid) -> Value {
    let rows = client.query("select to_jsonb(j) from windlass.jobs j where id = $1", &[&id]).await.unwrap();
    rows.first().map_or(Value::Null, |row| row.get(0))
}

/// Without the other columns of the view, which take most of the time to plan.
pub(crate) async fn status(client: &Client, id: Uuid) -> String {
    let rows = client.query("select status from windlass.jobs where id = $1", &[&id]).await.unwrap();
    rows.first().and_then(|row| row.get(0)).unwrap_or_else(|| "missing".to_owned())
}

/// Waits for a status and returns the job's row.
pub(crate) async fn until(client: &Client, id: Uuid, wanted: &str) -> Value {
    eventually(&format!("job {id} is {wanted}"), async || status(client, id).await == wanted).await;
    job(client, id).await
}

/// The statuses of a job's attempts, in order.
pub(crate) async fn attempts(client: &Client, id: Uuid) -> Vec<String> {
    let text = "select status from windlass.job_attempts where job_id = $1 order by attempt_no";
    client.query(text, &[&id]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

pub(crate) async fn count(client: &Client, query: &str) -> i64 {
    client.query_one(query, &[]).await.unwrap().get(0)
}

/// Rows to lock, which stay, and the rate of enqueues, which is measured all the time.
const NOT_COMPARED: [&str; 2] = ["gate", "partition_rate"];

/// Every row of every table of the queue, as text, to compare what must not change.
pub(crate) async fn everything(client: &Client) -> String {
    everything_but(client, &NOT_COMPARED).await
}

/// The same without the audit trail, which records deletions.
pub(crate) async fn everything_unaudited(client: &Client) -> String {
    everything_but(client, &[&NOT_COMPARED[..], &["audit"]].concat()).await
}

async fn everything_but(client: &Client, left_out: &[&str]) -> String {
    let names = "select format('windlass.%I', c.relname) from pg_class c
        where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
          and c.relname <> all ($1)
        order by 1";
    let tables: Vec<String> =
        client.query(names, &[&left_out]).await.unwrap().iter().map(|row| row.get(0)).collect();
    let rows_of = |name: &String| {
        format!("select '{name}', coalesce(string_agg(t::text, E'\\n' order by t::text), '') from {name} t;")
    };
    // One message for all tables: tests ask often.
    let found = client.simple_query(&tables.iter().map(rows_of).collect::<String>()).await.unwrap();
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some(format!("{}\n{}\n", row.get(0).unwrap(), row.get(1).unwrap())),
        _ => None,
    };
    found.iter().filter_map(row).collect()
}

/// The counters must equal the rows.
pub(crate) async fn assert_counts_are_exact(client: &Client) {
    let counted = "select jsonb_build_object('queued', coalesce(sum(queued), 0), 'running', coalesce(sum(running), 0),
        'scheduled', coalesce(sum(scheduled), 0), 'blocked', coalesce(sum(blocked), 0), 'succeeded', coalesce(sum(succeeded), 0),
        'failed', coalesce(sum(failed), 0), 'dead_letter', coalesce(sum(dead_letter), 0), 'canceled', coalesce(sum(canceled), 0))
        from windlass.job_counts";
    let rows = "select jsonb_object_agg(s.status, (select count(*) from windlass.jobs j where j.status = s.status))
        from unnest(array['queued', 'running', 'scheduled', 'blocked', 'succeeded', 'failed', 'dead_letter', 'canceled']) s (status)";
    let counted: Value = client.query_one(counted, &[]).await.unwrap().get(0);
    let rows: Value = client.query_one(rows, &[]).await.unwrap().get(0);
    assert_eq!(counted, rows, "the counters differ from the rows");
}

/// Lets a worker that dies claim everything that is queued or due; returns how many jobs the reaper then moved.
pub(crate) async fn lose_worker(queue: &TestQueue, keeper: &Keeper) -> u64 {
    let dying = Hand::new(queue.client().await).await;
    eventually("it can be claimed", async || {
        keeper.run_once(Duty::Promote).await.unwrap();
        !dying.claim_all().await.is_empty()
    })
    .await;
    dying.miss_heartbeats().await;
    keeper.run_once(Duty::Reap).await.unwrap().moved
}

/// A queue with the definition `held`.
pub(crate) async fn start() -> (TestQueue, Hand) {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(serde_json::json!({"key": "held"})).await;
    (queue, hand)
}

/// Calls the statements directly: a worker without a process that claims and settles as the test requests.
pub(crate) struct Hand {
    pub(crate) client: Client,
    pub(crate) worker: i32,
}

impl Hand {
    pub(crate) async fn new(client: Client) -> Self {
        let worker = register(&client).await;
        Self { client, worker }
    }

    pub(crate) async fn define(&self, definition: Value) {
        self.client.execute("select windlass.define($1)", &[&definition]).await.unwrap();
    }

    /// The SQL function with literal arguments, such as `'held', delay => '1 hour'`.
    pub(crate) async fn enqueue(&self, arguments: &str) -> Uuid {
        let call = format!("select id from windlass.enqueue({arguments})");
        self.client.query_one(&call, &[]).await.unwrap_or_else(|error| panic!("{call}: {error:?}")).get(0)
    }

    pub(crate) async fn enqueue_many(&self, key: &str, tenant: Uuid, jobs: i32) {
        let call = "select windlass.enqueue_many($1, array_fill('{}'::jsonb, array[$3::integer]), $2)";
        self.client.execute(call, &[&key, &tenant, &jobs]).await.unwrap();
    }

    /// Claims everything that is queued, in every lane.
    pub(crate) async fn claim_all(&self) -> Vec<Fence> {
        let token = Uuid::new_v4();
        let claim = "select c.tenant_id, c.job_id, c.attempt from
            (select array_agg(id) as lanes, array_agg(0::bigint) as seqs, array_agg(1000) as counts from windlass.lane) l,
            windlass.claim($1, $2, l.lanes, l.seqs, l.counts) c";
        let rows = self.client.query(claim, &[&self.worker, &token]).await.unwrap();
        rows.iter()
            .map(|row| Fence { tenant: row.get(0), job: row.get(1), attempt: row.get(2), token })
            .collect()
    }

    pub(crate) async fn claim_one(&self) -> Fence {
        let mut fences = self.claim_all().await;
        assert_eq!(fences.len(), 1, "one job is queued");
        fences.remove(0)
    }

    /// Whether it took effect.
    pub(crate) async fn settle(&self, fence: &Fence, detail: Option<Value>) -> bool {
        let settle =
            "select settled from windlass.settle(array[$1::uuid], array[$2::uuid], array[$3::integer],
            array[$4::uuid], array[1], array[$5::jsonb])";
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&fence.tenant, &fence.job, &fence.attempt, &fence.token, &detail];
        let row = self.client.query_one(settle, &params).await.unwrap();
        row.get::<_, Option<Vec<i32>>>(0).is_some_and(|settled| settled == [1])
    }

    /// Whether it was accepted.
    pub(crate) async fn progress(&self, fence: &Fence) -> bool {
        let report = "select windlass.report_progress(array[$1::uuid], array[$2::uuid], array[$3::integer],
            array[$4::uuid], array[50::real], array['half'])";
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&fence.tenant, &fence.job, &fence.attempt, &fence.token];
        self.client.query_one(report, &params).await.unwrap().get::<_, i32>(0) == 1
    }

    pub(crate) async fn heartbeat(&self) -> bool {
        let rows =
            self.client.query("select * from windlass.heartbeat($1, 1)", &[&self.worker]).await.unwrap();
        !rows.is_empty()
    }

    /// Lets this worker's lease expire.
    pub(crate) async fn miss_heartbeats(&self) {
        let expire = "update windlass.job_workers set lease_expires_at = clock_timestamp() - interval '1 s' where id = $1";
        self.client.execute(expire, &[&self.worker]).await.unwrap();
    }

    pub(crate) async fn cancel(&self, id: Uuid) -> String {
        self.client.query_one("select windlass.cancel($1, $2)", &[&DEFAULT_TENANT, &id]).await.unwrap().get(0)
    }

    pub(crate) async fn retry(&self, id: Uuid) -> String {
        let retry = "select result from windlass.retry($1, $2, 'tester')";
        self.client.query_one(retry, &[&DEFAULT_TENANT, &id]).await.unwrap().get(0)
    }
}

pub(crate) async fn register(client: &Client) -> i32 {
    let register = "select windlass.register_worker($1, 'test', '', '{}', '{}', 3600, '{}')";
    client.query_one(register, &[&Uuid::new_v4().to_string()]).await.unwrap().get(0)
}

/// A worker's record of an attempt; see `settle_blocks.sql`.
pub(crate) mod ending {
    use serde_json::{Value, json};

    pub(crate) fn retry() -> Value {
        json!({"outcome": 2, "next": 7, "delay_ms": 0, "failures": 1, "lost": 0, "snoozes": 0, "error": "again"})
    }

    pub(crate) fn failed() -> Value {
        json!({"outcome": 2, "next": 2, "failures": 1, "lost": 0, "snoozes": 0, "reason": "permanent", "error": "no"})
    }

    pub(crate) fn dead_letter() -> Value {
        json!({"outcome": 2, "next": 3, "failures": 1, "lost": 0, "snoozes": 0, "reason": "attempts_exhausted", "error": "no"})
    }

    pub(crate) fn timeout() -> Value {
        json!({"outcome": 3, "next": 7, "delay_ms": 0, "failures": 1, "lost": 0, "snoozes": 0, "error": "late"})
    }

    pub(crate) fn snooze() -> Value {
        json!({"outcome": 6, "next": 7, "delay_ms": 0, "failures": 0, "lost": 0, "snoozes": 1})
    }

    pub(crate) fn release() -> Value {
        json!({"outcome": 7, "next": 5, "failures": 0, "lost": 0, "snoozes": 0})
    }
}
