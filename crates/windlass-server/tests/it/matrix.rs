//! Every route × every role × an id of one's own, of another tenant's, and of nobody's: what is answered, and what became of the
//! database. Made from the route table, so that a new route is in it, or fails here because nobody said what its ids are.

use std::collections::HashMap;

use reqwest::Method;
use serde_json::json;
use uuid::Uuid;
use windlass::NewJob;
use windlass_server::auth::{Permission, Role};
use windlass_server::http::{Audience, Route, table};

use crate::support::{Client, TestServer};

const ABSENT: &str = "00000000-0000-7000-8000-0000000000ff";

/// The ids that stand for one tenant in a path.
struct Ids(HashMap<&'static str, String>);

impl Ids {
    fn absent() -> Self {
        let names = ["job_id", "tenant_id", "definition_id", "trigger_id", "event_id", "user_id", "hold_id"];
        let mut ids: HashMap<_, _> = names.into_iter().map(|name| (name, ABSENT.to_owned())).collect();
        ids.insert("token_id", "ffffffffffffffff".to_owned());
        ids.insert("queue", "nowhere".to_owned());
        ids.insert("worker_id", "nobody".to_owned());
        Self(ids)
    }

    fn path(&self, route: &Route) -> String {
        let mut path = route.path.to_owned();
        while let Some(start) = path.find('{') {
            let end = path[start..].find('}').unwrap() + start;
            let name = path[start + 1..end].to_owned();
            let id = self.0.get(name.as_str());
            let id = id.unwrap_or_else(|| {
                panic!("{}: nobody said what {name} is; add it to the matrix", route.path)
            });
            path.replace_range(start..=end, id);
        }
        path
    }

    /// A tenant with something of everything.
    async fn of(server: &TestServer, tenant: Uuid) -> Self {
        let mut ids = Self::absent();
        let job = server.queue.enqueue(&NewJob::new("a").tenant(tenant).subject("s", "1")).await.unwrap();
        let admin = server.client(tenant, Role::TenantAdmin).await;
        let token =
            admin.post("/api/v1/admin/tokens", &json!({"name": "t", "role": "viewer"})).await.expect(201);
        let member = json!({"email": format!("{tenant}@example.com"), "role": "viewer"});
        let member = admin.post("/api/v1/admin/members", &member).await.expect(201);
        let hold = json!({"subject_type": "user", "subject_id": "7", "reason": "r"});
        let hold = admin.post("/api/v1/retention/holds", &hold).await;
        ids.0.insert("hold_id", hold.expect(201)["id"].as_str().unwrap().to_owned());
        ids.0.insert("job_id", job.id.to_string());
        ids.0.insert("token_id", token["id"].as_str().unwrap().to_owned());
        ids.0.insert("user_id", member["user_id"].as_str().unwrap().to_owned());
        // One of its own to be changed and deleted.
        let another = server.queue.tenant(&format!("t-{}", Uuid::now_v7().simple())).await;
        ids.0.insert("tenant_id", another.to_string());
        ids
    }
}

/// Everything that callers could change, as one hash.
async fn state(database: &tokio_postgres::Client) -> String {
    let mut parts = Vec::new();
    for (table, without) in [
        ("job", ""),
        ("live", ""),
        ("deferred", ""),
        ("blocked", ""),
        ("history", ""),
        ("job_definitions", ""),
        ("tenants", ""),
        ("api_tokens", " - 'last_used_at'"),
        ("members", ""),
        ("users", ""),
        ("queues", ""),
        ("job_triggers", ""),
        ("dedupe", ""),
        ("retention", ""),
        ("legal_hold", ""),
    ] {
        let query = format!(
            "select coalesce(md5(string_agg((to_jsonb(t){without})::text, '' order by to_jsonb(t)::text)), '') from windlass.{table} t"
        );
        parts.push(database.query_one(&query, &[]).await.unwrap().get::<_, String>(0));
    }
    parts.join(" ")
}

async fn audited(database: &tokio_postgres::Client, outcome: &str) -> i64 {
    let query = "select count(*) from windlass.audit where outcome = $1";
    database.query_one(query, &[&outcome]).await.unwrap().get(0)
}

/// The status and the body; of a stream only that it began.
async fn ask(client: &Client, route: &Route, path: &str) -> (u16, String) {
    let mut request = client.request(route.method.clone(), path);
    if route.method != Method::GET && route.method != Method::DELETE {
        request = request.json(&json!({}));
    }
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let is_stream = response.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream");
    (status, if is_stream { String::new() } else { response.text().await.unwrap() })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_holds_every_role_to_its_permission_and_its_tenant() {
    let server = TestServer::start().await;
    server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "a"})).await.expect(201);
    let (mine, theirs) = (server.queue.tenant("mine").await, server.queue.tenant("theirs").await);
    let foreign = Ids::of(&server, theirs).await;
    let absent = Ids::absent();
    let database = server.queue.client().await;
    let mut clients = Vec::new();
    for role in Role::ALL.into_iter().filter(|role| *role != Role::SuperAdmin) {
        clients.push((role, server.client(mine, role).await));
    }
    clients.push((Role::SuperAdmin, server.admin.with("x-tenant-id", mine)));
    let anonymous = server.anonymous();

    for route in table().into_iter().filter(|route| route.audience == Audience::Programs) {
        let name = format!("{} {}", route.method, route.path);
        if route.permission == Permission::Anyone {
            assert!(ask(&anonymous, &route, route.path).await.0 < 500, "{name}");
            continue;
        }
        let has_id = route.path.contains('{');
        for (role, client) in &clients {
            let before = (
                state(&database).await,
                audited(&database, "done").await,
                audited(&database, "denied").await,
            );
            if !role.may(route.permission) {
                for ids in [&foreign, &absent] {
                    let (status, body) = ask(client, &route, &ids.path(&route)).await;
                    assert_eq!(status, 403, "{name} as {role}: {body}");
                }
                let after = (
                    state(&database).await,
                    audited(&database, "done").await,
                    audited(&database, "denied").await,
                );
                assert_eq!(
                    after,
                    (before.0, before.1, before.2 + 2),
                    "{name} as {role}: a denied call changed something, or left no row"
                );
                continue;
            }
            // What concerns no tenant, or whose fence refuses whoever has not claimed, has no foreign id.
            let is_tenants =
                has_id && route.permission != Permission::Work && route.permission != Permission::Administer;
            if is_tenants {
                let (of_another, of_nobody) = (
                    ask(client, &route, &foreign.path(&route)).await,
                    ask(client, &route, &absent.path(&route)).await,
                );
                assert_eq!(of_another, of_nobody, "{name} as {role} tells another tenant's id from none");
                assert!(matches!(of_another.0, 404 | 422), "{name} as {role}: {of_another:?}");
                let after = (
                    state(&database).await,
                    audited(&database, "done").await,
                    audited(&database, "denied").await,
                );
                assert_eq!(after, before, "{name} as {role} changed something of another tenant's");
            }
            let own = Ids::of(&server, mine).await;
            let before = audited(&database, "done").await;
            let (status, body) = ask(client, &route, &own.path(&route)).await;
            assert!(status < 500 && status != 401 && status != 403, "{name} as {role}: {status} {body}");
            let changes = status < 300
                && route.method != Method::GET
                && route.permission != Permission::Work
                && !body.contains("\"dry_run\":true");
            let rows = audited(&database, "done").await - before;
            assert_eq!(
                rows,
                i64::from(changes),
                "{name} as {role} answered {status} and left {rows} audit rows"
            );
        }
        let (status, _) = ask(&anonymous, &route, &absent.path(&route)).await;
        assert_eq!(status, 401, "{name} without a credential");
    }
}

