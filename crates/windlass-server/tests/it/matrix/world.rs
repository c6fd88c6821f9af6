//! A tenant with one object of every kind, by the names that occur in paths; and for each route a body that it accepts.

use std::collections::HashMap;

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;
use windlass::{Definition, NewJob};
use windlass_server::auth::{Permission, Role};
use windlass_server::http::{Options, Route};

use crate::support::TestServer;

const ABSENT: &str = "00000000-0000-7000-8000-0000000000ff";

/// A server with the definitions that the objects of a tenant need, and that refuses none of the many requests of a test.
pub(crate) async fn server() -> TestServer {
    let server =
        TestServer::start_with(Options { requests_per_minute: 1_000_000, ..Options::default() }).await;
    for key in ["a", "claimed"] {
        server.queue.define(&Definition::new(key)).await.unwrap();
    }
    server
}

pub(crate) struct Ids(HashMap<&'static str, String>);

impl Ids {
    pub(crate) fn absent() -> Self {
        let names = [
            "job_id",
            "claimed_id",
            "tenant_id",
            "definition_id",
            "trigger_id",
            "event_id",
            "user_id",
            "hold_id",
            "invitation_id",
        ];
        let mut ids: HashMap<_, _> = names.into_iter().map(|name| (name, ABSENT.to_owned())).collect();
        ids.insert("token_id", "ffffffffffffffff".to_owned());
        ids.insert("queue", "nowhere".to_owned());
        ids.insert("worker_id", "nobody".to_owned());
        ids.insert("hook", "nowhere".to_owned());
        ids.insert("fence", "no fence".to_owned());
        ids.insert("email", "nobody@example.com".to_owned());
        Self(ids)
    }

    /// A valid fence of another attempt: a text that is not a fence is tested elsewhere.
    pub(crate) fn with_fence_of(mut self, other: &Self) -> Self {
        self.0.insert("fence", other.get("fence").to_owned());
        self
    }

    pub(crate) fn get(&self, name: &str) -> &str {
        &self.0[name]
    }

    /// Ids that exist, all of this tenant where tenants have them.
    pub(crate) async fn of(server: &TestServer, tenant: Uuid) -> Self {
        let mut ids = Self::absent();
        let admin = server.client(tenant, Role::TenantAdmin).await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let job = server.queue.enqueue(&NewJob::new("a").tenant(tenant).subject("s", "1")).await.unwrap();
        let token = json!({"name": "t", "role": "viewer"});
        let token = admin.post("/api/v1/admin/tokens", &token).await.expect(201);
        let email = format!("{}@example.com", Uuid::now_v7());
        let member = server.member(tenant, &email, "viewer").await;
        let invitation = json!({"email": format!("{}@example.com", Uuid::now_v7()), "role": "viewer"});
        let invitation = admin.post("/api/v1/admin/invitations", &invitation).await.expect(201);
        admin.post("/api/v1/admin/password-resets", &json!({"email": email})).await.expect(201);
        let trigger = json!({"label": "nightly", "trigger_type": "schedule", "cron_expr": "0 2 * * *", "timezone": "UTC", "definition_key": "a"});
        let trigger = admin.post("/api/v1/jobs/triggers", &trigger).await.expect(201);
        let hold = json!({"subject_type": "user", "subject_id": "7", "reason": "r"});
        let hold = admin.post("/api/v1/retention/holds", &hold).await.expect(201);
        let event = admin.post("/api/v1/events", &json!({"name": "some.thing"})).await.expect(201);
        // Claimed by a worker of this tenant; no one else may use its fence.
        server.queue.enqueue(&NewJob::new("claimed").tenant(tenant)).await.unwrap();
        let worker = server.client(tenant, Role::Worker).await;
        let name = Uuid::now_v7().simple().to_string();
        let claim = json!({"definition_keys": ["claimed"], "wait_seconds": 20, "worker_id": name});
        let claimed = worker.post("/api/v1/worker/jobs/claim", &claim).await.expect(200)["jobs"][0].clone();
        let definitions = server.admin.get("/api/v1/admin/jobs/definitions").await.expect(200);
        // One of its own to be changed and deleted.
        let another = server.queue.tenant(&format!("t-{}", Uuid::now_v7().simple())).await;
        ids.0.extend([
            ("job_id", job.id.to_string()),
            ("token_id", text(&token["id"])),
            ("user_id", member.to_string()),
            ("email", email),
            ("invitation_id", text(&invitation["id"])),
            ("trigger_id", text(&trigger["id"])),
            ("event_id", text(&event["id"])),
            ("hold_id", text(&hold["id"])),
            ("claimed_id", text(&claimed["id"])),
            ("fence", text(&claimed["fence"])),
            ("worker_id", format!("{name}@{tenant}")),
            ("definition_id", text(&definitions["definitions"][0]["id"])),
            ("queue", "aside".to_owned()),
            ("tenant_id", another.to_string()),
        ]);
        ids
    }

    pub(crate) fn path(&self, route: &Route) -> String {
        let mut path = route.path.to_owned();
        while let Some(start) = path.find('{') {
            let end = path[start..].find('}').unwrap() + start;
            let mut name = path[start + 1..end].to_owned();
            if route.permission == Permission::Work && name == "job_id" {
                name = "claimed_id".to_owned();
            }
            let id = self.0.get(name.as_str());
            let id = id.unwrap_or_else(|| {
                panic!("{}: the value of {name} is not declared; add it here", route.path)
            });
            path.replace_range(start..=end, id);
        }
        if (&route.method, route.path) == (&Method::DELETE, "/api/v1/retention/rules") {
            path.push_str("?status=failed");
        }
        path
    }

    /// The precondition of a verb.
    pub(crate) async fn prepare(&self, server: &TestServer, route: &Route, tenant: Uuid) {
        if matches!(route.path, "/api/v1/jobs/{job_id}/retry" | "/api/v1/jobs/retry") {
            server.queue.cancel(tenant, self.get("job_id").parse().unwrap()).await.unwrap();
        }
        if (&route.method, route.path) == (&Method::DELETE, "/api/v1/retention/rules") {
            let rule = json!({"status": "failed", "keep_seconds": 60});
            let admin = server.client(tenant, Role::TenantAdmin).await;
            admin.post("/api/v1/retention/rules", &rule).await.expect(200);
        }
        // What changes nothing has no row in the audit trail.
        if route.path == "/api/v1/admin/workers/{worker_id}/resume" {
            assert!(server.queue.set_draining(self.get("worker_id"), true).await.unwrap());
        }
        if route.path == "/api/v1/worker/jobs/claim" {
            server.queue.enqueue(&NewJob::new("claimed").tenant(tenant)).await.unwrap();
        }
    }
}

/// A body that the route accepts.
pub(crate) fn body(route: &Route, ids: &Ids) -> Value {
    let new = Uuid::now_v7().simple().to_string();
    let fence = ids.get("fence");
    match (&route.method, route.path) {
        (&Method::GET | &Method::DELETE, _) => Value::Null,
        (_, "/api/v1/jobs") => json!({"definition_key": "a"}),
        (_, "/api/v1/jobs/bulk") => json!({"jobs": [{"definition_key": "a"}]}),
        (_, "/api/v1/jobs/cancel" | "/api/v1/jobs/retry" | "/api/v1/jobs/delete") => {
            json!({"ids": [ids.get("job_id")]})
        }
        (_, "/api/v1/jobs/triggers") => {
            json!({"label": "l", "trigger_type": "event", "event_name": "x.y", "definition_key": "a"})
        }
        (_, "/api/v1/jobs/triggers/dry-run" | "/api/v1/events") => json!({"name": "x.y"}),
        (_, "/api/v1/jobs/triggers/preview") => json!({"cron_expr": "0 2 * * *"}),
        (&Method::PATCH, "/api/v1/jobs/triggers/{trigger_id}") => json!({"label": new}),
        (_, "/api/v1/jobs/triggers/{trigger_id}/backfill") => {
            json!({"from": "2026-01-01T00:00:00Z", "until": "2026-01-02T12:00:00Z", "dry_run": true})
        }
        (_, "/api/v1/events/{event_id}/retry") => json!({"trigger_id": ids.get("trigger_id")}),
        // A different rule each time: one that is already set changes nothing.
        (_, "/api/v1/retention/rules") => {
            json!({"status": "failed", "keep_seconds": 60 + Uuid::new_v4().as_u128() % 1_000_000})
        }
        (_, "/api/v1/retention/holds") => json!({"reason": "r", "job_id": ids.get("job_id")}),
        (&Method::POST, "/api/v1/admin/jobs/definitions") => json!({"key": new}),
        (_, "/api/v1/admin/jobs/definitions/apply") => json!({"definitions": [{"key": new}]}),
        (&Method::PATCH, "/api/v1/admin/jobs/definitions/{definition_id}") => json!({"description": new}),
        (&Method::POST, "/api/v1/admin/tenants") => json!({"name": "T", "slug": format!("t{new}")}),
        (&Method::PATCH, "/api/v1/admin/tenants/{tenant_id}") => json!({"name": new}),
        (_, "/api/v1/admin/limits/{tenant_id}") => json!({"max_queued": 4000}),
        (_, "/api/v1/admin/tokens") => json!({"name": "t", "role": "viewer"}),
        (_, "/api/v1/admin/invitations") => json!({"email": format!("{new}@example.com"), "role": "viewer"}),
        (_, "/api/v1/admin/members/{user_id}") => json!({"role": "operator"}),
        (_, "/api/v1/admin/password-resets") => json!({"email": ids.get("email")}),
        (_, "/api/v1/me/password") => {
            json!({"current_password": "a current password", "new_password": "another password"})
        }
        (_, "/api/v1/worker/jobs/claim") => json!({"definition_keys": ["claimed"], "wait_seconds": 20}),
        (_, "/api/v1/worker/jobs/{job_id}/fail") => json!({"fence": fence, "error": "e"}),
        (_, "/api/v1/worker/jobs/{job_id}/snooze") => json!({"fence": fence, "delay_seconds": 1}),
        (_, path) if path.starts_with("/api/v1/worker/jobs/{job_id}/") => json!({"fence": fence}),
        _ => json!({}),
    }
}
