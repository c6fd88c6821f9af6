//! Jobs that are run by calling an endpoint: a real server on a real socket responds, and the rows show the result.

mod bounds;
mod refuse;
mod server;
mod tenants;

use std::time::Duration;

use base64::Engine;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use windlass::job::State;
use windlass::keeper::Duty;
use windlass::pull::{Heartbeat, Held, Pull, Puller};
use windlass::worker::HttpEndpoint;
use windlass::{DEFAULT_TENANT, Definition, Done, NewJob, Worker};
use windlass_testing::{TestQueue, eventually};

use crate::support::{attempts, count, job, soon, status, until, worker};
use server::{Reply, Request, Server};

/// An endpoint on this machine, which is only called because it is allowed by name.
pub(super) fn endpoint(server: &Server, path: &str) -> HttpEndpoint {
    HttpEndpoint::new(server.url(path)).allow(vec![server.place()]).timeout(20.0)
}

pub(super) async fn start(queue: &TestQueue, key: &str, endpoint: &HttpEndpoint) -> Worker {
    queue.define(&Definition::new(key).backoff(soon())).await.unwrap();
    worker(queue).http(key, endpoint).unwrap().start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_sent_signed_and_the_response_is_the_result() {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let server = Server::start(|_| Reply::json(200, &json!({"tags": ["news"], "n": 1}))).await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let endpoint = endpoint(&server, "/tag?x=1")
        .secret(secret.into())
        .headers([("x-shard".to_owned(), "7".into())].into());
    let worker = start(&queue, "ai-tagging", &endpoint).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let new = NewJob::new("ai-tagging").payload(&json!({"post": 1})).subject("post", "1").trace(trace);
    let id = queue.enqueue(&new).await.unwrap().id;
    let row = until(&client, id, "succeeded").await;
    assert_eq!(row["result"], json!({"tags": ["news"], "n": 1}));

    let requests = server.requests();
    let [request] = &requests[..] else { panic!("called {} times", requests.len()) };
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/tag?x=1"));
    let name = format!("{DEFAULT_TENANT}:{id}:1");
    assert_eq!(
        (request.header("idempotency-key"), request.header("webhook-id")),
        (name.as_str(), name.as_str())
    );
    assert_eq!((request.header("x-shard"), request.header("content-type")), ("7", "application/json"));
    // One trace from the enqueue to the end: the endpoint's spans are children of this attempt's span, by its well-known id.
    assert_eq!(request.header("traceparent"), windlass::job::Trace::of(id, Some(trace)).traceparent(1));
    assert!(request.header("traceparent").starts_with("00-0af7651916cd43dd8448eb211c80319c-"));
    let timestamp: i64 = request.header("webhook-timestamp").parse().unwrap();
    assert!((jiff::Timestamp::now().as_second() - timestamp).abs() < 60);
    assert_eq!(request.header("webhook-signature"), signature(secret, &name, timestamp, &request.body));
    let body = request.json();
    assert_eq!(
        (&body["id"], &body["tenant_id"], &body["attempt"], &body["payload"], &body["definition_key"]),
        (&json!(id), &json!(DEFAULT_TENANT), &json!(1), &json!({"post": 1}), &json!("ai-tagging"))
    );
    assert!(body["fence"].as_str().is_some_and(|fence| fence.len() > 40) && body["deadline"].is_string());
    assert_eq!((&body["subject_type"], &body["subject_id"]), (&json!("post"), &json!("1")));
    worker.stop().await.unwrap();
}

/// As an endpoint would check it.
fn signature(secret: &str, id: &str, timestamp: i64, body: &[u8]) -> String {
    let encoding = base64::engine::general_purpose::STANDARD;
    let key = encoding.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    format!("v1,{}", encoding.encode(mac.finalize().into_bytes()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_retries_snoozes_or_fails_the_job_by_status() {
    let server = Server::start(|request: &Request| {
        let payload = &request.json()["payload"];
        let results: Vec<u64> =
            payload.as_array().unwrap().iter().map(|code| code.as_u64().unwrap()).collect();
        let attempt = usize::try_from(request.json()["attempt"].as_u64().unwrap()).unwrap();
        let status = u16::try_from(results[attempt - 1]).unwrap();
        let reply = Reply::json(status, &json!({"why": "as requested"}));
        if status == 429 { reply.header("retry-after", "0") } else { reply }
    })
    .await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker = start(&queue, "called", &endpoint(&server, "/")).await;
    let put = async |codes: &[u16]| {
        let new = NewJob::new("called").payload(&codes).max_attempts(3);
        queue.enqueue(&new).await.unwrap().id
    };
    let recovers = put(&[500, 429, 503, 200]).await;
    let fails = put(&[404]).await;
    let gives_up = put(&[500, 502, 504]).await;
    until(&client, recovers, "succeeded").await;
    assert_eq!(attempts(&client, recovers).await, ["failed", "snoozed", "failed", "succeeded"]);
    let row = until(&client, fails, "failed").await;
    assert_eq!(row["last_error"], json!(r#"the endpoint returned 404 Not Found: {"why":"as requested"}"#));
    until(&client, gives_up, "dead_letter").await;
    worker.stop().await.unwrap();
}

/// Longer than a day is a day, however it is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_a_day_if_the_endpoint_asks_for_more() {
    let server = Server::start(|request: &Request| {
        let payload = &request.json()["payload"];
        Reply::json(503, &json!({})).header("retry-after", payload.as_str().unwrap())
    })
    .await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker = start(&queue, "called", &endpoint(&server, "/")).await;
    for asked in ["99999999999999999999999999", "90000", "Fri, 31 Dec 9999 23:59:59 GMT"] {
        let new = NewJob::new("called").payload(&asked).max_attempts(1);
        let id = queue.enqueue(&new).await.unwrap().id;
        eventually("the attempt ends", async || attempts(&client, id).await == ["snoozed"]).await;
        let later = "select count(*) from windlass.jobs where id = $1 and status = 'scheduled'
            and scheduled_for between now() + interval '23 hours' and now() + interval '24 hours'";
        assert_eq!(client.query_one(later, &[&id]).await.unwrap().get::<_, i64>(0), 1, "{asked}");
    }
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn next_jobs_in_the_body_are_enqueued_with_the_success() {
    let server = Server::start(|_| {
        Reply::json(200, &json!({"windlass": {"next": [{"definition_key": "enrich", "payload": {"v": 2}}], "artifact": "s3://x"}}))
    })
    .await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("enrich")).await.unwrap();
    let worker = start(&queue, "scrape", &endpoint(&server, "/")).await;
    let id = queue.enqueue(&NewJob::new("scrape")).await.unwrap().id;
    let row = until(&client, id, "succeeded").await;
    assert_eq!((&row["result"], &row["artifact"]), (&Value::Null, &json!("s3://x")));
    let next = "select count(*) from windlass.jobs where definition_key = 'enrich' and parent_id is not null and payload = '{\"v\": 2}'";
    assert_eq!(count(&client, next).await, 1);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_job_runs_until_its_endpoint_ends_it() {
    let server = Server::start(|_| Reply::json(202, &json!({"windlass": {"lease_seconds": 600}}))).await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker = start(&queue, "slow", &endpoint(&server, "/")).await;
    let id = queue.enqueue(&NewJob::new("slow").max_attempts(2)).await.unwrap().id;
    let handed =
        "select count(*) from windlass.jobs where status = 'running' and claimed_by_worker = 'slow@endpoint'";
    eventually("the endpoint holds it", async || count(&client, handed).await == 1).await;
    eventually("the slot is free", async || worker.held_jobs() == 0).await;
    // It outlives the worker that called it.
    worker.stop().await.unwrap();
    crate::support::keeper(&queue).run_once(Duty::Reap).await.unwrap();
    assert_eq!(status(&client, id).await, "running");

    let pull = Pull::start(queue.queue()).await.unwrap();
    let puller = Puller::new("endpoint").tenant(DEFAULT_TENANT);
    let fence = server.requests()[0].json()["fence"].as_str().unwrap().to_owned();
    let beat = Heartbeat::default().percent(Some(50.0)).log(vec!["half".to_owned()]);
    assert!(matches!(pull.heartbeat(&puller, id, &fence, &beat).await.unwrap(), Held::Held(_)));
    let log = queue.read_log(DEFAULT_TENANT, id, windlass::job::LogPosition::default()).await.unwrap();
    assert!(format!("{log:?}").contains("half\\n"), "{log:?}");
    let done = Done::new().result(&"later");
    assert_eq!(pull.complete(&puller, id, &fence, done).await.unwrap(), Held::Held(State::Succeeded));
    assert_eq!(job(&client, id).await["result"], json!("later"));
    assert_eq!(pull.complete(&puller, id, &fence, Done::new()).await.unwrap(), Held::LeaseLost);
    pull.stop().await;
}

/// An endpoint may end the job before its 202 arrives.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_may_end_the_job_before_it_responds() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let pull = Pull::start(queue.queue()).await.unwrap();
    let server = Server::start_async(move |request: Request| {
        let pull = pull.clone();
        async move {
            let body = request.json();
            let (id, fence) =
                (body["id"].as_str().unwrap().parse().unwrap(), body["fence"].as_str().unwrap());
            let puller = Puller::new("endpoint");
            assert!(matches!(
                pull.heartbeat(&puller, id, fence, &Heartbeat::default()).await.unwrap(),
                Held::Held(_)
            ));
            let done = Done::new().result(&"quick");
            assert_eq!(pull.complete(&puller, id, fence, done).await.unwrap(), Held::Held(State::Succeeded));
            Reply::json(202, &json!({}))
        }
    })
    .await;
    let worker = start(&queue, "quick", &endpoint(&server, "/")).await;
    let id = queue.enqueue(&NewJob::new("quick")).await.unwrap().id;
    let row = until(&client, id, "succeeded").await;
    assert_eq!(row["result"], json!("quick"));
    worker.stop().await.unwrap();
    assert_eq!(attempts(&client, id).await, ["succeeded"]);
    assert_eq!(count(&client, "select count(*) from windlass.pull_lease").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_job_without_heartbeats_is_recovered() {
    let server = Server::start(|request: &Request| match request.json()["attempt"].as_i64() {
        Some(1) => Reply::json(202, &json!({"windlass": {"lease_seconds": 1}})),
        _ => Reply::json(200, &json!("second")),
    })
    .await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker = start(&queue, "forgetful", &endpoint(&server, "/")).await;
    let id = queue.enqueue(&NewJob::new("forgetful")).await.unwrap().id;
    until(&client, id, "succeeded").await;
    assert_eq!(attempts(&client, id).await, ["lost", "succeeded"]);
    worker.stop().await.unwrap();
}

/// Document 000's ten posts.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_one_call_with_an_outcome_for_each_job() {
    let server = Server::start(|request: &Request| {
        let body = request.json();
        let outcomes: Vec<Value> = body["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| {
                let n = job["payload"]["n"].as_i64().unwrap();
                match n % 5 {
                    4 => json!({"id": job["id"], "error": "bad post", "retryable": false}),
                    _ => json!({"id": job["id"], "result": {"n": n}}),
                }
            })
            .collect();
        Reply::json(200, &json!({"outcomes": outcomes}))
    })
    .await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("tag")).await.unwrap();
    let posts: Vec<_> = (0..20).map(|n| NewJob::new("tag").payload(&json!({"n": n}))).collect();
    let ids: Vec<_> = queue.enqueue_many(&posts).await.unwrap().into_iter().map(|job| job.id).collect();
    let endpoint = endpoint(&server, "/").batch(10);
    let worker = worker(&queue).concurrency(20).http("tag", &endpoint).unwrap().start().await.unwrap();
    for (n, id) in ids.iter().enumerate() {
        let row = until(&client, *id, if n % 5 == 4 { "failed" } else { "succeeded" }).await;
        assert!(n % 5 == 4 || row["result"] == json!({"n": n}), "{row}");
    }
    let requests = server.requests();
    assert!(requests.len() < 10, "twenty jobs took {} calls", requests.len());
    assert!(requests.iter().all(|request| request.json()["jobs"].as_array().unwrap().len() <= 10));
    worker.stop().await.unwrap();
}

/// A-292: an endpoint may return the outcomes in any order, and names each by its id.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_two_tenants_with_one_id_are_never_in_one_call() {
    let server = Server::start(|request: &Request| {
        let body = request.json();
        let outcome = |job: &Value| json!({"id": job["id"], "result": job["tenant_id"]});
        let outcomes: Vec<Value> = body["jobs"].as_array().unwrap().iter().rev().map(outcome).collect();
        Reply::json(200, &json!({"outcomes": outcomes}))
    })
    .await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("tag")).await.unwrap();
    let tenants = [queue.tenant("a").await, queue.tenant("b").await];
    let ids: Vec<_> = (0..5).map(|_| uuid::Uuid::now_v7()).collect();
    for id in &ids {
        for tenant in tenants {
            queue.enqueue(&NewJob::new("tag").tenant(tenant).id(*id)).await.unwrap();
        }
    }
    let endpoint = endpoint(&server, "/").batch(10);
    let worker = worker(&queue).concurrency(20).http("tag", &endpoint).unwrap().start().await.unwrap();
    let ended = "select count(*) from windlass.jobs where status = 'succeeded'";
    eventually("all have succeeded", async || count(&client, ended).await == 10).await;
    let mixed = "select count(*) from windlass.jobs where result <> to_jsonb(tenant_id::text)";
    assert_eq!(count(&client, mixed).await, 0, "each job has the result of its own tenant");
    for request in server.requests() {
        let jobs = request.json()["jobs"].as_array().unwrap().clone();
        let ids: std::collections::HashSet<_> = jobs.iter().map(|job| job["id"].to_string()).collect();
        assert_eq!(ids.len(), jobs.len(), "{jobs:?}");
    }
    worker.stop().await.unwrap();
}

/// Within a heartbeat, and the endpoint sees the connection close.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_aborts_the_call() {
    let server = Server::start(|_| Reply::never()).await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let worker = start(&queue, "endless", &endpoint(&server, "/")).await;
    let id = queue.enqueue(&NewJob::new("endless")).await.unwrap().id;
    eventually("it is being called", async || !server.requests().is_empty()).await;
    let began = std::time::Instant::now();
    queue.cancel(DEFAULT_TENANT, id).await.unwrap();
    until(&client, id, "canceled").await;
    assert!(began.elapsed() < Duration::from_secs(4), "it took {:?}", began.elapsed());
    assert_eq!(attempts(&client, id).await, ["canceled"]);
    eventually("the connection is closed", async || server.open_connections() == 0).await;
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_in_the_response_is_not_stored() {
    let server = Server::start(|request: &Request| {
        let seen = request.header("authorization").to_owned();
        match request.json()["payload"].as_str() {
            Some("echo") => Reply::json(200, &json!({"you sent": seen})),
            _ => Reply::text(400, &format!("refused {seen}")),
        }
    })
    .await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let endpoint = endpoint(&server, "/")
        .headers([("authorization".to_owned(), "Bearer sesame-open-7731".into())].into());
    let worker = start(&queue, "telling", &endpoint).await;
    let echoed = queue.enqueue(&NewJob::new("telling").payload(&"echo")).await.unwrap().id;
    let refused = queue.enqueue(&NewJob::new("telling").payload(&"no")).await.unwrap().id;
    until(&client, echoed, "succeeded").await;
    until(&client, refused, "failed").await;
    assert!(
        server.requests().iter().all(|request| request.header("authorization") == "Bearer sesame-open-7731")
    );
    assert!(!crate::support::everything(&client).await.contains("sesame"));
    worker.stop().await.unwrap();
}

/// Panics when the worker reports that a hand-over failed.
struct PanickingLog;

impl std::io::Write for PanickingLog {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        assert!(!String::from_utf8_lossy(line).contains("hand_over"), "as the test requires");
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The slot of a job that was handed over was freed again with those of its batch.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_after_a_hand_over_frees_each_slot_once() {
    let server = Server::start(|request: &Request| {
        let accepted = |job: &Value| json!({"id": job["id"], "accepted": true});
        let outcomes: Vec<Value> = request.json()["jobs"].as_array().unwrap().iter().map(accepted).collect();
        Reply::json(200, &json!({"outcomes": outcomes}))
    })
    .await;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("tag")).await.unwrap();
    let fail_second = "create function public.fail_second() returns trigger language plpgsql as $$ begin
          if exists (select from windlass.pull_lease) then raise exception 'again' using errcode = '40001'; end if;
          return new;
        end $$;
        create trigger fail_second before insert on windlass.pull_lease for each row execute function public.fail_second()";
    client.batch_execute(fail_second).await.unwrap();
    queue.enqueue_many(&vec![NewJob::new("tag").max_attempts(1); 2]).await.unwrap();
    let log = tracing_subscriber::fmt().with_writer(|| PanickingLog).finish();
    tracing::subscriber::set_global_default(log).unwrap();
    let endpoint = endpoint(&server, "/").batch(2);
    let worker = worker(&queue).http("tag", &endpoint).unwrap().start().await.unwrap();
    let broken = "select count(*) from windlass.jobs where status = 'dead_letter' and last_error like 'the worker panicked%'";
    eventually("one has failed", async || count(&client, broken).await == 1).await;
    eventually("both slots are free", async || worker.held_jobs() == 0).await;
    assert_eq!(count(&client, "select count(*) from windlass.jobs where status = 'running'").await, 1);
    worker.stop().await.unwrap();
}
