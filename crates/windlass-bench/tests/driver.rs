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

    assert!(steady[1]["done"].as_u64() > steady[0]["done"].as_u64(), "cumulative: {steady:?}");

    let latency = run(&database, "latency --n 5 --callers 3");
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

/// Every system with tiny counts, on a server of its own. PGMQ needs only cargo, so it must be measured; the others need Node and its
/// packages, and without them the reason is in the output and in the file.
#[tokio::test]
async fn peers_measures_each_system_or_says_why_not() {
    let (text, figures) = compare("peers", "peers --rounds 1 --n 300 --seconds 1");
    for name in ["windlass", "pgmq-delete", "pgmq-archive", "graphile-worker", "pg-boss"] {
        if let Some(why) = figures["not_installed"][name].as_str() {
            assert!(!name.starts_with("pgmq") && name != "windlass", "{name}: {why}");
            assert!(text.contains(&format!("{name} is not measured")) && !why.is_empty(), "{text}");
            continue;
        }
        for measure in ["bulk", "drain", "single", "steady"] {
            // The two modes of PGMQ differ only in how a message ends.
            if name == "pgmq-archive" && measure == "single" {
                continue;
            }
            let rate = &figures["rates"][measure][name];
            assert!(rate["per_second"].as_f64() > Some(0.0), "{name} {measure}: {figures}");
        }
        let is_timed = figures["latency"][name]["jobs"] == 5;
        assert_eq!(is_timed, name != "pgmq-archive", "{name}: {figures}");
    }
    assert!(figures["rates"]["bulk"]["raw"]["server_us"].as_f64().is_some(), "{figures}");
    let targets = figures["targets"].as_array().unwrap();
    assert!(
        targets.iter().any(|target| target["target"] == "drain: at least 1.5 of pgmq-delete"),
        "{targets:?}"
    );
    assert_eq!(
        text.matches("by CPU per job").count(),
        targets.iter().filter(|one| !one["is_met_by_cpu"].is_null()).count()
    );
}

#[tokio::test]
async fn scale_measures_each_step_and_what_limits_it() {
    let words = "scale --n 600 --workers 1,2 --connections 2,4";
    let (text, figures) = compare("scale", words);
    let steps = figures["steps"].as_array().unwrap();
    let of = |what: &str| steps.iter().filter(|step| step["what"] == what).count();
    // Two numbers each, and six settings for a drain and for single enqueues.
    assert_eq!([of("drain"), of("single"), of("bulk")], [8, 8, 2], "{text}");
    for step in steps {
        assert!(step["per_second"].as_f64() > Some(0.0), "{step}");
        assert!(
            ["WAL", "locks", "processors", "clients"].contains(&step["limited_by"].as_str().unwrap()),
            "{step}"
        );
    }
}

#[tokio::test]
async fn cliffs_runs_each_case_beside_a_plain_drain() {
    let (text, figures) = compare("cliffs", "cliffs --divisor 1000");
    let cases = figures["cases"].as_array().unwrap();
    let jobs: Vec<_> =
        cases.iter().map(|case| (case["case"].as_str().unwrap(), case["jobs"].as_u64().unwrap())).collect();
    let expected = [
        ("tenants", 10),
        ("limits", 100),
        ("blocked", 200),
        ("unblocked", 1001),
        ("due", 1000),
        ("fan-out", 11),
    ];
    assert_eq!(jobs[..6], expected);
    assert_eq!((jobs.len(), jobs[6].0), (7, "fair"));
    for case in cases {
        assert!(case["times_plain"].as_f64() > Some(0.0), "{case}");
        assert!(case["claim_p99_ms"].as_f64() > Some(0.0), "{case}");
        assert_eq!(case["targets"].as_array().unwrap().len(), if case["case"] == "fair" { 4 } else { 2 });
    }
    assert_eq!(text.matches("claims p99 at most 50 ms").count(), 7, "{text}");
}

mod process {
    use super::{Command, PROGRAM, Value};

    /// The soak in two minutes, with a fixed seed: every kind of fault was injected, every kind of job ran, and nothing was lost, doubled
    /// or left. A violation prints its trace, and the command that repeats it.
    #[test]
    fn a_short_soak_injects_every_fault_and_finds_no_violation() {
        let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("soak.json");
        let words = ["soak", "--minutes", "1.4", "--seed", "20261119", "--jobs", "3500", "--json"];
        let output = Command::new(PROGRAM).args(words).arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        let figures: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let faults = figures["faults"].as_object().unwrap();
        assert!(faults.len() >= 35, "{figures}");
        // Only root can mount the file system that is filled.
        let is_root = rustix::process::geteuid().is_root();
        for (kind, count) in faults.iter().filter(|(kind, _)| is_root || *kind != "fill_disk") {
            assert!(count.as_u64() > Some(0), "{kind} was not injected\n{text}");
        }
        let violations = figures["violations"].as_object().unwrap();
        assert!(violations.len() >= 28 && violations.values().all(|count| count == 0), "{figures}");
        assert!(figures["jobs"].as_u64() > Some(500), "{figures}");
        for name in ["recovery_p50_s", "recovery_p99_s", "recovery_max_s"] {
            assert!(figures[name].as_f64() > Some(0.0), "{name}: {figures}");
        }
        assert!(figures["commit"].is_string() && figures["seed"] == 20_261_119, "{figures}");
    }
}

/// Runs a comparison on a server of its own, and returns what it printed and its file.
fn compare(name: &str, words: &str) -> (String, Value) {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let file = directory.join("figures.json");
    std::fs::create_dir_all(&directory).unwrap();
    let output = Command::new(PROGRAM)
        .args(words.split_whitespace())
        .arg("--json")
        .arg(&file)
        .env_remove("DATABASE_URL")
        .env("CARGO_TARGET_DIR", &directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    (text, serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap())
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
