//! The worst that a tenant's credentials allow: of every route an ordinary request, the largest body and one that is larger; and where a
//! route can be asked for more than that, so much of it.

use std::collections::HashMap;

use reqwest::{Method, Response};
use serde_json::{Value, json};
use uuid::Uuid;
use windlass::NewJob;
use windlass_server::auth::{Permission, Role};
use windlass_server::http::{Audience, Route, table};
use windlass_testing::is_full;

use super::{BODY_BYTES, STREAMS};
use crate::matrix::world::{Ids, body};
use crate::support::{Client, TestServer};

/// The most jobs of one bulk request.
const BULK: usize = 1000;
/// Triggers that wait for every event.
const BUSY_TRIGGERS: usize = 10;
/// Jobs that it holds, each with its fence.
const HELD: usize = 7;

pub(super) struct Call {
    pub(super) client: Client,
    pub(super) method: Method,
    pub(super) route: &'static str,
    pub(super) audience: Audience,
    pub(super) path: String,
    pub(super) body: Vec<u8>,
}

/// The limits that a tenant can reach.
struct Limits {
    lanes: usize,
    queue_names: usize,
    triggers: usize,
}

impl Limits {
    /// As the server shows them. A limit that is not named here fails the test: somebody has to say how a tenant reaches it.
    async fn of(server: &TestServer, tenant: Uuid) -> Self {
        let shown = server.admin.get("/api/v1/admin/limits").await.expect(200);
        let is_it = |one: &&Value| one["tenant_id"] == json!(tenant);
        let shown = shown["tenants"].as_array().unwrap().iter().find(is_it).unwrap().as_object().unwrap();
        let mut limits = Self { lanes: 0, queue_names: 0, triggers: 0 };
        for (name, value) in shown {
            let number = value.as_u64().map(|number| usize::try_from(number).unwrap());
            match name.as_str() {
                "tenant_id" | "slug" => {}
                // There is none until somebody sets one.
                "max_queued" | "max_running" | "requests_per_minute" => assert_eq!(number, None, "{name}"),
                "max_lanes" => limits.lanes = number.unwrap(),
                "max_queue_names" => limits.queue_names = number.unwrap(),
                "max_triggers" => limits.triggers = number.unwrap(),
                other => panic!("nobody said how a tenant reaches the limit {other}; add it here"),
            }
        }
        limits
    }

    /// A tenth of them. To reach the usual ones takes two minutes of the processor, so only a full run does that.
    async fn lower(self, server: &TestServer, tenant: Uuid) -> Self {
        let lower =
            Self { lanes: self.lanes / 10, queue_names: self.queue_names / 10, triggers: self.triggers / 10 };
        let change = json!({"max_lanes": lower.lanes, "max_queue_names": lower.queue_names, "max_triggers": lower.triggers});
        server.admin.patch(&format!("/api/v1/admin/limits/{tenant}"), &change).await.expect(200);
        lower
    }

    /// More jobs than those that fill the lanes.
    fn quota(&self) -> usize {
        2 * self.lanes
    }
}

/// The tenant that causes as much load as it can, with a credential of each role, something of everything, and streams that it leaves open.
pub(super) struct Loud {
    clients: HashMap<&'static str, Client>,
    ids: Ids,
    limits: Limits,
    held: Vec<(String, String)>,
    _streams: Vec<Response>,
}

impl Loud {
    pub(super) async fn prepare(server: &TestServer) -> Self {
        let tenant = server.queue.tenant("loud").await;
        let mut clients = HashMap::new();
        for role in [Role::TenantAdmin, Role::Worker] {
            let client = server.client(tenant, role).await.with("sec-fetch-site", "same-origin");
            clients.insert(role.as_str(), client);
        }
        let usual = Limits::of(server, tenant).await;
        let limits = if is_full() { usual } else { usual.lower(server, tenant).await };
        let quota = json!({"max_queued": limits.quota()});
        server.admin.patch(&format!("/api/v1/admin/limits/{tenant}"), &quota).await.expect(200);
        let ids = Ids::of(server, tenant).await;
        let admin = &clients[Role::TenantAdmin.as_str()];
        for label in 0..BUSY_TRIGGERS {
            let trigger = json!({"label": label.to_string(), "trigger_type": "event", "event_name": "*", "definition_key": "loud",
                "payload_template": {"copy": "{{event}}"}});
            admin.post("/api/v1/jobs/triggers", &trigger).await.expect(201);
        }
        let held = hold(server, &clients[Role::Worker.as_str()], tenant).await;
        almost_full(server, tenant, limits.triggers).await;
        let mut streams = Vec::new();
        for number in 0..STREAMS + 2 {
            let path = if number % 2 == 0 { "/api/v1/jobs/stream" } else { "/ui/live" };
            streams.push(admin.request(Method::GET, path).send().await.unwrap());
        }
        // The last one finds all of them open.
        let refused = streams.pop().unwrap();
        assert_eq!(refused.status(), 429);
        let refused: Value = refused.json().await.unwrap();
        assert_eq!(refused["type"], "urn:windlass:problem:too-many-requests");
        Self { clients, ids, limits, held, _streams: streams }
    }

