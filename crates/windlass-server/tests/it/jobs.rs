//! `/api/v1/jobs`, as document 004 specifies it, with the additions of the design.

use serde_json::{Value, json};
use uuid::Uuid;
use windlass::NewJob;
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass_server::auth::Role;

use crate::support::{Client, TestServer};

/// A server with one definition, a tenant, and an operator of it.
async fn server() -> (TestServer, Client, Uuid) {
    let server = TestServer::start().await;
    let body = json!({
        "key": "recompute-trained-tags",
        "arg_schema": {"type": "object", "properties": {"model": {"type": "string"}, "provider_id": {"type": "string", "format": "uuid"}}, "additionalProperties": false},
        "timeout_seconds": 3600, "max_attempts": 3
    });
    server.admin.post("/api/v1/admin/jobs/definitions", &body).await.expect(201);
    let tenant = server.queue.tenant("bcg").await;
    let operator = server.client(tenant, Role::Operator).await;
    (server, operator, tenant)
}

async fn enqueue(client: &Client, body: Value) -> String {
    client.post("/api/v1/jobs", &body).await.expect(201)["id"].as_str().unwrap().to_owned()
}

fn plain() -> Value {
    json!({"definition_key": "recompute-trained-tags", "payload": {"model": "siglip"}})
}

#[tokio::test]
async fn an_enqueue_has_the_specified_response() {
    let (server, operator, tenant) = server().await;
    let body = json!({
        "definition_key": "recompute-trained-tags", "payload": {"model": "siglip"}, "priority": 100,
        "scheduled_for": "2026-02-16T10:30:00Z", "dedupe_key": "tenant:bcg:training:daily"
    });
    let response = operator.post("/api/v1/jobs", &body).await;
    let created = response.expect(201);
    let mut names: Vec<&String> = created.as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(names, ["definition_key", "id", "queued_at", "status", "tenant_id"]);
    assert_eq!(created["status"], "queued");
    assert_eq!(created["tenant_id"], tenant.to_string());
    let id = created["id"].as_str().unwrap();
    assert_eq!(response.header("location"), Some(format!("/api/v1/jobs/{id}").as_str()));

    let again = operator.post("/api/v1/jobs", &body).await.expect(200);
    assert_eq!(again, created, "the holder of the dedupe key is returned");

    let job = operator.get(&format!("/api/v1/jobs/{id}")).await.expect(200);
    assert_eq!((&job["status"], &job["dedupe_key"]), (&json!("queued"), &body["dedupe_key"]));
    assert_eq!(job["queued_at"], created["queued_at"]);
    drop(server);
}

