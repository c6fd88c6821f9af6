//! What a request contains in addition to its body: parameters that the route does not have, and headers that are sent twice.

use serde_json::{Value, json};
use windlass::NewJob;
use windlass_server::auth::Permission;
use windlass_server::http::{Audience, document, table};

use crate::matrix::world::{self, Ids, body};
use crate::support::Answer;

/// A-251: a route without parameters ignored all of them, so a deletion with `?dry_run=true` deleted.
#[tokio::test(flavor = "multi_thread")]
async fn every_route_rejects_a_parameter_that_it_does_not_have() {
    let server = world::server().await;
    let tenant = server.queue.tenant("mine").await;
    let ids = Ids::of(&server, tenant).await;
    let admin = server.admin.with("x-tenant-id", tenant);
    let document = document();
    let of_programs = table().into_iter().filter(|route| route.audience == Audience::Programs);
    for route in &of_programs.filter(|route| route.permission != Permission::Anyone).collect::<Vec<_>>() {
        let name = format!("{} {}", route.method, route.path);
        let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
        let known: Vec<&str> = operation["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|parameter| parameter["in"] == "query")
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        let path = ids.path(route);
        let body = body(route, &ids);
        for unknown in ["dry_run", "dry%5Frun", "Limit", ""] {
            let separator = if path.contains('?') { '&' } else { '?' };
            let path = format!("{path}{separator}{unknown}=true");
            let sent = (!body.is_null()).then_some(&body);
            let refused = admin.send(route.method.clone(), &path, sent).await.problem(422, "invalid");
            let named = unknown.replace("%5F", "_");
            assert_eq!(refused["errors"][0]["pointer"], format!("?{named}"), "{name}: {refused}");
            let message = refused["errors"][0]["message"].as_str().unwrap();
            assert!(message.contains("is not a parameter of this route"), "{name}: {message}");
            assert!(known.iter().all(|known| message.contains(known)), "{name}: {message}");
        }
        // Others are not informed about the parameters before they are authenticated.
        let path = format!("{path}{}surprise=1", if path.contains('?') { '&' } else { '?' });
        server.anonymous().send(route.method.clone(), &path, None).await.problem(401, "unauthorized");
    }
    // A probe may add a parameter of its own.
    server.anonymous().get("/health/live?probe=1").await.expect(200);
}

#[tokio::test]
async fn a_deletion_with_an_unknown_parameter_deletes_nothing() {
    let server = world::server().await;
    let job = server.queue.enqueue(&NewJob::new("a")).await.unwrap().id;
    server.queue.cancel(windlass::DEFAULT_TENANT, job).await.unwrap();
    let ids = json!({"ids": [job]});
    let refused = server.admin.post("/api/v1/jobs/delete?dry_run=true", &ids).await;
    refused.problem(422, "invalid");
    server.admin.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
    // An empty query is none.
    server.admin.post("/api/v1/jobs/delete?", &ids).await.expect(200);
    server.admin.get(&format!("/api/v1/jobs/{job}")).await.problem(404, "not-found");
}

/// A-255: a proxy may read the first one and this server the other.
#[tokio::test]
async fn a_header_that_decides_something_is_not_sent_twice_with_different_values() {
    let server = world::server().await;
    let (one, other) = (server.queue.tenant("one").await, server.queue.tenant("other").await);
    let twice = async |name: &str, first: &str, second: &str| -> Answer {
        let client = server.admin.with(name, first).with(name, second);
        client.post("/api/v1/jobs", &json!({"definition_key": "a"})).await
    };
    for (name, first, second) in [
        ("Authorization", "Bearer wl_api_x", "Bearer wl_api_y"),
        ("X-Tenant-Id", &*one.to_string(), &*other.to_string()),
        ("Idempotency-Key", "one", "other"),
        ("If-Match", "\"1\"", "\"2\""),
    ] {
        let refused = twice(name, first, second).await.problem(400, "bad-request");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(name) && detail.contains("twice"), "{detail}");
    }
    let jobs = async |tenant: uuid::Uuid| -> Value {
        server.admin.with("x-tenant-id", tenant).get("/api/v1/jobs").await.expect(200)["jobs"].clone()
    };
    assert_eq!((jobs(one).await, jobs(other).await), (json!([]), json!([])));
    twice("Idempotency-Key", "same", "same").await.expect(201);
}