    /// Everything, each route's beside another's.
    pub(super) fn calls(&self) -> Vec<Call> {
        let mut calls = Vec::new();
        for route in table() {
            let Some(client) = self.client(route.permission) else { continue };
            let call = |path: String, body: Vec<u8>| Call {
                client: client.clone(),
                method: route.method.clone(),
                route: route.path,
                audience: route.audience,
                path,
                body,
            };
            let path = self.path(&route);
            if route.method == Method::GET || route.method == Method::DELETE {
                calls.extend(
                    queries(&route).into_iter().map(|query| call(format!("{path}{query}"), Vec::new())),
                );
                continue;
            }
            let bodies =
                [self.ordinary(&route), largest(&route, BODY_BYTES), largest(&route, BODY_BYTES + 1)];
            calls.extend(bodies.into_iter().map(|body| call(path.clone(), body)));
            calls.extend(worst(route.path, &self.limits).iter().map(|body| call(path.clone(), text(body))));
            calls.extend(
                self.worst_of_held(route.path).into_iter().map(|(path, body)| call(path, text(&body))),
            );
        }
        let is_asked = |path: &&str| calls.iter().any(|call| call.route == *path && !call.body.is_empty());
        assert!(NOTHING_WORSE.iter().all(is_asked), "NOTHING_WORSE names a route that is not asked");
        // In turns, so that the routes meet; and what deletes comes last, so that there is something of everything until then.
        let turns = calls.len().div_ceil(3);
        let mut order: Vec<(usize, Call)> = calls.into_iter().enumerate().collect();
        order.sort_by_key(|(position, call)| (call.deletes(), position % turns));
        order.into_iter().map(|(_, call)| call).collect()
    }

    fn client(&self, permission: Permission) -> Option<&Client> {
        let role = [Role::TenantAdmin, Role::Worker].into_iter().find(|role| role.may(permission))?;
        self.clients.get(role.as_str())
    }

    fn path(&self, route: &Route) -> String {
        match route.permission {
            // Nobody has these names and secrets.
            Permission::Anyone => route.path.replace(['{', '}'], ""),
            _ => self.ids.path(route),
        }
    }

    /// A body that the route takes.
    fn ordinary(&self, route: &Route) -> Vec<u8> {
        match route.audience {
            Audience::Programs => text(&body(route, &self.ids)),
            Audience::People => Vec::new(),
        }
    }

    /// What only a job that is held can be asked for: the largest log, and the most jobs after it.
    fn worst_of_held(&self, route: &str) -> Vec<(String, Value)> {
        let Some(verb) = route.strip_prefix("/api/v1/worker/jobs/{job_id}/") else { return Vec::new() };
        let jobs = |count: usize| json!(vec![json!({"definition_key": "loud"}); count]);
        let lines = json!(vec!["s3cret ".repeat(100); BODY_BYTES / 800]);
        let asked: &[(usize, &str, Value)] = &match verb {
            "heartbeat" => vec![(0, "log", lines), (0, "log", json!("x".repeat(BODY_BYTES - 1000)))],
            "complete" => vec![(1, "next", jobs(0)), (2, "next", jobs(1000)), (3, "next", jobs(1001))],
            "fail" => vec![(4, "error", json!("x".repeat(BODY_BYTES / 2)))],
            "snooze" => vec![(5, "delay_seconds", json!(1))],
            "release" => vec![(6, "fence", json!(self.held[6].1))],
            other => panic!("nobody said what is the worst of {other}; add it here"),
        };
        let ask = |(held, field, value): &(usize, &str, Value)| {
            let (id, fence) = &self.held[*held];
            let mut body = json!({ "fence": fence });
            body[*field] = value.clone();
            (route.replace("{job_id}", id), body)
        };
        asked.iter().map(ask).collect()
    }
}

impl Call {
    fn deletes(&self) -> bool {
        self.method == Method::DELETE || self.route == "/api/v1/jobs/delete"
    }
}

fn text(body: &Value) -> Vec<u8> {
    body.to_string().into_bytes()
}

