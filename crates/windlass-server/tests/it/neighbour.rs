//! One tenant does the worst that its roles allow, on every route there is, while another does ordinary work. Nothing of the other's
//! is refused, lost or stuck; and whatever the first one is refused has an error that says what is too much.
//!
//! Made from the route table, so that a new route is in it. Nothing here measures time: the worst has an end, and the other works
//! until it has come.

mod worst;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass::keeper::{Keeper, KeeperSettings};
use windlass::{Definition, Queue, Settings};
use windlass_server::auth::Role;
use windlass_server::http::{Audience, Options};
use windlass_testing::{TestQueue, eventually};

use crate::support::{Client, TestServer};
use worst::{Call, Loud};

/// Requests that the loud tenant has in progress at a time: more than the server has connections to its database, several times.
const AT_ONCE: usize = 48;
const BODY_BYTES: usize = 256 * 1024;
const LONG: Duration = Duration::from_secs(300);
/// Fewer than the loud tenant opens.
const STREAMS: usize = 16;

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_under_maximum_load_does_not_block_another() {
    let queue = TestQueue::create_apart().await;
    // On a busy machine the loud tenant's own statements may wait for each other for long. Time is not what is tried here.
    let settings = Settings::new(queue.url()).unwrap().statement_timeout(LONG);
    let served = Queue::connect(settings).await.unwrap();
    let options = Options {
        max_body_bytes: BODY_BYTES,
        streams_per_tenant: STREAMS,
        request_timeout: LONG,
        ..Options::default()
    };
    let mut server = TestServer::start_on(queue, served, options).await;
    // The last two are those of the ids that stand in paths.
    for key in ["ordinary", "loud", "a", "claimed"] {
        server.queue.define(&Definition::new(key)).await.unwrap();
    }
    let stop = CancellationToken::new();
    let keeper = Keeper::new(server.queue.queue().clone(), KeeperSettings::default());
    let keeping = tokio::spawn(keeper.run(stop.clone()));

    let quiet = Quiet::prepare(&server).await;
    let loud = Loud::prepare(&server).await;
    let over = CancellationToken::new();
    let working = tokio::spawn(quiet.clone().work(over.clone()));
    let running = tokio::spawn(quiet.clone().run_jobs(stop.clone()));
    let reported = shout(&loud).await;
    over.cancel();
    let rounds = working.await.unwrap();
    assert!(rounds > 0);
    quiet.all_done(rounds).await;
    stop.cancel();
    keeping.await.unwrap();
    running.await.unwrap();
    drop(loud);
    server.stop().await;
    judge(&reported);
}

/// What the loud tenant was told: how often each route answered what (the route, the status and the kind of problem; none if it is
/// not clear what was wrong), the fields that each route refused and with which kind of problem, and the words of every refusal.
#[derive(Default)]
struct Reported {
    answers: BTreeMap<(String, u16, String), usize>,
    pointers: BTreeSet<(String, String, String)>,
    words: BTreeSet<String>,
}

impl Reported {
    fn hear(&mut self, heard: Heard) {
        let refused = |pointer| (heard.route.clone(), heard.kind.clone(), pointer);
        self.pointers.extend(heard.pointers.into_iter().map(refused));
        self.words.extend(heard.words);
        *self.answers.entry((heard.route, heard.status, heard.kind)).or_default() += 1;
    }
}

/// What must have worked once, with the status of its success. It is tried alone, because under load a call may be refused: first what
/// names something that others delete, and at the end what needs room in the quota.
const BEFORE: [(&str, u16); 9] = [
    ("GET /api/v1/jobs/{job_id}", 200),
    ("GET /api/v1/jobs/triggers/{trigger_id}/fires", 200),
    ("GET /api/v1/events/{event_id}", 200),
    ("POST /api/v1/worker/jobs/{job_id}/heartbeat", 200),
    ("POST /api/v1/worker/jobs/{job_id}/complete", 200),
    ("POST /api/v1/retention/rules", 200),
    ("DELETE /api/v1/retention/holds/{hold_id}", 200),
    ("DELETE /api/v1/jobs/triggers/{trigger_id}", 204),
    ("DELETE /api/v1/admin/members/{user_id}", 200),
];
const AFTER: [(&str, u16); 3] =
    [("POST /api/v1/jobs/cancel", 200), ("POST /api/v1/jobs/delete", 200), ("POST /api/v1/jobs/retry", 200)];
/// What a tenant can have at most 1000 of, with the field that the refusal names.
const COUNTED: [(&str, &str); 3] = [
    ("POST /api/v1/admin/tokens", "/name"),
    ("POST /api/v1/admin/invitations", "/email"),
    ("POST /api/v1/retention/holds", "/reason"),
];