/// A-254: of two values with the same name, the reviewer of a file may read the other one.
#[tokio::test]
async fn a_name_that_is_given_twice_in_a_configuration_is_rejected_at_any_depth() {
    let server = world::server().await;
    let before = server.admin.get("/api/v1/admin/jobs/definitions").await.expect(200);
    let a = before["definitions"].as_array().unwrap().iter().find(|one| one["key"] == "a").unwrap().clone();
    let trigger = json!({"label": "l", "trigger_type": "event", "event_name": "x.y", "definition_key": "a"});
    let trigger = server.admin.post("/api/v1/jobs/triggers", &trigger).await.expect(201);
    let (of_definition, of_trigger) = (
        format!("/api/v1/admin/jobs/definitions/{}", a["id"].as_str().unwrap()),
        format!("/api/v1/jobs/triggers/{}", trigger["id"].as_str().unwrap()),
    );
    let (definitions, apply) = ("/api/v1/admin/jobs/definitions", "/api/v1/admin/jobs/definitions/apply");
    let new = r#""label":"l","trigger_type":"event","event_name":"x.y","definition_key":"a""#;
    for (method, path, body, pointer) in [
        ("POST", definitions, r#"{"key":"x","key":"y"}"#.to_owned(), "/key"),
        ("POST", definitions, r#"{"key":"x","queue":"y","queue":"z"}"#.to_owned(), "/queue"),
        (
            "POST",
            definitions,
            r#"{"key":"x","arg_schema":{"properties":{"n":{},"n":{"type":"string"}}}}"#.to_owned(),
            "/arg_schema/properties/n",
        ),
        ("POST", apply, r#"{"definitions":[{"key":"x","key":"y"}]}"#.to_owned(), "/definitions/0/key"),
        (
            "POST",
            apply,
            r#"{"definitions":[{"key":"x","arg_schema":{"type":"object","type":"string"}}]}"#.to_owned(),
            "/definitions/0/arg_schema/type",
        ),
        ("PATCH", &*of_definition, r#"{"backoff":{"jitter":0,"jitter":1}}"#.to_owned(), "/backoff/jitter"),
        (
            "POST",
            "/api/v1/jobs/triggers",
            format!(r#"{{{new},"conditions":{{"a":1,"a":2}}}}"#),
            "/conditions/a",
        ),
        ("PATCH", &*of_trigger, r#"{"label":"x","label":"y"}"#.to_owned(), "/label"),
        (
            "PATCH",
            &*of_trigger,
            r#"{"payload_template":{"x":1,"\u0078":2}}"#.to_owned(),
            "/payload_template/x",
        ),
    ] {
        let request = server.admin.request(method.parse().unwrap(), path);
        let sent =
            request.header("content-type", "application/json").body(body.clone()).send().await.unwrap();
        let (status, problem) = (sent.status(), sent.json::<Value>().await.unwrap());
        assert_eq!(status, 422, "{body}: {problem}");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}: {problem}");
        assert_eq!(problem["errors"][0]["message"], "is specified twice", "{body}");
    }
    assert_eq!(server.admin.get("/api/v1/admin/jobs/definitions").await.expect(200), before);
    // A payload is data of the application: the last one counts.
    let request = server.admin.request(reqwest::Method::POST, "/api/v1/jobs");
    let job = r#"{"definition_key":"a","payload":{"n":1,"n":2}}"#;
    let made = request.header("content-type", "application/json").body(job).send().await.unwrap();
    let id = made.json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned();
    let stored = server.admin.get(&format!("/api/v1/jobs/{id}")).await.expect(200);
    assert_eq!(stored["payload"], json!({"n": 2}));
}
