//! The worst that a tenant's credentials allow: of every route its example, the largest body and one that is larger; and where a
//! route can be asked for more than that, so much of it.

use std::collections::HashMap;

use reqwest::{Method, Response};
use serde_json::{Value, json};
use windlass_server::auth::{Permission, Role};
use windlass_server::http::{Audience, Route, document, table};

use super::{BODY_BYTES, STREAMS, nobody};
use crate::support::{Client, TestServer};

/// Jobs that the loud tenant may have.
const QUOTA: usize = 3000;
const TRIGGERS: usize = 10;

pub(super) struct Call {
    pub(super) client: Client,
    pub(super) method: Method,
    pub(super) route: &'static str,
    pub(super) audience: Audience,
    pub(super) path: String,
    pub(super) body: Vec<u8>,
}

/// The tenant that does its worst, with a credential of each role and streams that it leaves open.
pub(super) struct Loud {
    clients: HashMap<&'static str, Client>,
    job: String,
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
        let limits = format!("/api/v1/admin/limits/{tenant}");
        server.admin.patch(&limits, &json!({"max_queued": QUOTA})).await.expect(200);
        let admin = &clients[Role::TenantAdmin.as_str()];
        for label in 0..TRIGGERS {
            let trigger = json!({"label": label.to_string(), "trigger_type": "event", "event_name": "*", "definition_key": "loud",
                "payload_template": {"copy": "{{event}}"}});
            // What is more than a tenant may have is refused, and that is as well.
            let _ = admin.post("/api/v1/jobs/triggers", &trigger).await;
        }
        let job = admin.post("/api/v1/jobs", &json!({"definition_key": "loud"})).await.expect(201);
        let mut streams = Vec::new();
        for number in 0..STREAMS + 2 {
            let path = if number % 2 == 0 { "/api/v1/jobs/stream" } else { "/ui/live" };
            streams.push(admin.request(Method::GET, path).send().await.unwrap());
        }
        Self { clients, job: job["id"].as_str().unwrap().to_owned(), _streams: streams }
    }

    /// Everything, each route's beside another's.
    pub(super) fn calls(&self) -> Vec<Call> {
        let described = document();
        let mut calls = Vec::new();
        for route in table() {
            let Some(client) = self.client(route.permission) else { continue };
            let mut bodies = vec![example(&described, &route)];
            if route.method != Method::GET && route.method != Method::DELETE {
                bodies.extend([largest(&route, BODY_BYTES), largest(&route, BODY_BYTES + 1)]);
            }
            bodies.extend(worst(route.path).iter().map(|body| body.to_string().into_bytes()));
            let queries = queries(&route);
            for body in &bodies {
                for query in &queries {
                    calls.push(Call {
                        client: client.clone(),
                        method: route.method.clone(),
                        route: route.path,
                        audience: route.audience,
                        path: format!("{}{query}", self.path(route.path)),
                        body: body.clone(),
                    });
                }
            }
        }
        // In turns, so that the routes meet.
        let turns = calls.len().div_ceil(3);
        let mut order: Vec<(usize, Call)> = calls.into_iter().enumerate().collect();
        order.sort_by_key(|(position, _)| position % turns);
        order.into_iter().map(|(_, call)| call).collect()
    }

    fn client(&self, permission: Permission) -> Option<&Client> {
        let role = [Role::TenantAdmin, Role::Worker].into_iter().find(|role| role.may(permission))?;
        self.clients.get(role.as_str())
    }

    fn path(&self, route: &str) -> String {
        let parts = route.split('/').map(|part| match part {
            "{job_id}" => self.job.clone(),
            "{name}" | "{hook}" | "{queue}" => "x".to_owned(),
            part if part.starts_with('{') => nobody(),
            part => part.to_owned(),
        });
        parts.collect::<Vec<_>>().join("/")
    }
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

fn example(described: &Value, route: &Route) -> Vec<u8> {
    let operation = &described["paths"][route.path][route.method.as_str().to_lowercase()];
    let body = &operation["requestBody"]["content"]["application/json"]["example"];
    if body.is_null() { b"{}".to_vec() } else { body.to_string().into_bytes() }
}

/// One field with a text that makes the body this long.
fn largest(route: &Route, bytes: usize) -> Vec<u8> {
    let (before, after) = match route.audience {
        Audience::Programs => ("{\"definition_key\":\"", "\"}"),
        Audience::People => ("definition=", ""),
    };
    format!("{before}{}{after}", "x".repeat(bytes - before.len() - after.len())).into_bytes()
}

/// What only this route can be asked for.
fn worst(route: &str) -> Vec<Value> {
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
            // Each in a lane of its own, and each of another queue.
            let lanes = |batch: usize| {
                let jobs = many(
                    1000,
                    &|number| json!({"definition_key": "loud", "queue": format!("q{batch}-{number}"), "priority": number % 1000}),
                );
                json!({ "jobs": jobs })
            };
            let plain = json!({"jobs": many(1000, &|_| json!({"definition_key": "loud"}))});
            let too_many = json!({"jobs": many(1001, &|_| json!({"definition_key": "loud"}))});
            vec![lanes(0), lanes(1), plain.clone(), plain.clone(), plain, too_many]
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
        "/api/v1/jobs/cancel" | "/api/v1/jobs/delete" => vec![json!({"definition_key": "loud"})],
        "/api/v1/worker/jobs/claim" => {
            many(10, &|_| json!({"definition_keys": ["loud"], "wait_seconds": 1, "limit": 100}))
        }
        "/api/v1/worker/register" => many(10, &|number| json!({"worker_id": format!("w{number}")})),
        _ => Vec::new(),
    }
}