/// Sends the calls of each route alone until one of them works.
async fn try_alone(reported: &mut Reported, calls: &[Call], routes: &[(&str, u16)]) {
    for (route, status) in routes {
        for call in calls.iter().filter(|call| call.name() == *route) {
            let heard = call.send().await;
            let works = heard.status == *status;
            reported.hear(heard);
            if works {
                break;
            }
        }
    }
}

/// Sends the worst of every route, many at a time.
async fn shout(loud: &Loud) -> Reported {
    let calls = Arc::new(loud.calls());
    let mut reported = Reported::default();
    try_alone(&mut reported, &calls, &BEFORE).await;
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (calls, next) = (calls.clone(), next.clone());
        tasks.spawn(async move {
            let mut reported = Vec::new();
            while let Some(call) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
                reported.push(call.send().await);
            }
            reported
        });
    }
    for heard in tasks.join_all().await.into_iter().flatten() {
        reported.hear(heard);
    }
    try_alone(&mut reported, &calls, &AFTER).await;
    // What was canceled and deleted meanwhile has made room in the quota. Bulk requests fill it and answer 200 with a result per job,
    // so a single job has to meet the refusal. What is counted may have been deleted, or its creation refused because too many requests
    // were in progress, so these limits are met here as well.
    let named = |name: &'static str| calls.iter().filter(move |call| call.name() == name);
    let counted = COUNTED.iter().flat_map(|(name, _)| named(name));
    let fill = named("POST /api/v1/jobs/bulk").chain(named("POST /api/v1/jobs/triggers")).chain(counted);
    for call in fill.chain(named("POST /api/v1/jobs").take(2)) {
        reported.hear(call.send().await);
    }
    reported
}

/// Nothing broke, and each cap spoke for itself: with its own kind of problem, the field if it is one's fault, and when to come back.
fn judge(reported: &Reported) {
    let answers = &reported.answers;
    let broken: Vec<_> = answers.iter().filter(|((_, status, _), _)| *status >= 500).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    let unclear = |((route, status, kind), _): &(&(String, u16, String), &usize)| {
        *status >= 400 && kind.is_empty() && !route.contains("/ui/")
    };
    let unclear: Vec<_> = answers.iter().filter(unclear).collect();
    assert!(unclear.is_empty(), "{unclear:#?}");
    for (status, kind) in
        [(413, "body-too-large"), (422, "invalid"), (429, "quota-reached"), (429, "too-many-requests")]
    {
        let kind = format!("urn:windlass:problem:{kind}");
        let is_it = |(_, of, named): &(String, u16, String)| *of == status && *named == kind;
        assert!(answers.keys().any(is_it), "nobody met {kind}: {answers:#?}");
    }
    // The limit on concurrent searches is tested in search.rs, where two run at the same time.
    for limit in ["max_lanes", "max_queue_names", "max_triggers"] {
        let is_met = reported.words.iter().any(|words| words.contains(limit));
        assert!(is_met, "nobody met {limit}: {:#?}", reported.words);
    }
    for (route, pointer) in COUNTED {
        let kind = "urn:windlass:problem:invalid";
        let is_met = reported.pointers.contains(&(route.to_owned(), kind.to_owned(), pointer.to_owned()));
        assert!(is_met, "nobody met the limit of {route}: {:#?}", reported.pointers);
    }
    // The verbs ran, and what is named in a path existed.
    for (done, status) in BEFORE.into_iter().chain(AFTER) {
        assert!(answers.contains_key(&(done.to_owned(), status, String::new())), "{done}: {answers:#?}");
    }
}

/// What came back of one call.
struct Heard {
    route: String,
    status: u16,
    kind: String,
    pointers: BTreeSet<String>,
    words: BTreeSet<String>,
}

impl Call {
    fn name(&self) -> String {
        format!("{} {}", self.method, self.route)
    }

