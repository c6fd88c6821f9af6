//! The tests of the core once more, on databases whose defaults are hostile: this program runs itself.

use tokio::process::Command;
use windlass_testing::{DEFAULTS, is_full};

const CORE: [&str; 8] =
    ["enqueue::", "claim::", "settle::", "order::", "unique::", "lease::", "keep::", "retention::"];

/// Of the last kind it takes a while, so an ordinary run tries the first one on a part of the tests.
const HOSTILE: [&str; 3] = [
    "timezone = 'America/New_York'; datestyle = 'German, DMY'; intervalstyle = sql_standard; bytea_output = escape; \
     default_transaction_isolation = 'repeatable read'",
    "default_transaction_isolation = serializable; default_transaction_deferrable = on; synchronous_commit = off",
    "statement_timeout = '5s'; lock_timeout = '2s'; idle_in_transaction_session_timeout = '5s'",
];

#[tokio::test]
async fn the_tests_of_the_core_pass_under_hostile_defaults() {
    let (tests, defaults) = if is_full() { (&CORE[..], &HOSTILE[..]) } else { (&CORE[1..3], &HOSTILE[..1]) };
    for hostile in defaults {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(tests).args(["--skip", "process::", "--test-threads", "2"]).env(DEFAULTS, hostile);
        let ran = command.output().await.unwrap();
        let told = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "under {hostile}: {told}");
        let passed = told.split("test result: ok. ").nth(1).and_then(|rest| rest.split(' ').next());
        let passed: usize = passed.and_then(|number| number.parse().ok()).unwrap_or_default();
        assert!(passed >= 10 * tests.len(), "only {passed} ran: {told}");
    }
}
