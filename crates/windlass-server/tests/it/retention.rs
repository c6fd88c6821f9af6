//! `/api/v1/retention`: rules, holds and the progress of pruning, over HTTP and from the command line.

use serde_json::{Value, json};
use uuid::Uuid;
use windlass::job::State;
use windlass::keeper::{Duty, Keeper, KeeperSettings};
use windlass::{Definition, NewJob};
use windlass_server::auth::Role;

use crate::cli::{Ran, windlass};
use crate::support::TestServer;

/// A job of the tenant that was canceled this many days ago.
async fn canceled(server: &TestServer, tenant: Uuid, key: &str, days_ago: i32) -> Uuid {
    let job = NewJob::new(key).tenant(tenant).subject("user", "7");
    let id = server.queue.enqueue(&job).await.unwrap().id;
    server.queue.cancel(tenant, id).await.unwrap();
    let age =
        "update windlass.history set finished_at = finished_at - make_interval(days => $2) where job_id = $1";
    server.queue.client().await.execute(age, &[&id, &days_ago]).await.unwrap();
    id
}

async fn prune(server: &TestServer) {
    let keeper = Keeper::new(server.queue.queue().clone(), KeeperSettings::default());
    windlass_testing::eventually("all is pruned", async || {
        keeper.run_once(Duty::Prune).await.unwrap().moved == 0
    })
    .await;
}

