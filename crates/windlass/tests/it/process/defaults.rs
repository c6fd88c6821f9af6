//! The core tests again, on databases with hostile defaults: this program runs itself.

use tokio::process::Command;
use windlass_testing::{CONTENT, DEFAULTS, sample};

use crate::defaults::{HOSTILE_NAMES, HOSTILE_PATH};

const CORE: [&str; 8] =
    ["enqueue::", "claim::", "settle::", "order::", "unique::", "lease::", "keep::", "retention::"];

/// The minimum number of tests of a part of the core.
const FEWEST: usize = 5;

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

/// All of it takes long, so an ordinary run tests every default on a part of the core that a random seed selects, each on another part.
#[tokio::test]
async fn the_core_tests_pass_under_hostile_defaults() {
    for (number, (defaults, content)) in hostile().into_iter().enumerate() {
        let mut core = CORE.to_vec();
        core.rotate_left(number * 2);
        let tests = sample(core, 1);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(&tests).args(["--skip", "process::", "--test-threads", "2"]);
        let ran = command.env(DEFAULTS, &defaults).env(CONTENT, content).output().await.unwrap();
        let output = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{tests:?} under {defaults}: {output}");
        let passed = output.split("test result: ok. ").nth(1).and_then(|rest| rest.split(' ').next());
        let passed: usize = passed.and_then(|number| number.parse().ok()).unwrap_or_default();
        assert!(passed >= FEWEST * tests.len(), "only {passed} of {tests:?} ran: {output}");
    }
}
