//! `docs/commands.md`: its file is a valid worker file, and its reports are parsed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use uuid::Uuid;
use windlass::job::{Filter, State};
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_testing::eventually;

use super::{Desk, blocks};
use crate::cli::windlass;
use crate::support::TestServer;

fn program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_commands_file_and_reports_work() {
    let blocks = blocks("docs/commands.md");
    let [file, shell, python] = blocks.as_slice() else { panic!("{} blocks", blocks.len()) };
    assert_eq!([&file.language, &shell.language, &python.language], ["toml", "sh", "python"]);
    let server = TestServer::start().await;
    server.queue.define(&Definition::new("send-email")).await.unwrap();
    let desk = Desk::new(&server.base);
    let folder = &desk.folder;
    program(&folder.join("zoltag"), "#!/bin/sh\nfor word; do echo \"[$word]\"; done\nenv\n");
    program(&folder.join("report-sh"), &format!("#!/bin/sh\nset -eu\n{}\n", shell.text));
    program(&folder.join("report-python"), &format!("#!/usr/bin/env python3\n{}\n", python.text));
    fs::write(folder.join("token"), "sl.ABCDEFGHIJKLMNOPQRSTUVWXYZ\n").unwrap();

    // The page describes another machine: replace the path, the user and the token.
    let mut text = file.text.clone();
    for (theirs, ours) in [
        ("\"/usr/bin/zoltag\"", "\"./zoltag\"".to_owned()),
        ("\"/etc/windlass/dropbox-token\"", format!("{:?}", folder.join("token"))),
        ("user = \"zoltag\"\n", String::new()),
    ] {
        assert!(text.contains(theirs), "{theirs} is not in\n{text}");
        text = text.replace(theirs, &ours);
    }
    for name in ["report-sh", "report-python"] {
        text += &format!(
            "\n\n[commands.{name}]\nargv = [\"./{name}\"]\nset = {{ PATH = \"/usr/bin:/bin\" }}\nreport = true\n"
        );
    }
    let path = folder.join("worker.toml");
    fs::write(&path, text).unwrap();
    let mut worker = windlass(&["worker", "--config", path.to_str().unwrap()])
        .args(["--database-url", server.queue.url()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let ready = BufReader::new(worker.stdout.take().unwrap()).lines().next_line().await.unwrap();
    assert!(ready.is_some_and(|line| line.starts_with("ready: ")));

    let enqueue = async |key: &str, payload: Value| {
        server.queue.enqueue(&NewJob::new(key).payload(&payload)).await.unwrap().id
    };
    let job = async |id: Uuid| server.queue.job(DEFAULT_TENANT, id).await.unwrap().unwrap();
    let until = async |id: Uuid| {
        eventually("it has succeeded", async || job(id).await.status == State::Succeeded).await;
    };
    let sync = enqueue("sync-dropbox", json!({"provider_id": "p1", "tags": ["a", "b"]})).await;
    until(sync).await;
    let attempts = server.queue.attempts(DEFAULT_TENANT, sync).await.unwrap();
    let output = attempts[0].stdout_tail.clone().unwrap();
    let tenant = format!(
        "[sync-dropbox]\n[--tenant-id]\n[{DEFAULT_TENANT}]\n[--provider-id=p1]\n[--tag=a]\n[--tag=b]\n"
    );
    assert!(output.starts_with(&tenant), "{output}");
    assert!(output.contains(&format!("JOB_ID={sync}")) && !output.contains("ABCDEFGHIJ"), "{output}");

    for name in ["report-sh", "report-python"] {
        let id = enqueue(name, json!({})).await;
        until(id).await;
        let job = job(id).await;
        assert_eq!(job.result, Some(json!({"files": 12})), "{name}");
        assert_eq!(job.artifact, Some(json!("s3://bucket/report.pdf")), "{name}");
        let next = server.queue.list(&Filter::new(DEFAULT_TENANT).limit(10)).await.unwrap().jobs;
        let next = next.iter().find(|job| job.parent_id == Some(id)).expect("the next job");
        assert_eq!(next.payload, json!({"to": "zoe@example.com"}), "{name}");
    }
    worker.kill().await.unwrap();
}
