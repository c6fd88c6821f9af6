//! The programs of `examples/` run, and print the expected output.

use std::process::Stdio;

use tokio::process::Command;
use windlass_testing::TestQueue;

/// Each program with the lines that it must print, in this order.
const EXAMPLES: [(&str, &[&str]); 10] = [
    ("transactional_enqueue", &["rolled back image 1", "committed image 2", "resized image 2"]),
    (
        "retries",
        &[
            "attempt 1: failed connection reset",
            "attempt 2: failed connection reset",
            "attempt 3: succeeded ",
        ],
    ),
    ("schedules", &["the next 3 instants are Mondays at 06:00", "outcome: fired", "reported 7 days"]),
    ("unique_jobs", &["by payload: duplicate true, same job true", "by key: duplicate true, same job true"]),
    ("chained_jobs", &["transcribed call 1", "3 jobs ended"]),
    ("progress_and_cancel", &["cancel: Requested", "the job is canceled at 25 %"]),
    ("batch_handler", &["99 succeeded, 1 failed", "fewer calls than jobs: true"]),
    ("shared_state", &["2 runs"]),
    (
        "graceful_shutdown",
        &["stopping", "uploaded", "the running job is succeeded", "the waiting job is queued"],
    ),
    (
        "testing_a_handler",
        &[
            "without money the job is failed",
            "the second attempt succeeded and enqueues 1 job",
            "after the first attempt the job is scheduled",
            "an hour later it is succeeded",
        ],
    ),
];

#[tokio::test]
async fn every_example_runs_and_prints_the_expected_output() {
    let test_program = std::env::current_exe().unwrap();
    let programs = test_program.parent().unwrap().with_file_name("examples");
    for (name, expected) in EXAMPLES {
        let queue = TestQueue::create().await;
        let mut command = Command::new(programs.join(name));
        command.env("DATABASE_URL", queue.url()).stdin(Stdio::null()).kill_on_drop(true);
        let output = command.output().await.unwrap_or_else(|error| {
            panic!("{name}: {error}; run the whole package's tests once to build the examples")
        });
        let (printed, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{name}: {}\n{printed}{errors}", output.status);
        let mut lines = printed.lines();
        for line in expected {
            assert!(
                lines.any(|printed| printed == *line),
                "{name} did not print {line:?}:\n{printed}{errors}"
            );
        }
    }
}

#[test]
fn every_example_of_the_package_is_run() {
    let manifest = include_str!("../../../Cargo.toml");
    let listed = manifest.split("[[example]]").skip(1).filter(|entry| entry.contains("path = \"examples/"));
    let listed: Vec<&str> = listed.map(|entry| entry.split('"').nth(1).unwrap()).collect();
    assert_eq!(listed, EXAMPLES.map(|(name, _)| name));
}
