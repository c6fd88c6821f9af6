//! Every route × every role × an id of the caller's own, of another tenant, and of no one: the response, and the resulting state
//! of the database. Built from the route table, so that a new route is included, or fails here because its ids are not declared.
//!
//! The server logs in as a role without any right to a tenant's rows. So everything that it reads or writes for a request happens
//! as the server's or the admin's role, in a transaction of its own, or not at all.

mod forms;
mod state;
mod values;
pub(crate) mod world;

use reqwest::Method;
use serde_json::{Value, json};
use windlass::NewJob;
use windlass_server::auth::{Permission, Role};
use windlass_server::http::{Audience, Options, Route, table};
use windlass_testing::{Login, SHADOWS, TestQueue, some_of};

use crate::support::{Client, TestServer};
use state::State;
use world::{Ids, body};

/// Routes that succeed and do not change the tables of [`State`]: they only read, or concern workers.
const CHANGE_NOTHING: [&str; 9] = [
    "/api/v1/admin/audit/verify",
    "/api/v1/jobs/triggers/dry-run",
    "/api/v1/jobs/triggers/preview",
    "/api/v1/jobs/triggers/{trigger_id}/backfill",
    "/api/v1/admin/workers/{worker_id}/drain",
    "/api/v1/admin/workers/{worker_id}/resume",
    "/api/v1/worker/register",
    "/api/v1/worker/stop",
    "/api/v1/worker/jobs/{job_id}/heartbeat",
];