/// A tenant that others may not name, named in every way a request can.
#[tokio::test]
async fn a_tenant_is_never_taken_from_the_request() {
    let server = TestServer::start().await;
    server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "a"})).await.expect(201);
    let (mine, theirs) = (server.queue.tenant("mine").await, server.queue.tenant("theirs").await);
    let job = server.queue.enqueue(&NewJob::new("a").tenant(theirs)).await.unwrap().id;
    let client = server.client(mine, Role::TenantAdmin).await;
    client.with("x-tenant-id", theirs).get("/api/v1/jobs").await.problem(403, "forbidden");
    client.with("x-tenant-id", "x").get("/api/v1/jobs").await.problem(400, "bad-request");
    client.with("x-tenant-id", mine).get("/api/v1/jobs").await.expect(200);
    client.get(&format!("/api/v1/jobs?tenant_id={theirs}")).await.problem(422, "invalid");
    for query in [format!("cursor={job}"), format!("q={job}")] {
        assert_eq!(
            client.get(&format!("/api/v1/jobs?{query}")).await.expect(200)["jobs"],
            json!([]),
            "{query}"
        );
    }
    client
        .post("/api/v1/jobs", &json!({"definition_key": "a", "tenant_id": theirs}))
        .await
        .problem(422, "invalid");
    let waiting = json!({"definition_key": "a", "depends_on": [job]});
    client.post("/api/v1/jobs", &waiting).await.problem(422, "invalid");
    let bulk = client.post("/api/v1/jobs/delete", &json!({"ids": [job]})).await.expect(200);
    assert_eq!((&bulk["matched"], &bulk["results"][0]["outcome"]), (&json!(0), &json!("missing")));
    let named = server.admin.with("x-tenant-id", theirs).get("/api/v1/jobs").await.expect(200);
    assert_eq!(named["jobs"].as_array().unwrap().len(), 1, "a super-admin may name one");
}
