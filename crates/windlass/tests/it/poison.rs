//! One bad row among good ones, for every duty of the keeper: the good ones are processed, and the bad one is shown with its reason.
//!
//! The entry points reject such rows, so they are written here by the superuser. A row may also be older than a rule, or of
//! another release.

mod entry_points;
mod fixed;
mod jobs;
mod rows;

use windlass::keeper::Duty;
use windlass::setup::Severity;
use windlass_testing::{TestQueue, settings};

/// A duty without a case panics here: add one.
#[tokio::test(flavor = "multi_thread")]
async fn no_bad_row_stops_a_duty_of_the_keeper() {
    for duty in Duty::ALL {
        let queue = TestQueue::create_apart().await;
        match duty {
            Duty::Promote => jobs::promote(&queue).await,
            Duty::Reap => jobs::reap(&queue).await,
            Duty::Expire => jobs::expire(&queue).await,
            Duty::Unblock => jobs::unblock(&queue).await,
            Duty::Schedule => rows::schedule(&queue).await,
            Duty::Dispatch => rows::dispatch(&queue).await,
            Duty::Fold => rows::fold(&queue).await,
            Duty::Prune => rows::prune(&queue).await,
            Duty::Retire => rows::retire_partition().await,
            Duty::Seal => rows::seal(&queue).await,
            Duty::PurgeTenants => rows::purge_tenants(&queue).await,
            Duty::Partition => rows::partition(&queue).await,
            Duty::Sample => rows::sample(&queue).await,
            _ => panic!("{duty:?} has no case"),
        }
    }
}

/// The skipped rows in the doctor's report.
async fn set_aside(queue: &TestQueue) -> Vec<String> {
    let findings = windlass::setup::examine(&settings(queue.url())).await.unwrap();
    let found =
        findings.into_iter().filter(|one| one.check == "skipped rows" && one.severity == Severity::Warning);
    found.map(|one| one.found).collect()
}

/// The doctor names the subject, with words of the reason.
pub(crate) async fn assert_shown(queue: &TestQueue, subject: &str, reason: &str) {
    let shown = set_aside(queue).await;
    let is_shown = shown.iter().any(|found| found.contains(subject) && found.contains(reason));
    assert!(is_shown, "{subject} ({reason}) is not shown: {shown:#?}");
}
