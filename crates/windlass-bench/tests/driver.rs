//! The drivers through the real program: the output of each, on its own database. Their speed is not tested here.

#![expect(clippy::unwrap_used, reason = "a panic in a test is the report")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use windlass_testing::TestDatabase;

const PROGRAM: &str = env!("CARGO_BIN_EXE_windlass-bench");

#[tokio::test]
async fn info_touches_no_database() {
    let output = Command::new(PROGRAM).args(["driver", "info"]).env_remove("DATABASE_URL").output().unwrap();
    let lines = lines(&output);
    assert_eq!(lines.len(), 1);
    assert_eq!(fields(&lines[0]), ["name", "settings", "version"]);
    assert_eq!(lines[0]["name"], "windlass");
}

#[tokio::test]
async fn every_mode_prints_its_lines() {
    let database = empty_database().await;
    assert!(run(&database, "init").is_empty());
    assert!(run(&database, "init").is_empty(), "a second init has nothing to do");

    let bulk = run(&database, "bulk --n 250 --callers 2 --batch 100");
    assert_eq!(fields(&bulk[0]), ["mode", "n", "seconds"]);
    assert_eq!((&bulk[0]["mode"], &bulk[0]["n"]), (&"bulk".into(), &250.into()));

    let single = run(&database, "single --n 50 --callers 4");
    assert_eq!(fields(&single[0]), ["mode", "n", "seconds"]);
    assert_eq!((&single[0]["mode"], &single[0]["n"]), (&"single".into(), &50.into()));

    let drain = run(&database, "drain --n 300 --seconds 60");
    assert_eq!(fields(&drain[0]), ["left", "mode", "n", "seconds"]);
    assert_eq!((&drain[0]["n"], &drain[0]["left"]), (&300.into(), &0.into()));

    let steady = run(&database, "steady --seconds 2 --cap 200 --batch 20 --callers 2");
    assert_eq!(steady.len(), 3);
    for (line, second) in steady[..2].iter().zip(1..) {
        assert_eq!(fields(line), ["done", "mode", "rss_kb", "second"]);
        assert_eq!(line["second"], second);
    }
    assert_balanced(&steady[2]);
    // The jobs that a steady run leaves queued do not disturb the next mode.
    run(&database, &format!("drain --n {}", steady[2]["outstanding"]));

    let latency = run(&database, "latency --n 5");
    assert_eq!(fields(&latency[0]), ["from_ack_ms", "from_call_ms", "mode"]);
    for name in ["from_call_ms", "from_ack_ms"] {
        assert_eq!(latency[0][name].as_array().unwrap().len(), 5);
    }
}

#[tokio::test]
async fn sigterm_ends_a_steady_run_with_its_last_line() {
    let database = empty_database().await;
    run(&database, "init");
    let mut child = driver(&database, "steady --seconds 600").stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&output.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["second"], 1);
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let last = output.last().unwrap().unwrap();
    assert_balanced(&serde_json::from_str(&last).unwrap());
    assert!(child.wait().unwrap().success());
}

#[tokio::test]
async fn a_failure_is_printed_and_exits_nonzero() {
    let database = empty_database().await;
    let not_migrated = driver(&database, "bulk --n 1").output().unwrap();
    assert!(!not_migrated.status.success());
    assert!(String::from_utf8_lossy(&not_migrated.stderr).contains("windlass migrate"), "{not_migrated:?}");

    run(&database, "init");
    let too_few = driver(&database, "drain --n 3").output().unwrap();
    assert!(!too_few.status.success());
    assert!(String::from_utf8_lossy(&too_few.stderr).contains("0 jobs are queued, not 3"), "{too_few:?}");

    let unknown = driver(&database, "bulk --speed 9").output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("--speed"), "{unknown:?}");
}

/// With its own server and the `windlass` binary next to it. Checks only that it works and prints; it is too short for a measurement.
#[tokio::test]
async fn neighbour_prints_how_one_tenant_affects_another() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("neighbour.json");
    let output = Command::new(PROGRAM)
        .args(["neighbour", "--seconds", "1", "--turns", "1", "--callers", "6", "--json"])
        .arg(&file)
        .env_remove("DATABASE_URL")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("largest ratio") && text.contains("CPU usage"), "{text}");
    let figures: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let operations = figures["operations"].as_object().unwrap();
    let names: Vec<&str> = operations.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "enqueue",
            "http_enqueue",
            "http_job",
            "http_list",
            "http_live",
            "http_summary",
            "raw_select",
            "run",
            "search"
        ]
    );
    for (name, figures) in operations {
        assert_eq!(figures["ratios"].as_array().unwrap().len(), 1, "{name}");
        assert!(figures["ratio"].as_f64() > Some(0.0), "{name}");
    }
    assert_eq!(figures["refused"]["disturbed"], 0, "{figures}");
    assert!(figures["answers"].as_object().unwrap().len() >= 6, "each kind of disturbance: {figures}");
}

/// Every enqueued job was either handled or is still queued.
fn assert_balanced(last: &Value) {
    assert_eq!(fields(last), ["enqueued", "handled", "mode", "outstanding"]);
    let number = |name: &str| last[name].as_u64().unwrap();
    assert!(number("handled") > 0, "{last}");
    assert_eq!(number("enqueued"), number("handled") + number("outstanding"), "{last}");
}

async fn empty_database() -> TestDatabase {
    TestDatabase::create("empty", "", async |_| {}).await
}

fn driver(database: &TestDatabase, words: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("driver").args(words.split_whitespace()).env("DATABASE_URL", database.url());
    command
}

fn run(database: &TestDatabase, words: &str) -> Vec<Value> {
    lines(&driver(database, words).output().unwrap())
}

fn lines(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn fields(line: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}