/// Claims jobs and keeps them.
async fn hold(server: &TestServer, worker: &Client, tenant: Uuid) -> Vec<(String, String)> {
    for _ in 0..HELD {
        server.queue.enqueue(&NewJob::new("claimed").tenant(tenant)).await.unwrap();
    }
    let mut held = Vec::new();
    while held.len() < HELD {
        let claim = json!({"definition_keys": ["claimed"], "wait_seconds": 20, "lease_seconds": 3600, "limit": HELD - held.len()});
        let claimed = worker.post("/api/v1/worker/jobs/claim", &claim).await.expect(200);
        let word = |job: &Value, name: &str| job[name].as_str().unwrap().to_owned();
        held.extend(
            claimed["jobs"].as_array().unwrap().iter().map(|job| (word(job, "id"), word(job, "fence"))),
        );
    }
    held
}

/// As many tokens, invitations, legal holds and triggers as a tenant can have but one. The triggers wait for an event that nobody emits.
async fn almost_full(server: &TestServer, tenant: Uuid, triggers: usize) {
    let fill = "with tokens as (
          insert into windlass.api_tokens (tenant_id, id, kind, name, secret_hash, role, created_by)
            select $1, 'filler' || n, 'api', 'filler', '\\x00', 'viewer', 'test' from generate_series(1, 999 - (
              select count(*) from windlass.api_tokens where tenant_id = $1)) n),
        holds as (
          insert into windlass.legal_hold (tenant_id, subject_type, subject_id, reason, created_by)
            select $1, 'filler', n::text, 'filler', 'test' from generate_series(1, 999 - (
              select count(*) from windlass.legal_hold where tenant_id = $1)) n),
        triggers as (
          insert into windlass.job_triggers (tenant_id, label, trigger_type, event_name, definition_id)
            select $1, 'filler', 'event', 'filler', (select id from windlass.job_definitions where key = 'loud')
              from generate_series(1, $2::bigint - 1 - (select count(*) from windlass.job_triggers where tenant_id = $1)))
        insert into windlass.invitations (tenant_id, email, role, secret_hash, created_by, expires_at)
          select $1, n || '@filler.example', 'viewer', sha256(n::text::bytea), 'test', now() + interval '1 day'
            from generate_series(1, 999 - (select count(*) from windlass.invitations where tenant_id = $1)) n";
    let triggers = i64::try_from(triggers).unwrap();
    server.queue.client().await.execute(fill, &[&tenant, &triggers]).await.unwrap();
}

/// A list can be asked for all there is, and to look for a text in it; a job's page can be asked for again and again.
fn queries(route: &Route) -> Vec<String> {
    match (&route.method, route.path) {
        (&Method::GET, "/api/v1/jobs") => {
            (0..12).map(|number| format!("?limit=1000&q=nowhere-to-be-found-{number}")).collect()
        }
        (&Method::GET, "/ui/jobs") => (0..8).map(|number| format!("?q=nothing-like-{number}")).collect(),
        (&Method::GET, _) => vec![String::new(); 2],
        _ => vec![String::new()],
    }
}

/// One field with a text that makes the body this long.
fn largest(route: &Route, bytes: usize) -> Vec<u8> {
    let (before, after) = match route.audience {
        Audience::Programs => ("{\"definition_key\":\"", "\"}"),
        Audience::People => ("definition=", ""),
    };
    format!("{before}{}{after}", "x".repeat(bytes - before.len() - after.len())).into_bytes()
}

/// Of these nothing is worse than the size of the body. The forms do what a route for programs does.
const NOTHING_WORSE: [&str; 29] = [
    "/api/v1/me/password",
    "/api/v1/worker/stop",
    "/api/v1/jobs/{job_id}/cancel",
    "/api/v1/jobs/{job_id}/retry",
    "/api/v1/jobs/triggers/{trigger_id}",
    "/api/v1/jobs/triggers/{trigger_id}/run",
    "/api/v1/events/{event_id}/retry",
    "/api/v1/hooks/{hook}",
    "/api/v1/admin/tokens/{token_id}/rotate",
    "/api/v1/admin/members/{user_id}",
    "/api/v1/admin/password-resets",
    "/ui/theme",
    "/ui/sign-in",
    "/ui/sign-out",
    "/ui/tenant",
    "/ui/invitations/{secret}",
    "/ui/password-resets/{secret}",
    "/ui/account",
    "/ui/jobs/act",
    "/ui/jobs/new",
    "/ui/dead-letters",
    "/ui/triggers/new",
    "/ui/triggers/act",
    "/ui/triggers/dry-run",
    "/ui/triggers/{trigger_id}",
    "/ui/members",
    "/ui/members/new",
    "/ui/tokens",
    "/ui/tokens/new",
];