fn progress<'a>(retention: &'a Value, key: &str, of_tenant: bool) -> &'a Value {
    let rules = retention["progress"].as_array().unwrap();
    let found = rules.iter().find(|rule| {
        rule["definition_key"] == key
            && rule["status"] == "canceled"
            && rule["tenant_id"].is_string() == of_tenant
    });
    found.unwrap_or(&Value::Null)
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_are_set_applied_and_removed() {
    let server = TestServer::start().await;
    let day = std::time::Duration::from_secs(86_400);
    server.queue.define(&Definition::new("a").retention(State::Canceled, day * 30)).await.unwrap();
    let (mine, other) = (server.queue.tenant("mine").await, server.queue.tenant("other").await);
    let admin = server.client(mine, Role::TenantAdmin).await;
    let (old, foreign) = (canceled(&server, mine, "a", 8).await, canceled(&server, other, "a", 8).await);

    let rule = json!({"definition_key": "a", "status": "canceled", "keep_seconds": 604_800});
    assert_eq!(admin.post("/api/v1/retention/rules", &rule).await.expect(200), rule);
    let seen = admin.get("/api/v1/retention").await.expect(200);
    assert_eq!(seen["rules"], json!([rule]));
    assert_eq!(progress(&seen, "a", true)["reached"], Value::Null, "no round has run yet");
    prune(&server).await;
    admin.get(&format!("/api/v1/jobs/{old}")).await.problem(404, "not-found");
    let others = server.client(other, Role::Viewer).await;
    others.get(&format!("/api/v1/jobs/{foreign}")).await.expect(200);
    let seen = admin.get("/api/v1/retention").await.expect(200);
    let own = progress(&seen, "a", true);
    assert_eq!((&own["purged"], &own["keep_seconds"]), (&json!(1), &json!(604_800)));
    assert!(own["reached"].is_string() && own["checked_at"].is_string());
    assert!(own["behind_seconds"].as_i64().unwrap() < 120, "{own}");
    assert_eq!(progress(&seen, "a", false)["keep_seconds"], json!(2_592_000));
    let seen = others.get("/api/v1/retention").await.expect(200);
    assert_eq!(progress(&seen, "a", true), &Value::Null, "another tenant's rule is separate");

    admin.delete("/api/v1/retention/rules?definition_key=a&status=canceled").await.expect(204);
    admin.delete("/api/v1/retention/rules?definition_key=a&status=canceled").await.problem(404, "not-found");
    let forever = json!({"status": "dead_letter", "keep_seconds": null});
    let rule = admin.post("/api/v1/retention/rules", &forever).await.expect(200);
    assert_eq!((&rule["definition_key"], &rule["keep_seconds"]), (&json!("*"), &Value::Null));
    for (body, place) in [
        (json!({"status": "running", "keep_seconds": 1}), "/status"),
        (json!({"status": "failed"}), "/keep_seconds"),
        (json!({"status": "failed", "keep_seconds": -1}), "/keep_seconds"),
        (json!({"status": "failed", "keep_seconds": 9_999_999_999_u64}), "/keep_seconds"),
        (json!({"status": "event", "definition_key": "a", "keep_seconds": 1}), "/definition_key"),
        (json!({"status": "failed", "definition_key": "nothing", "keep_seconds": 1}), "/definition_key"),
        (json!({"status": "failed", "keep_seconds": 1, "colour": 1}), "/colour"),
    ] {
        let problem = admin.post("/api/v1/retention/rules", &body).await.problem(422, "invalid");
        assert_eq!(problem["errors"][0]["pointer"], place, "{body}: {problem}");
    }
    let trail = "select string_agg(action, ' ' order by id) from windlass.audit where action like 'retention.%' and outcome = 'done'";
    let trail: String = server.queue.client().await.query_one(trail, &[]).await.unwrap().get(0);
    assert_eq!(trail, "retention.set retention.clear retention.set");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_keeps_its_jobs_until_it_is_released() {
    let server = TestServer::start().await;
    server
        .queue
        .define(&Definition::new("a").retention(State::Canceled, std::time::Duration::ZERO))
        .await
        .unwrap();
    let tenant = server.queue.tenant("mine").await;
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let kept = canceled(&server, tenant, "a", 1).await;
    let hold = json!({"job_id": kept, "reason": "case 12"});
    let hold = admin.with("idempotency-key", "k").post("/api/v1/retention/holds", &hold).await.expect(201);
    assert_eq!((&hold["job_id"], &hold["reason"]), (&json!(kept), &json!("case 12")));
    let again = admin
        .with("idempotency-key", "k")
        .post("/api/v1/retention/holds", &json!({"job_id": kept, "reason": "case 12"}))
        .await;
    assert_eq!(again.expect(201), hold, "requested twice, placed once");
    prune(&server).await;
    let place = format!("/api/v1/jobs/{kept}");
    admin.get(&place).await.expect(200);
    let refused = admin.post("/api/v1/jobs/delete", &json!({"ids": [kept]})).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    assert_eq!(admin.get("/api/v1/retention/holds").await.expect(200)["holds"], json!([hold]));
    let hold_place = format!("/api/v1/retention/holds/{}", hold["id"].as_str().unwrap());
    assert_eq!(admin.delete(&hold_place).await.expect(200), hold);
    admin.delete(&hold_place).await.problem(404, "not-found");
    prune(&server).await;
    admin.get(&place).await.problem(404, "not-found");
    admin
        .post("/api/v1/retention/holds", &json!({"job_id": kept, "reason": "too late"}))
        .await
        .problem(404, "not-found");
    for (body, pointer) in [
        (json!({"job_id": kept, "subject_type": "user", "subject_id": "7", "reason": "r"}), "/job_id"),
        (json!({"subject_type": "user", "reason": "r"}), "/subject_id"),
        (json!({"subject_id": "7", "reason": "r"}), "/subject_type"),
        (json!({"reason": " "}), "/reason"),
        (json!({}), "/reason"),
    ] {
        let problem = admin.post("/api/v1/retention/holds", &body).await.problem(422, "invalid");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    assert_eq!(admin.get("/api/v1/retention/holds").await.expect(200)["holds"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_and_holds_are_managed_over_http_and_on_the_database() {
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("a")).await.unwrap();
    let tenant = server.queue.tenant("acme").await;
    let token = server.admin.token.clone().unwrap();
    let both = async |arguments: &[&str]| {
        let arguments = [arguments, &["--tenant", "acme"]].concat();
        let over_http =
            windlass(&arguments).args(["--server", &server.base]).env("WINDLASS_TOKEN", &token).output();
        let over_http = Ran::of(over_http.await.unwrap());
        let directly = windlass(&arguments).args(["--database-url", server.queue.url()]).output();
        [over_http, Ran::of(directly.await.unwrap())]
    };
    for set in both(&["retention", "set", "canceled", "7d", "--definition", "a"]).await {
        assert_eq!(set.expect(0).out.trim(), "canceled jobs of definition a: kept 7d");
    }
    for set in both(&["retention", "set", "event", "forever"]).await {
        assert_eq!(set.expect(0).out.trim(), "events of all definitions: kept forever");
    }
    assert!(
        both(&["retention", "set", "canceled", "soon"]).await.map(|ran| ran.expect(2))[0].err.contains("30d")
    );
    canceled(&server, tenant, "a", 8).await;
    prune(&server).await;
    for listed in both(&["retention", "list"]).await {
        let out = listed.expect(0).out;
        let line = out.lines().find(|line| line.starts_with("a ")).unwrap();
        let columns: Vec<&str> = line.split_whitespace().collect();
        assert!(line.contains("canceled") && line.contains("7d") && columns.ends_with(&["1", "0"]), "{out}");
        assert!(out.contains("forever"), "{out}");
    }
    let [cleared, missing] = both(&["retention", "clear", "canceled", "--definition", "a"]).await;
    cleared.expect(0);
    missing.expect(5);

    for placed in both(&["holds", "place", "--subject", "user:7", "--reason", "case 12"]).await {
        let id = placed.expect(0).out.trim().to_owned();
        for listed in both(&["holds", "list"]).await {
            let out = listed.expect(0).out;
            assert!(out.contains(&id) && out.contains("user:7") && out.contains("case 12"), "{out}");
        }
        let [released, missing] = both(&["holds", "release", &id]).await;
        released.expect(0);
        missing.expect(5);
    }
    let wrong = both(&["holds", "place", "--reason", "r"]).await.map(|ran| ran.expect(2));
    assert!(wrong[0].err.contains("--everything") && wrong[0].err.contains("--subject"), "{}", wrong[0].err);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_each_rule_with_its_progress_and_what_holds_jobs_back() {
    let server = TestServer::start().await;
    let day = std::time::Duration::from_secs(86_400);
    let tenant = server.queue.tenant("mine").await;
    let viewer = server.client(tenant, Role::Viewer).await;
    let page = async || viewer.get("/ui/retention").await.expect_text(200).to_owned();
    assert!(page().await.contains("No rules"));

    server.queue.define(&Definition::new("a").retention(State::Canceled, day)).await.unwrap();
    let admin = server.client(tenant, Role::TenantAdmin).await;
    let rule = json!({"definition_key": "a", "status": "canceled", "keep_seconds": 604_800});
    admin.post("/api/v1/retention/rules", &rule).await.expect(200);
    let forever = json!({"status": "dead_letter", "keep_seconds": null});
    admin.post("/api/v1/retention/rules", &forever).await.expect(200);
    canceled(&server, tenant, "a", 8).await;
    let held = canceled(&server, tenant, "a", 8).await;
    let hold = json!({"job_id": held, "reason": "case 12"});
    admin.with("idempotency-key", "k").post("/api/v1/retention/holds", &hold).await.expect(201);
    prune(&server).await;

    let shown = page().await;
    for text in
        ["Canceled", "7 d", "Up to date", "under legal hold", "Dead letter", "Forever", "All definitions"]
    {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let rows: Vec<&str> = shown.split("<tr id=\"rule-").skip(1).collect();
    let own = rows.iter().find(|row| row.contains("7 d")).unwrap();
    assert!(own.contains("data-name=\"deleted\">1<") && own.contains("data-name=\"due\">1<"), "{own}");
}