/// The status and the body; of a stream only that it started.
async fn ask(client: &Client, route: &Route, path: &str, body: &Value) -> (u16, String) {
    let mut request = client.request(route.method.clone(), path);
    if route.method != Method::GET && route.method != Method::DELETE {
        request = request.json(body);
    }
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let is_stream = response.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream");
    (status, if is_stream { String::new() } else { response.text().await.unwrap() })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_restricts_every_role_to_its_permission_and_tenant() {
    let queue = TestQueue::create().await;
    // As documented: it may assume the admin's role but inherits none of it, so it reads no tenant's row without a current tenant.
    let login = Login::create(&queue, "windlass_server").await;
    let mut server = TestServer::start_on(queue, login.queue().await, Options::default()).await;
    for key in ["a", "claimed"] {
        server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": key})).await.expect(201);
    }
    let (mine, theirs) = (server.queue.tenant("mine").await, server.queue.tenant("theirs").await);
    let foreign = Ids::of(&server, theirs).await;
    let absent = Ids::absent().with_fence_of(&foreign);
    let mut clients = Vec::new();
    for role in Role::ALL.into_iter().filter(|role| *role != Role::SuperAdmin) {
        clients.push((role, server.client(mine, role).await));
    }
    clients.push((Role::SuperAdmin, server.admin.with("x-tenant-id", mine)));
    let anonymous = server.anonymous();
    let database = server.queue.client().await;
    let look = async || State::of(&database, theirs).await;
    let of_mine = Ids::of(&server, mine).await;

    let routes = table().into_iter().filter(|route| route.audience == Audience::Programs);
    for (number, route) in routes.enumerate() {
        let name = format!("{} {}", route.method, route.path);
        if route.permission == Permission::Anyone {
            assert!(ask(&anonymous, &route, route.path, &json!({})).await.0 < 500, "{name}");
            continue;
        }
        // A normal run tries two roles per route, one that may use it and one that may not where there are both.
        let (may, may_not): (Vec<_>, Vec<_>) =
            clients.iter().partition(|(role, _)| role.may(route.permission));
        for (role, client) in some_of(&may, 1, number).into_iter().chain(some_of(&may_not, 1, number)) {
            let before = look().await;
            if !role.may(route.permission) {
                for ids in [&of_mine, &foreign, &absent] {
                    let (status, text) = ask(client, &route, &ids.path(&route), &body(&route, ids)).await;
                    assert_eq!(status, 403, "{name} as {role}: {text}");
                }
                let expected = State { denied: before.denied + 3, ..before };
                assert_eq!(
                    look().await,
                    expected,
                    "{name} as {role}: denied with an effect, or without a row"
                );
                continue;
            }
            // A super-admin may reach any tenant by its routes; every other permission is limited to the caller's tenant.
            if route.path.contains('{') && route.permission != Permission::Administer {
                let (of_another, of_nobody) = (
                    ask(client, &route, &foreign.path(&route), &body(&route, &foreign)).await,
                    ask(client, &route, &absent.path(&route), &body(&route, &absent)).await,
                );
                assert_eq!(
                    of_another, of_nobody,
                    "{name} as {role} distinguishes another tenant's id from an unknown one"
                );
                let expected = if route.permission == Permission::Work { 409 } else { 404 };
                assert_eq!(of_another.0, expected, "{name} as {role}: {of_another:?}");
                assert_eq!(look().await, before, "{name} as {role} changed something of another tenant's");
            }
            let own = Ids::of(&server, mine).await;
            own.prepare(&server, &route, mine).await;
            let before = look().await;
            let (status, text) = ask(client, &route, &own.path(&route), &body(&route, &own)).await;
            let after = look().await;
            // Only a failed event can be retried, and this one has not failed.
            let expected = match route.path {
                "/api/v1/events/{event_id}/retry" => 409..410,
                // A token has no password.
                "/api/v1/me/password" => 403..404,
                _ => 200..300,
            };
            assert!(expected.contains(&status), "{name} as {role}: {status} {text}");
            assert_eq!(after.theirs, before.theirs, "{name} as {role} changed rows of another tenant");
            let is_act = status < 300 && route.method != Method::GET;
            let rows = i64::from(is_act && is_audited(&route));
            assert_eq!(after.done - before.done, rows, "{name} as {role}: audit rows of {status}");
            let leaves_trace = is_act && !CHANGE_NOTHING.contains(&route.path);
            assert_eq!(after.all != before.all, leaves_trace, "{name} as {role}: {status} and the database");
        }
        for ids in [&foreign, &absent] {
            let (status, _) = ask(&anonymous, &route, &ids.path(&route), &body(&route, ids)).await;
            assert_eq!(status, 401, "{name} without a credential");
        }
    }
    server.stop().await;
    login.drop().await;
}

/// An application that may create functions in `public` has one for exactly the types of our arguments.
#[tokio::test(flavor = "multi_thread")]
async fn no_function_of_public_runs_in_a_statement_of_the_server() {
    let queue = TestQueue::create().await;
    let login = Login::create(&queue, "windlass_server").await;
    let database = queue.client().await;
    let mut server = TestServer::start_on(queue, login.queue().await, Options::default()).await;
    for key in ["a", "claimed"] {
        server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": key})).await.expect(201);
    }
    let mine = server.queue.tenant("mine").await;
    let ids = Ids::of(&server, mine).await;
    let clients = [
        server.client(mine, Role::TenantAdmin).await,
        server.admin.with("x-tenant-id", mine),
        server.anonymous(),
    ];
    database.batch_execute(SHADOWS).await.unwrap();
    for route in table().into_iter().filter(|route| route.audience == Audience::Programs) {
        for client in &clients {
            let (status, text) = ask(client, &route, &ids.path(&route), &body(&route, &ids)).await;
            assert!(status < 500, "{} {}: {status} {text}", route.method, route.path);
        }
    }
    let calls = "select is_called from public.shadow_calls";
    assert!(!database.query_one(calls, &[]).await.unwrap().get::<_, bool>(0));
    server.stop().await;
    login.drop().await;
}

/// Reading by POST is no act, and what workers do is in the history of each job. The backfill here is a dry run.
fn is_audited(route: &Route) -> bool {
    let looks = [
        "/api/v1/jobs/triggers/dry-run",
        "/api/v1/jobs/triggers/preview",
        "/api/v1/jobs/triggers/{trigger_id}/backfill",
        "/api/v1/admin/audit/verify",
    ];
    route.permission != Permission::Work && !looks.contains(&route.path)
}

/// a token with one scope may use the routes of that scope, and no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_scope_opens_its_own_routes_and_no_others() {
    let server = TestServer::start().await;
    let absent = Ids::absent();
    for scope in Permission::ALL.into_iter().skip(2) {
        let name = [scope.as_str()];
        let client = server.scoped_client(windlass::DEFAULT_TENANT, Role::SuperAdmin, Some(&name)).await;
        for route in table().into_iter().filter(|route| route.audience == Audience::Programs) {
            let is_free = matches!(route.permission, Permission::Anyone | Permission::SignedIn);
            let (status, text) = ask(&client, &route, &absent.path(&route), &json!({})).await;
            let is_open = is_free || route.permission == scope;
            let scope = scope.as_str();
            assert_eq!(status != 403, is_open, "{scope} at {} {}: {status} {text}", route.method, route.path);
        }
    }
}