#[tokio::test]
async fn invalid_input_is_rejected_with_its_place() {
    let (server, operator, _) = server().await;
    let refused = [
        (json!({"definition_key": "recompute-trained-tags", "tenant_id": "x"}), "/tenant_id"),
        (json!({"definition_key": "recompute-trained-tags", "status": "running"}), "/status"),
        (json!({"definition_key": "recompute-trained-tags", "payload": {"nodel": 1}}), "/payload"),
        (
            json!({"definition_key": "recompute-trained-tags", "payload": {"provider_id": "-x"}}),
            "/payload/provider_id",
        ),
        (json!({"definition_key": "nothing"}), "/definition_key"),
        (json!({"definition_key": "recompute-trained-tags", "priority": 1001}), "/priority"),
        (json!({"definition_key": "recompute-trained-tags", "priority": "high"}), "/priority"),
        (json!({"definition_key": "recompute-trained-tags", "scheduled_for": "tomorrow"}), "/scheduled_for"),
        (
            json!({"definition_key": "recompute-trained-tags", "scheduled_for": "-009999-01-01T00:00:00Z"}),
            "/scheduled_for",
        ),
        (json!({"definition_key": "recompute-trained-tags", "dedupe_key": ""}), "/dedupe_key"),
        (json!({"definition_key": "recompute-trained-tags", "depends_on": ["7"]}), "/depends_on/0"),
        (
            json!({"definition_key": "recompute-trained-tags", "depends_on": vec![Uuid::nil(); 101]}),
            "/depends_on",
        ),
        (json!({"definition_key": "recompute-trained-tags", "subject_type": "post"}), "/subject_id"),
        (json!({"definition_key": "recompute-trained-tags", "subject_id": "7"}), "/subject_type"),
        (
            json!({"definition_key": "recompute-trained-tags", "payload": {"model": "a\u{0}b"}}),
            "/payload/model",
        ),
        (json!({}), "/definition_key"),
        (json!([]), ""),
    ];
    for (body, pointer) in refused {
        let problem = operator.post("/api/v1/jobs", &body).await.problem(422, "invalid");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}: {problem}");
    }
    let raw = |body: &'static str, kind: &'static str| {
        operator.request(reqwest::Method::POST, "/api/v1/jobs").header("content-type", kind).body(body).send()
    };
    assert_eq!(raw("{", "application/json").await.unwrap().status(), 400);
    assert_eq!(raw("{}", "text/plain").await.unwrap().status(), 415);
    assert_eq!(raw("a=b", "application/x-www-form-urlencoded").await.unwrap().status(), 415);
    let deep = format!("{{\"definition_key\":\"a\",\"payload\":{}{}}}", "[".repeat(60), "]".repeat(60));
    let response = operator
        .request(reqwest::Method::POST, "/api/v1/jobs")
        .header("content-type", "application/json")
        .body(deep);
    assert_eq!(response.send().await.unwrap().status(), 422);
    assert_eq!(operator.get("/api/v1/jobs").await.expect(200)["jobs"], json!([]), "nothing was enqueued");
    drop(server);
}

#[tokio::test]
async fn an_idempotency_key_repeats_the_response_and_rejects_another_body() {
    let (server, operator, _) = server().await;
    let keyed = operator.with("idempotency-key", "k1");
    let first = keyed.post("/api/v1/jobs", &plain()).await;
    let created = first.expect(201);
    let again = keyed.post("/api/v1/jobs", &plain()).await;
    assert_eq!(again.expect(201), created);
    assert_eq!(
        (first.header("idempotency-replayed"), again.header("idempotency-replayed")),
        (None, Some("true"))
    );
    keyed
        .post("/api/v1/jobs", &json!({"definition_key": "recompute-trained-tags"}))
        .await
        .problem(409, "conflict");
    keyed.post("/api/v1/jobs/bulk", &json!({"jobs": [plain()]})).await.problem(409, "conflict");
    assert_eq!(operator.get("/api/v1/jobs").await.expect(200)["jobs"].as_array().unwrap().len(), 1);

    // Concurrently: one of them creates the job, the others wait for it and return the same.
    let racing = operator.with("idempotency-key", "k2");
    let body = plain();
    let responses = futures_util::future::join_all((0..8).map(|_| racing.post("/api/v1/jobs", &body))).await;
    let ids: std::collections::BTreeSet<String> =
        responses.iter().map(|response| response.expect(201)["id"].to_string()).collect();
    assert_eq!(ids.len(), 1);
    // Another tenant's key of the same name is another key.
    let other = server.client(server.queue.tenant("other").await, Role::Operator).await;
    let theirs = other.with("idempotency-key", "k1").post("/api/v1/jobs", &plain()).await.expect(201);
    assert_ne!(theirs["id"], created["id"]);
}

