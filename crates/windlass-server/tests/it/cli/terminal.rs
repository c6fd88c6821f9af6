//! Text of tenants on the terminal of an operator contains no escape sequence.

use std::process::Stdio;

use serde_json::{Value, json};
use windlass::admin::{Actor, Reach};
use windlass::{Definition, NewJob};
use windlass_server::auth::Role;

use super::{Ran, windlass};
use crate::support::TestServer;

/// Clears the screen, sets the title, overwrites the line; and the same with C1, and text from right to left.
const HOSTILE: &str = "x\x1b[2J\x1b]0;owned\x07\ry\u{9b}31m\x7f\u{8}\u{202e}z";

fn is_raw(c: char) -> bool {
    c != '\n' && (c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c))
}

/// Fills every field that accepts any text. Returns the ids of the jobs.
async fn fill(server: &TestServer) -> Vec<String> {
    let admin = &server.admin;
    server.queue.define(&Definition::new("work").description(HOSTILE)).await.unwrap();
    admin.post("/api/v1/admin/tenants", &json!({"name": HOSTILE, "slug": "hostile"})).await.expect(201);
    let operator = server.client(windlass::DEFAULT_TENANT, Role::TenantAdmin).await;
    let token = json!({"name": HOSTILE, "role": "viewer"});
    operator.post("/api/v1/admin/tokens", &token).await.expect(201);
    let hold = json!({"reason": HOSTILE, "subject_type": HOSTILE, "subject_id": HOSTILE});
    operator.post("/api/v1/retention/holds", &hold).await.expect(201);
    let job = |key: &str| {
        NewJob::new("work")
            .payload(&json!({HOSTILE: [HOSTILE]}))
            .subject(HOSTILE, HOSTILE)
            .tag(HOSTILE)
            .correlation_id(HOSTILE)
            .dedupe_key(format!("{HOSTILE}{key}"))
    };
    let worker = server.client(windlass::DEFAULT_TENANT, Role::Worker).await;
    let about =
        json!({"worker_id": "w", "hostname": HOSTILE, "version": HOSTILE, "metadata": {"kind": HOSTILE}});
    worker.post("/api/v1/worker/register", &about).await.expect(200);
    let mut ids = Vec::new();
    for (number, verb) in ["fail", "complete", "heartbeat"].into_iter().enumerate() {
        ids.push(server.queue.enqueue(&job(&number.to_string())).await.unwrap().id.to_string());
        let claim = json!({"definition_keys": ["work"], "wait_seconds": 30, "worker_id": "w"});
        let claimed = worker.post("/api/v1/worker/jobs/claim", &claim).await.expect(200)["jobs"][0].clone();
        let path = |verb: &str| format!("/api/v1/worker/jobs/{}/{verb}", claimed["id"].as_str().unwrap());
        let progress = json!({"percent": 40, "message": HOSTILE});
        let beat = json!({"fence": claimed["fence"], "progress": progress, "log": [HOSTILE]});
        worker.post(&path("heartbeat"), &beat).await.expect(200);
        let mut end = json!({"fence": claimed["fence"]});
        match verb {
            "fail" => {
                end["error"] = json!(HOSTILE);
                end["retryable"] = json!(false);
            }
            "complete" => {
                end["result"] = json!({HOSTILE: HOSTILE});
                end["artifact"] = json!(HOSTILE);
            }
            _ => continue,
        }
        worker.post(&path(verb), &end).await.expect(200);
    }
    let actor = Actor::new(HOSTILE);
    let acting = server.queue.act(Reach::Everything, &actor).await.unwrap();
    acting.set_paused("default", true).await.unwrap();
    acting.commit().await.unwrap();
    ids
}

///
#[tokio::test(flavor = "multi_thread")]
async fn no_command_prints_a_control_character_of_a_tenant() {
    let server = TestServer::start().await;
    let ids = fill(&server).await;
    let (failed, complete, running) = (&*ids[0], &*ids[1], &*ids[2]);
    let ask = |arguments: Vec<&str>| {
        let mut command = windlass(&arguments);
        command
            .env("WINDLASS_SERVER", &server.base)
            .env("WINDLASS_TOKEN", server.admin.token.as_deref().unwrap())
            .stdout(Stdio::piped());
        command
    };
    let mut shown = 0;
    for arguments in [
        vec!["jobs", "list"],
        vec!["jobs", "list", "--tag", HOSTILE],
        vec!["jobs", "show", failed],
        vec!["jobs", "show", complete],
        vec!["jobs", "show", running],
        vec!["jobs", "tail", failed],
        vec!["jobs", "tail", complete],
        vec!["jobs", "wait", failed],
        vec!["jobs", "wait", complete],
        vec!["jobs", "wait", running, "--timeout", "1s"],
        vec!["jobs", "cancel", failed],
        vec!["jobs", "enqueue", "nothing\x1b[2J"],
        vec!["jobs", "enqueue", "work", "--dedupe-key", HOSTILE],
        vec!["summary"],
        vec!["summary", "--all"],
        vec!["top", "--once"],
        vec!["top", "--once", "--tenant", "default"],
        vec!["definitions", "list"],
        vec!["tenants", "list"],
        vec!["tokens", "list", "--tenant", "default"],
        vec!["queues", "list"],
        vec!["workers", "list"],
        vec!["retention", "list"],
        vec!["holds", "list"],
        vec!["audit", "list"],
        vec!["audit", "list", "--tenant", "default"],
    ] {
        let is_following = arguments.starts_with(&["jobs", "tail"]);
        for is_json in [false, true] {
            let mut arguments = arguments.clone();
            arguments.extend(is_json.then_some("--json"));
            let ran = Ran::of(ask(arguments.clone()).output().await.unwrap());
            for text in [&ran.out, &ran.err] {
                assert!(!text.contains(is_raw), "{arguments:?}: {text:?}");
            }
            if is_json && !is_following && ran.code == 0 {
                shown += usize::from(ran.json().to_string().contains("owned"));
            } else {
                shown += usize::from(ran.out.contains("owned"));
            }
        }
    }
    // The text itself is still there.
    assert!(shown > 20, "{shown}");
    let list = Ran::of(ask(vec!["jobs", "list", "--json"]).output().await.unwrap()).json();
    let tags = list["jobs"].as_array().unwrap().iter().map(|job| job["tags"].clone());
    assert!(tags.collect::<Vec<Value>>().contains(&json!([HOSTILE])), "JSON has the same values: {list}");
}