/// A tenant that others may not name, named in every way that a request allows.
#[tokio::test]
async fn a_tenant_is_never_taken_from_the_request() {
    let server = TestServer::start().await;
    server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "a"})).await.expect(201);
    server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "claimed"})).await.expect(201);
    let (mine, theirs) = (server.queue.tenant("mine").await, server.queue.tenant("theirs").await);
    let foreign = Ids::of(&server, theirs).await;
    let job = server.queue.enqueue(&NewJob::new("a").tenant(theirs)).await.unwrap().id;
    let client = server.client(mine, Role::TenantAdmin).await;
    client.with("x-tenant-id", theirs).get("/api/v1/jobs").await.problem(403, "forbidden");
    client.with("x-tenant-id", "a b").get("/api/v1/jobs").await.problem(400, "bad-request");
    for slug in ["theirs", "no-such-tenant"] {
        client.with("x-tenant-id", slug).get("/api/v1/jobs").await.problem(403, "forbidden");
    }
    client.with("x-tenant-id", mine).get("/api/v1/jobs").await.expect(200);
    client.with("x-tenant-id", "mine").get("/api/v1/jobs").await.expect(200);
    let by_slug = server.admin.with("x-tenant-id", "theirs").get(&format!("/api/v1/jobs/{job}")).await;
    assert_eq!(by_slug.expect(200)["tenant_id"], json!(theirs));
    server.admin.with("x-tenant-id", "no-such-tenant").get("/api/v1/jobs").await.problem(404, "not-found");
    client.get(&format!("/api/v1/jobs?tenant_id={theirs}")).await.problem(422, "invalid");
    let (trigger, event) = (foreign.get("trigger_id"), foreign.get("event_id"));
    for (list, query) in [
        ("jobs", format!("/api/v1/jobs?cursor={job}")),
        ("jobs", format!("/api/v1/jobs?q={job}")),
        ("triggers", format!("/api/v1/jobs/triggers?cursor={trigger}")),
        ("events", format!("/api/v1/events?cursor={event}")),
        ("tokens", "/api/v1/admin/tokens".to_owned()),
        ("members", "/api/v1/admin/members".to_owned()),
        ("invitations", "/api/v1/admin/invitations".to_owned()),
    ] {
        let page = client.get(&query).await.expect(200);
        let rows = page[list].as_array().unwrap();
        assert!(rows.iter().all(|row| row["tenant_id"] == json!(mine)), "{query}: {page}");
    }
    client
        .post("/api/v1/jobs", &json!({"definition_key": "a", "tenant_id": theirs}))
        .await
        .problem(422, "invalid");
    let waiting = json!({"definition_key": "a", "depends_on": [job]});
    client.post("/api/v1/jobs", &waiting).await.problem(422, "invalid");
    for verb in ["cancel", "retry", "delete"] {
        let bulk = client.post(&format!("/api/v1/jobs/{verb}"), &json!({"ids": [job]})).await.expect(200);
        assert_eq!((&bulk["matched"], &bulk["results"][0]["outcome"]), (&json!(0), &json!("missing")));
    }
    // The caller's own event at another tenant's trigger.
    let own = client.post("/api/v1/events", &json!({"name": "some.thing"})).await.expect(201);
    let retry = format!("/api/v1/events/{}/retry", own["id"].as_str().unwrap());
    let absent = client.post(&retry, &json!({"trigger_id": uuid::Uuid::from_u128(7)})).await;
    let of_another = client.post(&retry, &json!({"trigger_id": trigger})).await;
    assert_eq!((of_another.status, of_another.text), (absent.status, absent.text));
    let named =
        server.admin.with("x-tenant-id", theirs).get(&format!("/api/v1/jobs/{job}")).await.expect(200);
    assert_eq!(named["status"], "queued", "a super-admin may name one, and it is unchanged");
}