#[tokio::test]
async fn many_are_enqueued_with_a_result_for_each() {
    let (server, operator, _) = server().await;
    let jobs = json!({"jobs": [
        plain(),
        {"definition_key": "nothing"},
        {"definition_key": "recompute-trained-tags", "dedupe_key": "d"},
        {"definition_key": "recompute-trained-tags", "dedupe_key": "d"},
        {"definition_key": "recompute-trained-tags", "depends_on": ["00000000-0000-7000-8000-00000000000f"]},
        {"definition_key": "recompute-trained-tags", "payload": {"unknown": true}},
    ]});
    let response = operator.post("/api/v1/jobs/bulk", &jobs).await.expect(200);
    let statuses: Vec<u64> = response["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, [201, 422, 201, 200, 422, 422], "{response}");
    assert_eq!(response["created"], 2);
    assert_eq!(response["results"][3]["job"]["id"], response["results"][2]["job"]["id"]);
    operator.post("/api/v1/jobs/bulk", &json!({"jobs": []})).await.problem(422, "invalid");
    drop(server);
}

/// The holder of a dedupe key may be a job of another definition.
#[tokio::test]
async fn a_duplicate_is_returned_with_the_definition_of_the_existing_job() {
    let (server, operator, _) = server().await;
    server.admin.post("/api/v1/admin/jobs/definitions", &json!({"key": "another"})).await.expect(201);
    let mut holder = plain();
    holder["dedupe_key"] = json!("d");
    let id = enqueue(&operator, holder).await;
    let again = json!({"definition_key": "another", "dedupe_key": "d"});
    let one = operator.post("/api/v1/jobs", &again).await.expect(200);
    let keyed = operator.request(reqwest::Method::POST, "/api/v1/jobs").header("idempotency-key", "k");
    let keyed: Value = keyed.json(&again).send().await.unwrap().json().await.unwrap();
    let many = json!({"jobs": [again, {"definition_key": "another"}]});
    let many = operator.post("/api/v1/jobs/bulk", &many).await.expect(200);
    for duplicate in [&one, &keyed, &many["results"][0]["job"]] {
        assert_eq!(duplicate["id"], json!(id), "{duplicate}");
        assert_eq!(duplicate["definition_key"], "recompute-trained-tags", "{duplicate}");
    }
    assert_eq!(many["results"][1]["job"]["definition_key"], "another", "{many}");
}

/// jobs with one ordering key run in the order of the request, whatever their other keys are.
#[tokio::test]
async fn many_are_enqueued_in_the_order_of_the_request() {
    let (_server, operator, _) = server().await;
    let keyed = |key: &str| json!({"definition_key": "recompute-trained-tags", "ordering_key": "k", "dedupe_key": key});
    let jobs = ["c", "a", "b"].map(keyed);
    let response = operator.post("/api/v1/jobs/bulk", &json!({"jobs": jobs})).await.expect(200);
    let statuses: Vec<&str> = response["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["job"]["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["queued", "blocked", "blocked"], "{response}");
}

///
#[tokio::test]
async fn a_job_past_its_deadline_cannot_be_retried() {
    let (_server, operator, _) = server().await;
    let late = json!({"definition_key": "recompute-trained-tags", "deadline": "2026-01-01T00:00:00Z"});
    let id = enqueue(&operator, late).await;
    operator.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({})).await.expect(200);
    let refused =
        operator.post(&format!("/api/v1/jobs/{id}/retry"), &json!({})).await.problem(409, "conflict");
    assert!(refused["detail"].as_str().unwrap().contains("its deadline has passed"), "{refused}");
    let many = operator.post("/api/v1/jobs/retry", &json!({"ids": [id]})).await.expect(200);
    assert_eq!((&many["changed"], &many["results"][0]["outcome"]), (&json!(0), &json!("past_deadline")));
}

