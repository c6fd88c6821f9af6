//! The test kit for applications, with a database.

use std::time::Duration;

use windlass::job::{State, Unique};
use windlass::testing::{self, TestDatabase};
use windlass::{Context, Definition, Done, Failure, Handler, JobArgs, NewJob};
use windlass_testing::TestServer;

windlass_testing::payload!(Step(u32) = "step");

/// Fails once, then enqueues the next step until there are three.
struct Steps;

impl Handler for Steps {
    type Args = Step;

    async fn run(&self, job: &Context, Step(number): Step) -> Result<Done, Failure> {
        if number == 1 && job.attempt() == 1 {
            return Err(Failure::retry_after(Duration::from_secs(600), "not yet"));
        }
        let done = Done::new();
        Ok(if number < 3 { done.then(Step(number + 1)) } else { done })
    }
}

async fn start() -> TestDatabase {
    let database = TestDatabase::create_on(&TestServer::shared().await.url()).await.unwrap();
    database.queue().define(&Definition::of::<Step>()).await.unwrap();
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_runs_due_jobs_and_an_advance_makes_the_rest_due() {
    let database = start().await;
    let drain = async || database.drain(|worker| worker.handler(Steps)).await.unwrap();
    assert!(drain().await.is_empty());
    let id = database.queue().enqueue(Step(1)).await.unwrap().id;
    let later = Step(3).job().delay(Duration::from_secs(7200));
    database.queue().enqueue(later).await.unwrap();

    let ran = drain().await;
    assert_eq!(ran.len(), 1, "{ran:?}");
    assert_eq!((ran[0].id, ran[0].attempt, ran[0].state), (id, 1, State::Scheduled));
    assert!(drain().await.is_empty(), "the retry is due in ten minutes");

    assert_eq!(database.advance(Duration::from_secs(660)).await.unwrap(), 2);
    let ran = drain().await;
    assert_eq!(ran.len(), 3, "the retry and the two next jobs: {ran:?}");
    assert!(ran.iter().all(|job| job.state == State::Succeeded && job.definition_key == "step"));

    database.advance(Duration::from_secs(7200)).await.unwrap();
    assert_eq!(drain().await.len(), 1);
    assert!(drain().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_leaves_jobs_of_other_definitions() {
    let database = start().await;
    database.queue().define(&Definition::new("other")).await.unwrap();
    database.queue().enqueue(NewJob::new("other")).await.unwrap();
    database.queue().enqueue(Step(3)).await.unwrap();
    assert_eq!(database.drain(|worker| worker.handler(Steps)).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn deadlines_and_dedupe_windows_pass_with_the_time() {
    let database = start().await;
    let minute = Duration::from_secs(60);
    let first = database.queue().enqueue(Step(3).job().unique_for(minute)).await.unwrap();
    let same = database.queue().enqueue(Step(3).job().unique_for(minute)).await.unwrap();
    assert!(same.is_duplicate && same.id == first.id);
    database.advance(Duration::from_secs(61)).await.unwrap();
    let next = database.queue().enqueue(Step(3).job().unique_for(minute)).await.unwrap();
    assert!(!next.is_duplicate, "the window has passed");

    let hour = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let late = Step(3).job().deadline(hour).delay(Duration::from_secs(7200)).unique(Unique::Active);
    let late = database.queue().enqueue(late).await.unwrap().id;
    database.advance(Duration::from_secs(3660)).await.unwrap();
    database.drain(|worker| worker.handler(Steps)).await.unwrap();
    let job = database.queue().job(windlass::DEFAULT_TENANT, late).await.unwrap().unwrap();
    assert_eq!((job.status, job.reason.as_deref()), (State::Failed, Some("expired")));
}

#[tokio::test(flavor = "multi_thread")]
async fn enqueued_jobs_are_visible_only_in_their_transaction() {
    let database = start().await;
    let mut client = database.client().await.unwrap();
    let outside = database.client().await.unwrap();
    let tx = client.transaction().await.unwrap();
    windlass::enqueue_in(&tx, &Step(7).job().priority(3).tag("a")).await.unwrap();
    let found = testing::assert_enqueued(&tx, |step: &Step| step.0 == 7).await;
    assert_eq!(
        (found.state, found.priority, found.tags.as_slice()),
        (State::Queued, 3, &["a".to_owned()][..])
    );
    testing::assert_not_enqueued(&tx, |step: &Step| step.0 == 8).await;
    testing::assert_not_enqueued(&*outside, |_: &Step| true).await;
    tx.rollback().await.unwrap();
    assert!(testing::enqueued::<Step, _>(&*outside).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "no matching job of \"step\" was enqueued, only [\"5\"]")]
async fn a_missing_job_is_reported_with_those_that_exist() {
    let database = start().await;
    database.queue().enqueue(Step(5)).await.unwrap();
    testing::assert_enqueued(&*database.client().await.unwrap(), |step: &Step| step.0 == 6).await;
}

#[tokio::test]
async fn the_database_is_dropped_with_its_value() {
    let database = start().await;
    let url = database.url().to_owned();
    drop(database);
    assert!(tokio_postgres::connect(&url, tokio_postgres::NoTls).await.is_err());
}
