//! `windlass up --example NAME`: loads the example, runs it, and leaves nothing running.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio_postgres::NoTls;
use uuid::Uuid;
use windlass_testing::{eventually, migrated};

use crate::cli::{Ran, run, windlass};

/// The steps of a reader of its README: starts it, waits until it has worked (a query returns true), tries the next steps of the
/// page, and stops it.
async fn up_until(example: &str, done: &str) {
    let database = migrated().await;
    let folder: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().simple().to_string());
    fs::create_dir_all(&folder).unwrap();
    let words = folder.join("words");
    let data = folder.join("data");
    let mut up = windlass(&["up", "--example", example, "--listen", "127.0.0.1:0"])
        .args(["--data-dir", data.to_str().unwrap(), "--database-url", database.url()])
        .stdout(Stdio::piped())
        .stderr(fs::File::create(&words).unwrap())
        .spawn()
        .unwrap();
    let ready = BufReader::new(up.stdout.take().unwrap()).lines().next_line().await.unwrap();
    assert!(ready.is_some_and(|line| line.starts_with("ready: ")), "{}", fs::read_to_string(&words).unwrap());
    let (client, connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    eventually(&format!("{example} has done its work; output:\n{}", words.display()), async || {
        // Its tables are created shortly after the server starts.
        client.query_one(done, &[]).await.is_ok_and(|row| row.get::<_, Option<bool>>(0).unwrap_or(false))
    })
    .await;
    let readme = crate::documents::blocks(&format!("examples/{example}/README.md"));
    let (first, rest) = readme.split_first().expect("a README describes how it is started");
    assert_eq!(first.text, format!("windlass up --example {example}"));
    for block in rest {
        let shell =
            Command::new("sh").args(["-euc", &block.text]).current_dir(super::folder(example)).output().await;
        let shell = shell.unwrap();
        assert!(shell.status.success(), "{}\n{shell:?}", block.text);
    }
    let id = Pid::from_raw(i32::try_from(up.id().unwrap()).unwrap()).unwrap();
    kill_process(id, Signal::INT).unwrap();
    let code = up.wait().await.unwrap().code();
    assert_eq!(code, Some(0), "{}", fs::read_to_string(&words).unwrap());
    let folder_name = data.join("examples").join(example);
    let left: Vec<PathBuf> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.unwrap().path().join("cwd")).ok())
        .filter(|cwd| *cwd == folder_name)
        .collect();
    assert!(left.is_empty(), "a program of the example still runs");
    fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn up_runs_the_example_ai_tagging() {
    up_until("ai-tagging", "select count(*) = 12 from workspace_threads_posts where ai_tags is not null")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn up_runs_the_example_tts() {
    let done = "select count(*) = 1 from windlass.jobs where status = 'succeeded' and artifact is not null";
    up_until("tts", done).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn up_runs_the_example_clipnest() {
    let done =
        "select count(*) = 1 from clipnest_videos where processing_status = 'done' and summary is not null";
    up_until("clipnest", done).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn up_runs_the_example_call_transcription() {
    up_until("call-transcription", "select count(*) = 3 from call_artifacts").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn up_runs_the_example_zoltag() {
    let done = "select count(distinct j.definition_key) = 4 and count(distinct t.slug) = 2 and max(j.attempt_count) = 2
        from windlass.jobs j join windlass.tenants t on t.id = j.tenant_id where j.status = 'succeeded'";
    up_until("zoltag", done).await;
}

#[tokio::test]
async fn an_example_reports_a_missing_program_before_it_starts() {
    for (example, program, package) in [
        ("call-transcription", "node", "nodejs"),
        ("tts", "espeak-ng", "espeak-ng"),
        ("clipnest", "psql", "postgresql-client"),
    ] {
        let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().simple().to_string());
        let up = windlass(&["up", "--example", example, "--data-dir", data.to_str().unwrap()])
            .env("PATH", "/nowhere")
            .output()
            .await
            .unwrap();
        let ran = Ran::of(up).expect(2);
        assert!(ran.err.contains(program) && ran.err.contains(&format!(" {package}")), "{}", ran.err);
        assert!(!data.exists(), "nothing was started");
    }
}

#[tokio::test]
async fn an_unknown_example_is_rejected_with_a_list() {
    let ran = run(&["up", "--example", "nothing"]).await.expect(2);
    assert!(ran.err.contains(&crate::examples::NAMES.join(", ")), "{}", ran.err);
}