/// each of a thousand jobs waits for a hundred others.
#[tokio::test]
async fn the_dependencies_of_one_request_are_limited() {
    let (_server, operator, _) = server().await;
    let needs: Vec<Uuid> = (0..100).map(|_| Uuid::now_v7()).collect();
    let waiting = json!({"definition_key": "recompute-trained-tags", "depends_on": needs});
    let request = |jobs: usize| json!({"jobs": vec![&waiting; jobs]});
    let refused = operator.post("/api/v1/jobs/bulk", &request(51)).await.problem(422, "invalid");
    assert_eq!(refused["errors"][0]["pointer"], "/jobs", "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains("at most 5000 jobs, not 5100"), "{refused}");
    let allowed = operator.post("/api/v1/jobs/bulk", &request(50)).await.expect(200);
    assert_eq!(allowed["results"].as_array().unwrap().len(), 50, "each has its own result");
}

#[tokio::test]
async fn a_list_is_filtered_and_paged_by_offset_and_by_cursor() {
    let (server, operator, _) = server().await;
    let mut ids = Vec::new();
    for number in 0..5 {
        let body = json!({"definition_key": "recompute-trained-tags", "payload": {"model": format!("m{number}")},
            "tags": [format!("t{}", number % 2)], "subject_type": "post", "subject_id": number.to_string(), "correlation_id": "c"});
        ids.push(enqueue(&operator, body).await);
    }
    ids.reverse();
    let list = async |query: &str| -> Vec<String> {
        let page = operator.get(&format!("/api/v1/jobs?{query}")).await.expect(200);
        page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(list("").await, ids);
    assert_eq!(list("limit=2&offset=1").await, ids[1..3]);
    assert_eq!(list("status=queued&limit=2&offset=2").await, ids[2..4]);
    assert_eq!(list("tag=t0").await.len(), 3);
    assert_eq!(list("subject=post:3").await, ids[1..2]);
    assert_eq!(list("correlation_id=c&status=running").await, Vec::<String>::new());
    assert_eq!(list("q=M3").await, ids[1..2], "text of a payload, in any case");
    assert_eq!(list(&format!("q={}", ids[4])).await, ids[4..]);
    assert_eq!(list("worker=nobody").await, Vec::<String>::new());
    assert_eq!(list("created_before=2000-01-01T00:00:00Z").await, Vec::<String>::new());
    let first = operator.get("/api/v1/jobs?limit=3").await.expect(200);
    let cursor = first["next_cursor"].as_str().unwrap();
    assert_eq!(list(&format!("limit=3&cursor={cursor}")).await, ids[3..]);
    for (query, place) in [
        ("limit=0", "?limit"),
        ("limit=9999", "?limit"),
        ("status=lost", "?status"),
        ("offset=20000", "?offset"),
        ("subject=post", "?subject"),
        ("colour=red", "?colour"),
        ("created_after=now", "?created_after"),
        ("tag=%00", "?"),
    ] {
        let problem = operator.get(&format!("/api/v1/jobs?{query}")).await.problem(422, "invalid");
        assert_eq!(problem["errors"][0]["pointer"], place, "{query}");
    }
    drop(server);
}

#[tokio::test]
async fn a_job_is_canceled_and_run_again() {
    let (server, operator, tenant) = server().await;
    let id = enqueue(&operator, plain()).await;
    let path = format!("/api/v1/jobs/{id}");
    let retry = operator.post(&format!("{path}/retry"), &json!({})).await;
    retry.problem(409, "conflict");
    assert_eq!(operator.post(&format!("{path}/cancel"), &json!({})).await.expect(200)["status"], "canceled");
    operator.post(&format!("{path}/cancel"), &json!({})).await.problem(409, "conflict");
    assert_eq!(operator.post(&format!("{path}/retry"), &json!({})).await.expect(200)["status"], "queued");
    assert_eq!(operator.get(&format!("{path}/attempts")).await.expect(200)["attempts"], json!([]));
    let audit = server.queue.client().await;
    let rows = audit
        .query("select action, before ->> 'status', after ->> 'status' from windlass.audit where tenant_id = $1 and target = $2 order by id", &[&tenant, &id])
        .await
        .unwrap();
    let acts: Vec<(String, Option<String>, Option<String>)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        acts,
        [
            ("job.enqueue".to_owned(), None, some("queued")),
            ("job.cancel".to_owned(), some("queued"), some("canceled")),
            ("job.retry".to_owned(), some("canceled"), some("queued")),
        ]
    );
}

#[tokio::test]
async fn bulk_actions_preview_their_effect_before_they_apply_it() {
    let (server, operator, tenant) = server().await;
    let mut ids = Vec::new();
    for tag in ["a", "a", "b"] {
        ids.push(
            enqueue(&operator, json!({"definition_key": "recompute-trained-tags", "tags": [tag]})).await,
        );
    }
    let foreign = server.queue.enqueue(&NewJob::new("recompute-trained-tags")).await.unwrap().id.to_string();
    let dry = operator
        .post("/api/v1/jobs/cancel", &json!({"filter": {"tag": "a"}, "dry_run": true}))
        .await
        .expect(200);
    assert_eq!((&dry["matched"], &dry["changed"]), (&json!(2), &json!(0)));
    let done = operator.post("/api/v1/jobs/cancel", &json!({"filter": {"tag": "a"}})).await.expect(200);
    assert_eq!(
        (&done["matched"], &done["changed"], &done["has_more"]),
        (&json!(2), &json!(2), &json!(false))
    );
    let by_id =
        operator.post("/api/v1/jobs/retry", &json!({"ids": [ids[0], ids[2], foreign]})).await.expect(200);
    let outcomes: std::collections::BTreeMap<&str, &str> = by_id["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| (result["id"].as_str().unwrap(), result["outcome"].as_str().unwrap()))
        .collect();
    assert_eq!(outcomes[ids[0].as_str()], "queued");
    assert_eq!(outcomes[ids[2].as_str()], "not_finished");
    assert_eq!(outcomes[foreign.as_str()], "missing");
    operator.post("/api/v1/jobs/delete", &json!({"ids": []})).await.problem(403, "forbidden");
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let deleted = admin.post("/api/v1/jobs/delete", &json!({"ids": [ids[1], foreign]})).await.expect(200);
    assert_eq!(deleted["changed"], 1);
    operator.get(&format!("/api/v1/jobs/{}", ids[1])).await.problem(404, "not-found");
    assert!(server.queue.job(windlass::DEFAULT_TENANT, foreign.parse().unwrap()).await.unwrap().is_some());
    for body in [json!({}), json!({"ids": [], "filter": {}}), json!({"filter": {"colour": 1}})] {
        operator.post("/api/v1/jobs/cancel", &body).await.problem(422, "invalid");
    }
}

#[tokio::test]
async fn the_summary_counts_by_status() {
    let (server, operator, tenant) = server().await;
    enqueue(&operator, plain()).await;
    let id = enqueue(&operator, plain()).await;
    operator.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({})).await.expect(200);
    enqueue(&operator, json!({"definition_key": "recompute-trained-tags", "delay_seconds": 3600})).await;
    Keeper::new(server.queue.queue().clone(), KeeperSettings::default()).run_once(Duty::Fold).await.unwrap();
    enqueue(&operator, plain()).await;
    let summary = operator.get("/api/v1/jobs/summary").await.expect(200);
    assert_eq!(
        summary["counts"],
        json!({"scheduled": 1, "blocked": 0, "queued": 2, "running": 0, "succeeded": 0, "failed": 0, "dead_letter": 0, "canceled": 1})
    );
    assert!(summary["oldest_queued_age_seconds"].as_f64().unwrap() >= 0.0);
    assert_eq!(summary["queues"]["default"]["queued"], 2);
    assert_eq!(summary["tenant_id"], tenant.to_string());
    let other = server.client(server.queue.tenant("other").await, Role::Viewer).await;
    let theirs = other.get("/api/v1/jobs/summary").await.expect(200);
    assert_eq!(
        (&theirs["counts"]["queued"], &theirs["oldest_queued_age_seconds"]),
        (&json!(0), &Value::Null)
    );
    let all = server.admin.get("/api/v1/admin/summary").await.expect(200);
    assert_eq!(
        (&all["all"]["queued"], &all["tenants"][tenant.to_string()]["canceled"]),
        (&json!(2), &json!(1))
    );
}
