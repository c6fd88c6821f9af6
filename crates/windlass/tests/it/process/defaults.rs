//! The core tests again, on databases with hostile defaults: this program runs itself.

use tokio::process::Command;
use windlass_testing::{CONTENT, DEFAULTS, sample};

use crate::defaults::{HOSTILE_NAMES, HOSTILE_PATH};

const CORE: [&str; 8] =
    ["enqueue::", "claim::", "settle::", "order::", "unique::", "lease::", "keep::", "retention::"];

/// The minimum number of tests of the core.
const FEWEST: usize = 150;

/// How many of them run with each kind of defaults.
const SAMPLED: usize = 5;

/// The possible defaults of a database. `row_security = off` is not among them: nothing works there, which
/// `a_database_without_row_security_is_rejected_with_its_reason` checks.
fn hostile() -> [(String, &'static str); 4] {
    let (name, path) = HOSTILE_PATH;
    let forms_of_values = "timezone = 'America/New_York'; datestyle = 'German, DMY'; intervalstyle = sql_standard; \
        bytea_output = escape; default_transaction_isolation = 'repeatable read'";
    let isolation = "default_transaction_isolation = serializable; default_transaction_deferrable = on; \
        synchronous_commit = off";
    let timeouts =
        "statement_timeout = '5s'; lock_timeout = '2s'; idle_in_transaction_session_timeout = '5s'";
    [
        (forms_of_values.to_owned(), ""),
        (isolation.to_owned(), ""),
        (timeouts.to_owned(), ""),
        (format!("{name} = {path}"), HOSTILE_NAMES),
    ]
}

/// All of it takes long, so an ordinary run tests each kind of defaults with some tests of the core that a random seed selects, each
/// with others.
#[tokio::test]
async fn the_core_tests_pass_under_hostile_defaults() {
    let core = core().await;
    assert!(core.len() >= FEWEST, "only {core:?}");
    for (number, (defaults, content)) in hostile().into_iter().enumerate() {
        let mut core = core.clone();
        core.rotate_left(number * SAMPLED);
        let tests = sample(core, SAMPLED);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("--exact").args(&tests).args(["--test-threads", "2"]);
        let ran = command.env(DEFAULTS, &defaults).env(CONTENT, content).output().await.unwrap();
        let output = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{tests:?} under {defaults}: {output}");
        let passed = format!("test result: ok. {} passed; 0 failed; 0 ignored;", tests.len());
        assert!(output.contains(&passed), "not all of {tests:?} ran: {output}");
    }
}

/// The names of the tests of the core, as this program lists them.
async fn core() -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let listed = command.args(["--list", "--format", "terse"]).output().await.unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .filter(|name| !name.starts_with("process::"));
    names.filter(|name| CORE.iter().any(|part| name.contains(part))).map(str::to_owned).collect()
}
