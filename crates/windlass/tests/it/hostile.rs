//! Invariant 50: no byte that a handler writes, and nothing it does, prevents its job from ending.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::{Strategy, any};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde::ser::{Serialize, SerializeSeq, Serializer};
use serde_json::json;
use serde_json::value::RawValue;
use uuid::Uuid;
use windlass::job::{Backoff, Filter, OnTimeout};
use windlass::{Context, DEFAULT_TENANT, Definition, Done, Failure, Handler, NewJob, Queue, Worker};
use windlass_testing::{TestQueue, eventually};

use crate::process::accounting::{number, settle_accounts};
use crate::process::fleet::Fleet;

const LONG: usize = 10 * 1024 * 1024;

/// Texts that are known to break some store, terminal or parser.
fn nasty() -> Vec<String> {
    let mut texts: Vec<String> = [
        "",
        "\0",
        "a\0b\0",
        "\u{1b}[2J\u{9b}31m",
        "\r\n\t",
        "\u{202e}evil",
        "\u{feff}",
        "\u{fffe}",
        "\u{10ffff}",
        "\\u0000",
        "\\ud800",
        "'; drop schema windlass cascade; --",
        "{\"a\":",
        "%s%n$1",
        "\\",
        "\"",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.push("x".repeat(LONG));
    texts.push("\0".repeat(LONG));
    texts.push("ü€𝄞".repeat(LONG / 9));
    texts.push(String::from_utf8_lossy(&(0..=255).collect::<Vec<u8>>()).into_owned());
    for length in [498, 499, 500, 501, 8191, 8192, 8193] {
        texts.push(format!("{}é", "y".repeat(length)));
    }
    texts
}

/// Every way in which a handler can pass a text to the engine.
const WAYS: [&str; 9] =
    ["retry", "permanent", "panic", "panic_any", "result", "result_key", "artifact", "progress", "chain"];

#[tokio::test(flavor = "multi_thread")]
async fn no_text_prevents_a_job_from_ending() {
    always_ends(nasty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_random_text_prevents_a_job_from_ending() {
    let mut runner = TestRunner::default();
    let strategy = (any::<String>(), proptest::collection::vec(any::<u8>(), 0..200), 1_usize..300);
    let texts = (0..40).map(|_| {
        let (text, bytes, times) = strategy.new_tree(&mut runner).unwrap().current();
        (text + &String::from_utf8_lossy(&bytes)).repeat(times)
    });
    always_ends(texts.collect()).await;
}

/// A role that may enqueue can call the functions behind the entry points, which do not check payloads: the list still shows its
/// job and all others, and a worker ends it.
#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_jsonb_rejects_hides_no_job_and_ends() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker = start(&queue, Says(Arc::new(Vec::new()))).await;
    let unread = [r#"{"way": "\u0000"}"#, r#"{"way": "\ud800"}"#, r#"{"way": 1e999999}"#];
    for text in unread {
        let query = format!(
            "select windlass.enqueue_routed(r.tenant_id, windlass.uuid7(), r.lane, r.max_attempts, '{text}', null)
               from windlass.route_of(null, 'says', null, null) r"
        );
        client.batch_execute(&query).await.unwrap();
    }
    let ended = "select count(*) from windlass.jobs where finished_at is not null";
    eventually("all have ended", async || number(&client, ended).await == 3).await;
    let rows = client.query("select payload, status from windlass.jobs order by id", &[]).await.unwrap();
    for (row, text) in rows.iter().zip(unread) {
        assert_eq!((row.get(0), row.get(1)), (json!(text), "failed"));
    }
    let found = queue.list(&Filter::new(DEFAULT_TENANT).mentions("1e999999")).await.unwrap();
    assert_eq!(found.jobs.len(), 1);
    worker.stop().await.unwrap();
}

async fn always_ends(texts: Vec<String>) {
    let queue = TestQueue::create().await;
    let count = texts.len();
    let worker = start(&queue, Says(Arc::new(texts))).await;
    let jobs: Vec<NewJob> = (0..count)
        .flat_map(|text| WAYS.map(|way| NewJob::new("says").payload(&json!({"way": way, "text": text}))))
        .collect();
    let mut acked: Vec<Uuid> =
        queue.enqueue_many(&jobs).await.unwrap().iter().map(|enqueued| enqueued.id).collect();
    check(&queue, &mut acked).await;
    let client = queue.client().await;
    let unsaid = "select count(*) from windlass.job_attempts a join windlass.jobs j on j.id = a.job_id
                   where a.status = 'failed' and a.error_text is null";
    assert_eq!(number(&client, unsaid).await, 0, "every failure has a message");
    worker.stop().await.unwrap();
}

struct Says(Arc<Vec<String>>);

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct SaysArgs {
    way: String,
    text: usize,
}

impl windlass::JobArgs for SaysArgs {
    const KEY: &'static str = "says";
}

impl Handler for Says {
    type Args = SaysArgs;

    async fn run(&self, job: &Context, args: SaysArgs) -> Result<Done, Failure> {
        let text = &self.0[args.text];
        match args.way.as_str() {
            "retry" => Err(Failure::retry(text)),
            "permanent" => Err(Failure::permanent(text)),
            "panic" => panic!("{text}"),
            "panic_any" => std::panic::panic_any(text.as_bytes().to_vec()),
            "result" => Ok(Done::new().result(&json!({"said": [text]}))),
            "result_key" => Ok(Done::new().result(&HashMap::from([(text, 1)]))),
            "artifact" => Ok(Done::new().artifact(text)),
            "progress" => {
                job.progress(f32::NAN, text);
                job.progress(f32::INFINITY, text);
                Ok(Done::new())
            }
            _ => Ok(Done::new().then(NewJob::new(text.clone()).payload(&json!({"text": text})).tag(text))),
        }
    }

    fn definition(&self) -> Definition {
        quick("says")
    }
}

/// Results that are not text, or far too large.
#[tokio::test(flavor = "multi_thread")]
async fn no_result_prevents_a_job_from_ending() {
    let queue = TestQueue::create().await;
    let worker = start(&queue, Gives).await;
    let jobs: Vec<NewJob> =
        (0..GIFTS).map(|number| NewJob::new("gives").payload(&json!({"number": number}))).collect();
    let mut acked: Vec<Uuid> =
        queue.enqueue_many(&jobs).await.unwrap().iter().map(|enqueued| enqueued.id).collect();
    check(&queue, &mut acked).await;
    let client = queue.client().await;
    let silent = "select count(*) from windlass.jobs where status = 'succeeded' and result is null";
    assert_eq!(number(&client, silent).await, 0, "a result that cannot be stored is replaced by a note");
    worker.stop().await.unwrap();
}

const GIFTS: u32 = 13;

struct Gives;

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct GivesArgs {
    number: u32,
}

impl windlass::JobArgs for GivesArgs {
    const KEY: &'static str = "gives";
}

impl Handler for Gives {
    type Args = GivesArgs;

    async fn run(&self, _: &Context, args: GivesArgs) -> Result<Done, Failure> {
        let raw = |text: &str| RawValue::from_string(text.to_owned());
        let done = Done::new();
        Ok(match args.number {
            0 => done.result(&Nested(10_000)),
            1 => done.result(&Nested(33)),
            2 => done.result(&BTreeMap::from([((1, 2), "a pair is no name")])),
            3 => done.result(&[f64::NAN, f64::INFINITY, -0.0, f64::MAX, f64::MIN_POSITIVE]),
            4 => done.result(&[u128::MAX]),
            5 => done.result(&BTreeMap::from([(f64::MAX.to_bits(), 1.0)])),
            6 => done.result(&raw(r#""\\ud800""#)?),
            7 => done.result(&raw("[1e131071]")?),
            8 => done.result(&raw(r#"{"a\\u0000": "\\u0000"}"#)?),
            9 => done.result(&vec![0; 1_000_000]),
            10 => done.result(&"x".repeat(LONG)).artifact(&"x".repeat(LONG)),
            11 => done.result(&Refuses),
            _ => done.result(&raw(&"["
                .repeat(200)
                .chars()
                .chain("]".repeat(200).chars())
                .collect::<String>())?),
        })
    }

    fn definition(&self) -> Definition {
        quick("gives")
    }
}

/// Nested arrays, without the memory that this would take.
struct Nested(usize);

impl Serialize for Nested {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut array = serializer.serialize_seq(None)?;
        if self.0 > 1 {
            array.serialize_element(&Self(self.0 - 1))?;
        }
        array.end()
    }
}

struct Refuses;

impl Serialize for Refuses {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("never\0"))
    }
}

/// Handlers that fail in unexpected places.
#[tokio::test(flavor = "multi_thread")]
async fn no_behavior_prevents_a_job_from_ending() {
    let queue = TestQueue::create().await;
    let worker = start(&queue, Breaks).await;
    let ways = [
        "panics_on_drop",
        "panic_drops_badly",
        "sleeps_forever",
        "snoozes_forever",
        "retries_in_ages",
        "chains_nonsense",
        "chains_too_deep",
        "chains_in_ages",
        "wrong_payload",
    ];
    let mut acked = Vec::new();
    for way in ways {
        acked.push(queue.enqueue(&NewJob::new("breaks").payload(&json!({"way": way}))).await.unwrap().id);
    }
    let deferred = "select count(*) from windlass.deferred where due_at > now() + interval '1 hour'";
    let client = queue.client().await;
    eventually("two are scheduled far in the future", async || number(&client, deferred).await == 2).await;
    for row in client
        .query(
            "select tenant_id, job_id from windlass.deferred where due_at > now() + interval '1 hour'",
            &[],
        )
        .await
        .unwrap()
    {
        queue.cancel(row.get(0), row.get(1)).await.unwrap();
    }
    check(&queue, &mut acked).await;
    let nonsense =
        "select count(*) from windlass.jobs where payload ->> 'way' like 'chains%' and status = 'succeeded'";
    assert_eq!(number(&client, nonsense).await, 0, "a success with an invalid next job is a failure");
    worker.stop().await.unwrap();
}

struct Breaks;

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct BreaksArgs {
    way: String,
}

struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped badly\0");
        }
    }
}

impl windlass::JobArgs for BreaksArgs {
    const KEY: &'static str = "breaks";
}

impl Handler for Breaks {
    type Args = BreaksArgs;

    async fn run(&self, _: &Context, args: BreaksArgs) -> Result<Done, Failure> {
        let ages = Duration::MAX;
        match args.way.as_str() {
            "panics_on_drop" => {
                let _held = PanicsOnDrop;
                std::future::pending::<()>().await;
                Ok(Done::new())
            }
            "panic_drops_badly" => std::panic::panic_any(PanicsOnDrop),
            "sleeps_forever" => std::future::pending().await,
            "snoozes_forever" => Ok(Done::snooze(ages)),
            "retries_in_ages" => Err(Failure::retry_after(ages, "later")),
            "chains_nonsense" => Ok(Done::new().then(NewJob::new("no such definition"))),
            "chains_too_deep" => Ok(Done::new().then(NewJob::new("breaks").payload(&Nested(100)))),
            "chains_in_ages" => Ok(Done::new().then(NewJob::new("breaks").delay(ages))),
            _ => Err(Failure::permanent("as requested")),
        }
    }

    fn definition(&self) -> Definition {
        quick("breaks").timeout(Duration::from_secs(1), OnTimeout::Retry)
    }
}

/// Jobs that the SQL function accepts must not block the claims and promotions of others.
#[tokio::test(flavor = "multi_thread")]
async fn no_time_value_prevents_other_jobs_from_ending() {
    let queue = TestQueue::create().await;
    let worker = start(&queue, Breaks).await;
    let client = queue.client().await;
    let mut acked = Vec::new();
    for option in [
        "scheduled_for => 'infinity'",
        "scheduled_for => '-infinity'",
        "deadline => 'infinity'",
        "deadline => '-infinity'",
        "scheduled_for => '4714-11-24 BC'",
        "deadline => '294276-12-31'",
        "scheduled_for => '294276-12-31'",
        "delay => '-200 years'",
        "delay => '200000 years'",
        "priority => -2147483648",
        "priority => 2147483647",
        "tags => array[]::text[]",
        "uniqueness => '{\"window_seconds\": 1e300}', dedupe_key => 'k'",
        "uniqueness => '{\"window_seconds\": -1}', dedupe_key => 'l'",
    ] {
        let statement = format!("select id from windlass.enqueue('breaks', '{{\"way\": \"\"}}', {option})");
        // It may be rejected; it may not be accepted and then block others.
        if let Ok(row) = client.query_one(&statement, &[]).await {
            acked.push(row.get(0));
        }
    }
    acked.push(queue.enqueue(&NewJob::new("breaks").payload(&json!({"way": ""}))).await.unwrap().id);
    let soon = NewJob::new("breaks").payload(&json!({"way": ""})).delay(Duration::from_millis(300));
    acked.push(queue.enqueue(&soon).await.unwrap().id);
    let others = "select (select count(*) from windlass.line) + (select count(*) from windlass.live)";
    eventually("every due job has ended", async || {
        number(&client, others).await
            + number(
                &client,
                "select count(*) from windlass.deferred where due_at < now() + interval '1 day'",
            )
            .await
            == 0
    })
    .await;
    for row in client.query("select tenant_id, job_id from windlass.deferred", &[]).await.unwrap() {
        queue.cancel(row.get(0), row.get(1)).await.unwrap();
    }
    check(&queue, &mut acked).await;
    worker.stop().await.unwrap();
}

async fn start(queue: &Queue, handler: impl Handler) -> Worker {
    let poll = Duration::from_millis(100);
    Worker::builder(queue).handler(handler).concurrency(50).poll_interval(poll).start().await.unwrap()
}

fn quick(key: &str) -> Definition {
    let backoff = Backoff::fixed(Duration::from_millis(10)).jitter(0.0);
    Definition::new(key).backoff(backoff).max_attempts(2).max_snoozes(1)
}

/// Every job has ended, and the tables are consistent. No one could send the chained jobs.
async fn check(queue: &TestQueue, acked: &mut Vec<Uuid>) {
    let client = queue.client().await;
    eventually("nothing waits", async || {
        number(&client, "select (select count(*) from windlass.line) + (select count(*) from windlass.live)")
            .await
            + number(&client, "select count(*) from windlass.deferred").await
            == 0
    })
    .await;
    let chained = client.query("select id from windlass.job where parent_id is not null", &[]).await.unwrap();
    acked.extend(chained.iter().map(|row| row.get::<_, Uuid>(0)));
    settle_accounts(&client, &Fleet::new(), acked, acked).await;
}