    async fn send(&self) -> Heard {
        let mut request = self.client.request(self.method.clone(), &self.path);
        if self.method != Method::GET && self.method != Method::DELETE {
            let kind = match self.audience {
                Audience::Programs => "application/json",
                Audience::People => "application/x-www-form-urlencoded",
            };
            request = request.header("content-type", kind).body(self.body.clone());
        }
        let mut heard = Heard {
            route: self.name(),
            status: 0,
            kind: String::new(),
            pointers: BTreeSet::new(),
            words: BTreeSet::new(),
        };
        // A connection that is closed while a body is sent that nobody will read is an answer too.
        let Ok(response) = request.send().await else { return heard };
        heard.status = response.status().as_u16();
        if response.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream") {
            return heard;
        }
        let may_be_tried_again = response.headers().contains_key("retry-after");
        let answer: Value = response.json().await.unwrap_or_default();
        let is_clear = match heard.status {
            422 => answer["errors"][0]["pointer"].is_string(),
            // What does not pass with time names the limit instead.
            429 => {
                may_be_tried_again || answer["detail"].as_str().is_some_and(|words| words.contains("max_"))
            }
            _ => true,
        };
        heard.kind = answer["type"].as_str().filter(|_| is_clear).unwrap_or_default().to_owned();
        // A batch is answered job by job.
        let of = |list: &str| answer[list].as_array().into_iter().flatten();
        heard.pointers =
            of("errors").filter_map(|error| error["pointer"].as_str()).map(str::to_owned).collect();
        let parts = of("results").chain(of("errors")).chain([&answer]);
        let words = parts.flat_map(|part| [&part["detail"], &part["message"]]).filter_map(Value::as_str);
        heard.words = words.map(str::to_owned).collect();
        heard
    }
}

/// The tenant that works.
#[derive(Clone)]
struct Quiet {
    client: Client,
    worker: Client,
    schedule: String,
}

impl Quiet {
    async fn prepare(server: &TestServer) -> Self {
        let tenant = server.queue.tenant("quiet").await;
        // Long for a request of this size, and short beside the timeouts above.
        let limit = Duration::from_secs(30);
        let client = server.client(tenant, Role::TenantAdmin).await.within(limit);
        let worker = server.client(tenant, Role::Worker).await.within(limit);
        let event = json!({"label": "e", "trigger_type": "event", "event_name": "something.happened", "definition_key": "ordinary",
            "dedupe_window_seconds": 0});
        client.post("/api/v1/jobs/triggers", &event).await.expect(201);
        let schedule = json!({"label": "s", "trigger_type": "schedule", "cron_expr": "0 2 * * *", "timezone": "UTC",
            "definition_key": "ordinary"});
        let schedule = client.post("/api/v1/jobs/triggers", &schedule).await.expect(201);
        Self { client, worker, schedule: schedule["id"].as_str().unwrap().to_owned() }
    }

    /// Round after round until the other has done its worst. Answers how many there were.
    async fn work(self, over: CancellationToken) -> usize {
        let mut rounds = 0;
        while !over.is_cancelled() {
            self.round().await;
            rounds += 1;
        }
        rounds
    }

    /// Three jobs: of a program, of an event, of a schedule.
    async fn round(&self) {
        let client = &self.client;
        let job = json!({"definition_key": "ordinary", "payload": {"n": 1}});
        let made = client.post("/api/v1/jobs", &job).await.expect(201);
        let path = format!("/api/v1/jobs/{}", made["id"].as_str().unwrap());
        assert_eq!(client.get(&path).await.expect(200)["id"], made["id"]);
        let listed = client.get("/api/v1/jobs?limit=20").await.expect(200);
        assert!(!listed["jobs"].as_array().unwrap().is_empty());
        client.get("/api/v1/jobs/summary").await.expect(200);
        client.post("/api/v1/events", &json!({"name": "something.happened"})).await.expect(201);
        let run = format!("/api/v1/jobs/triggers/{}/run", self.schedule);
        assert_eq!(client.post(&run, &json!({})).await.expect(201)["outcome"], "fired");
        assert_eq!(client.with("accept", "text/html").get("/ui/jobs").await.status, 200);
    }

    /// A worker of this tenant.
    async fn run_jobs(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let claim = json!({"definition_keys": ["ordinary"], "limit": 20, "wait_seconds": 1});
            let claimed = self.worker.post("/api/v1/worker/jobs/claim", &claim).await.expect(200);
            for job in claimed["jobs"].as_array().unwrap() {
                let path = format!("/api/v1/worker/jobs/{}/complete", job["id"].as_str().unwrap());
                self.worker.post(&path, &json!({"fence": job["fence"]})).await.expect(200);
            }
        }
    }

    /// Nothing of it was refused, lost or stuck: every job has succeeded.
    async fn all_done(&self, rounds: usize) {
        let counts = async || self.client.get("/api/v1/jobs/summary").await.expect(200)["counts"].take();
        eventually("every job of the quiet tenant has succeeded", async || {
            counts().await["succeeded"] == json!(3 * rounds)
        })
        .await;
        let counts = counts().await;
        for left in ["queued", "running", "failed", "dead_letter", "canceled", "scheduled", "blocked"] {
            assert_eq!(counts[left], 0, "{left}: {counts}");
        }
    }
}