/// What only this route can be asked for.
fn worst(route: &str, limits: &Limits) -> Vec<Value> {
    let secret = |length: usize| "s3cret ".repeat(length / 7);
    let many = |count: usize, one: &dyn Fn(usize) -> Value| (0..count).map(one).collect::<Vec<_>>();
    match route {
        "/api/v1/jobs" => {
            let long = json!({"password": secret(60_000)});
            let several: serde_json::Map<_, _> =
                (0..1000).map(|number| (format!("password_{number}"), json!(secret(100)))).collect();
            let keyed = |number: usize| json!({"definition_key": "loud", "dedupe_key": number.to_string()});
            let mut jobs = many(40, &keyed);
            jobs.extend(
                [long, Value::Object(several)]
                    .map(|payload| json!({"definition_key": "loud", "payload": payload})),
            );
            jobs
        }
        "/api/v1/jobs/bulk" => {
            // Each of another queue; each of another priority, in as many queues as it takes; and more than the quota.
            let bulks = |jobs: Vec<Value>| -> Vec<Value> {
                jobs.chunks(BULK).map(|jobs| json!({ "jobs": jobs })).collect()
            };
            let queues = many(
                limits.queue_names + 1,
                &|number| json!({"definition_key": "loud", "queue": format!("q{number}")}),
            );
            let lanes = many(
                limits.lanes + 1,
                &|number| json!({"definition_key": "loud", "priority": number % 1001, "queue": format!("q{}", number / 1001)}),
            );
            let plain = many(limits.quota() + 1, &|_| json!({"definition_key": "loud"}));
            let too_many = json!({"jobs": many(BULK + 1, &|_| json!({"definition_key": "loud"}))});
            [bulks(queues), bulks(lanes), bulks(plain), vec![too_many]].concat()
        }
        "/api/v1/events" => many(
            10,
            &|number| json!({"name": "loud.event", "payload": {"number": number, "text": "x".repeat(BODY_BYTES / 2)}}),
        ),
        "/api/v1/jobs/triggers" => many(
            10,
            &|number| json!({"label": format!("more {number}"), "trigger_type": "event", "event_name": "*", "definition_key": "loud"}),
        ),
        "/api/v1/jobs/triggers/dry-run" => {
            many(10, &|_| json!({"name": "loud.event", "payload": {"text": "x".repeat(BODY_BYTES / 2)}}))
        }
        "/api/v1/jobs/cancel" | "/api/v1/jobs/retry" | "/api/v1/jobs/delete" => {
            vec![json!({"filter": {"definition_key": "loud"}})]
        }
        "/api/v1/admin/tokens" => {
            many(3, &|number| json!({"name": format!("more {number}"), "role": "viewer"}))
        }
        "/api/v1/admin/invitations" => {
            many(3, &|number| json!({"email": format!("more{number}@example.com"), "role": "viewer"}))
        }
        // Each change of a rule, and each hold that is released, makes retention read history again.
        "/api/v1/retention/rules" => many(30, &|number| {
            let keys = [None, Some("loud"), Some("ordinary")];
            json!({"definition_key": keys[number % 3], "status": "succeeded", "keep_seconds": 1000 + number})
        }),
        "/api/v1/retention/holds" => many(
            10,
            &|number| json!({"subject_type": "user", "subject_id": number.to_string(), "reason": "x".repeat(100)}),
        ),
        "/api/v1/worker/jobs/claim" => {
            many(10, &|_| json!({"definition_keys": ["loud"], "wait_seconds": 1, "limit": 100}))
        }
        // All instants of a long time, and a day that never comes.
        "/api/v1/jobs/triggers/{trigger_id}/backfill" => [true, false]
            .map(|dry_run| json!({"from": "2000-01-01T00:00:00Z", "until": "2026-01-01T00:00:00Z", "dry_run": dry_run}))
            .to_vec(),
        "/api/v1/jobs/triggers/preview" => many(10, &|_| json!({"cron_expr": "0 0 30 2 *"})),
        "/api/v1/worker/register" => many(10, &|number| json!({"worker_id": format!("w{number}")})),
        // See `worst_of_held`.
        held if held.starts_with("/api/v1/worker/jobs/{job_id}/") => Vec::new(),
        other if NOTHING_WORSE.contains(&other) => Vec::new(),
        other => panic!("nobody said what is the worst of {other}; add it here, or to NOTHING_WORSE"),
    }
}
