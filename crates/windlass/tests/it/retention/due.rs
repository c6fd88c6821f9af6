//! What the progress of a rule shows: how many jobs are due, why they still exist, and how far the rule is behind.

use windlass::admin::Reach;
use windlass::job::State;
use windlass::retention::HoldOn;
use windlass::setup::{Severity, examine};
use windlass::{DEFAULT_TENANT, Definition};
use windlass_testing::{TestQueue, settings};

use super::{DAY, ended, progress, prune, retire};
use crate::plans::watch::Watch;
use crate::support::Hand;

/// How many jobs are due by the rule for jobs of `held` that succeeded, what holds them back, and how far it is behind.
async fn due(queue: &TestQueue, reach: Reach) -> (i64, Vec<String>, Option<i64>) {
    let reading = queue.read(reach).await.unwrap();
    let shown = reading.retention_progress().await.unwrap();
    reading.end().await.unwrap();
    let is_it = |status: &str, key: &str| status == "succeeded" && key == "held";
    let rule = shown.into_iter().find(|rule| is_it(&rule.status, &rule.definition_key)).unwrap();
    assert!(!rule.is_due_partial, "{rule:?}");
    (rule.due, rule.held_back, rule.behind_seconds)
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_shows_how_many_jobs_are_due_and_what_holds_them_back() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held").retention(State::Succeeded, DAY)).await.unwrap();
    ended(&hand, "'held'", None, 3).await;
    let held = ended(&hand, "'held'", None, 4).await;
    ended(&hand, "'held'", None, 0).await;
    queue.hold(DEFAULT_TENANT, &HoldOn::Job(held), "case 12", "counsel").await.unwrap();
    let (jobs, reasons, behind) = due(&queue, Reach::Everything).await;
    assert_eq!((jobs, &reasons[..]), (2, &["1 are under legal hold".to_owned()][..]));
    assert!((172_800..173_100).contains(&behind.unwrap()), "{behind:?}: of the job that nothing holds back");

    let other = queue.tenant("other").await;
    assert_eq!(due(&queue, Reach::Tenant(other)).await.0, 0, "jobs of others");
    prune(&queue).await;
    let (jobs, reasons, behind) = due(&queue, Reach::Everything).await;
    assert_eq!((jobs, reasons.len(), behind), (1, 1, Some(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_shows_jobs_that_wait_for_their_partition() {
    let (queue, hand) = retire::aged().await;
    ended(&hand, "'held'", None, 3).await;
    let (jobs, reasons, _) = due(&queue, Reach::Everything).await;
    assert_eq!(
        (jobs, &reasons[..]),
        (1, &["1 wait until their partition is past as a whole".to_owned()][..])
    );
}

/// The problem can contain values of another tenant, whose rows a step could not copy.
#[tokio::test(flavor = "multi_thread")]
async fn progress_shows_a_replacement_and_only_to_operators_its_problem() {
    let (queue, hand) = retire::aged().await;
    retire::end_old(&hand, "", None).await;
    retire::until_step(&hand.client, "copied").await;
    hand.client.execute("update windlass.retiring set problem = 'of another'", &[]).await.unwrap();
    let (jobs, reasons, _) = due(&queue, Reach::Everything).await;
    assert!(jobs == 1 && reasons[0].ends_with("is being replaced: of another"), "{reasons:?}");
    let (jobs, reasons, _) = due(&queue, Reach::Tenant(DEFAULT_TENANT)).await;
    assert!(jobs == 1 && reasons[0].ends_with("is being replaced"), "{reasons:?}");
}

/// The page and the doctor read it, and so can every tenant.
#[tokio::test(flavor = "multi_thread")]
async fn progress_reads_a_bounded_part_of_the_history() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held").retention(State::Succeeded, DAY)).await.unwrap();
    progress::fill(&hand, "held", 40_000).await;
    let many = "insert into windlass.retention (tenant_id, definition_key, status, keep_seconds)
        select gen_random_uuid(), 'held', 'succeeded', 3600 from generate_series(1, 2000); analyze windlass.retention";
    hand.client.batch_execute(many).await.unwrap();
    let mut watch = Watch::open(queue.url()).await;
    let query = "select due, is_due_partial, behind_seconds from windlass.retention_progress() where tenant_id is null and status = 'succeeded'";
    let row = watch.client.query_one(query, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, bool>(1)), (10_000, true));
    assert!(row.get::<_, i64>(2) > 170_000);
    let plans = watch.plans().await;
    let read = plans.iter().map(progress::rows_of_history).max().unwrap();
    assert!((10_000..11_000).contains(&read), "{read} rows were read");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_warns_when_retention_falls_behind() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held").retention(State::Succeeded, DAY)).await.unwrap();
    prune(&queue).await;
    let warnings = async || -> Vec<String> {
        let all = examine(&settings(queue.url())).await.unwrap();
        let found = all.into_iter().filter(|one| one.check == "retention");
        found.filter(|one| one.severity == Severity::Warning).map(|one| one.found).collect()
    };
    assert_eq!(warnings().await, Vec::<String>::new());
    for days_ago in [2, 3] {
        ended(&hand, "'held'", None, days_ago).await;
    }
    let found = warnings().await;
    let expected = "2 jobs of held succeeded should have been deleted, the first one 2 d";
    assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
}
