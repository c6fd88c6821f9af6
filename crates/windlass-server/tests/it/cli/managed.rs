//! Triggers and tenants, as an administrator manages them from the command line.

use serde_json::json;
use uuid::Uuid;

use super::verbs::Shop;

#[tokio::test(flavor = "multi_thread")]
async fn triggers_are_shown_run_and_paused_by_id_or_label() {
    let shop = Shop::open().await;
    assert!(shop.run(&["triggers", "list"]).await.expect(0).err.contains("no triggers"));
    let schedule = json!({"label": "nightly", "trigger_type": "schedule", "cron_expr": "0 2 * * *", "timezone": "UTC",
        "definition_key": "work", "payload_template": {"n": 1}});
    let id = shop.server.admin.post("/api/v1/jobs/triggers", &schedule).await.expect(201)["id"].clone();
    let id = id.as_str().unwrap();
    let event = json!({"label": "on upload", "trigger_type": "event", "event_name": "file.uploaded",
        "definition_key": "work", "payload_template": {"file": "{{event.file}}"}});
    shop.server.admin.post("/api/v1/jobs/triggers", &event).await.expect(201);
    let listed = shop.run(&["triggers", "list"]).await.expect(0).out;
    assert!(listed.contains("nightly") && listed.contains("file.uploaded"), "{listed}");

    let ran = shop.run(&["triggers", "run", "nightly"]).await.expect(0);
    assert!(ran.out.trim().parse::<Uuid>().is_ok(), "{}", ran.out);
    let shown = shop.run(&["triggers", "show", id]).await.expect(0).out;
    assert!(shown.contains("0 2 * * *") || shown.contains("02:00"), "{shown}");
    assert!(shown.contains(ran.out.trim()) && shown.contains("fired"), "{shown}");
    let simulated =
        shop.run(&["triggers", "run", "on upload", "--event", r#"{"file": "a"}"#, "--json"]).await;
    assert_eq!(simulated.expect(0).json()["outcome"], "fired");
    let runs = shop.run(&["triggers", "preview", "nightly", "--count", "3", "--json"]).await.expect(0).json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 3);
    assert!(shop.run(&["triggers", "preview", "nightly"]).await.expect(0).out.contains("T02:00:00"));

    assert_eq!(shop.run(&["triggers", "pause", "nightly"]).await.expect(0).out, "nightly: paused\n");
    assert_eq!(
        shop.run(&["triggers", "show", "nightly", "--json"]).await.expect(0).json()["is_enabled"],
        false
    );
    assert_eq!(shop.run(&["triggers", "resume", id]).await.expect(0).out, "nightly: resumed\n");
    shop.run(&["triggers", "show", "nobody"]).await.expect(5);
    shop.run(&["triggers", "show", &Uuid::new_v4().to_string()]).await.expect(5);
    shop.run(&["triggers", "run", "nightly", "--event", "{"]).await.expect(2);
    shop.server.admin.post("/api/v1/jobs/triggers", &schedule).await.expect(201);
    assert!(shop.run(&["triggers", "pause", "nightly"]).await.expect(2).err.contains("by its id"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_the_id_that_was_chosen() {
    let shop = Shop::open().await;
    let id = Uuid::new_v4().to_string();
    let made = shop.run(&["tenants", "create", "acme", "--id", &id]).await.expect(0);
    assert_eq!(made.out.trim(), id);
    let again = json!({"slug": "other", "name": "Other", "id": id});
    shop.server.admin.post("/api/v1/admin/tenants", &again).await.problem(422, "invalid");
    let nil = json!({"slug": "other", "name": "Other", "id": Uuid::nil()});
    shop.server.admin.post("/api/v1/admin/tenants", &nil).await.problem(422, "invalid");
    shop.run(&["tenants", "create", "other", "--id", "x"]).await.expect(2);
}
