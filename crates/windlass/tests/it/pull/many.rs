//! Many waiting claims: they cost little, and each job wakes one of them.

use std::time::Duration;

use tokio::task::JoinSet;
use windlass::job::State;
use windlass::pull::{Held, Pull};
use windlass::{Done, NewJob};
use windlass_testing::eventually;

use super::{anyone, claim, start};
use crate::support::{attempts, count, status};

/// Statements of all sessions in this database since the counters last stopped changing.
const CALLS: &str =
    "select (xact_commit + xact_rollback)::bigint from pg_stat_database where datname = current_database()";

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_waiting_claims_cost_little_and_a_job_wakes_one() {
    const WAITING: usize = 10_000;
    let (queue, pull) = start().await;
    let client = queue.client().await;
    let mut waiting = JoinSet::new();
    for n in 0..WAITING {
        let pull = pull.clone();
        // A hundred workers with a hundred claims each, so that the test measures waiting and not registering.
        let worker_id = Some(format!("w{}", n % 100));
        let claim = claim(&["pulled"]).worker_id(worker_id).limit(1).wait(Duration::from_secs(60));
        waiting.spawn(async move { pull.claim(&anyone(), claim).await.unwrap() });
    }
    let known = "select count(*) from windlass.job_workers where worker_id like 'w%@pull'";
    eventually("all have arrived", async || count(&client, known).await == 100).await;
    // Two heartbeats of the dispatcher, of which the first may have been sent while the claims arrived.
    let before = count(&client, CALLS).await;
    for _ in 0..2 {
        let seen = heartbeat_of_the_dispatcher(&client).await;
        eventually("the dispatcher sends a heartbeat", async || {
            heartbeat_of_the_dispatcher(&client).await > seen
        })
        .await;
    }
    let calls = count(&client, CALLS).await - before;
    // A check per second, a heartbeat every five, the test's own reads: not ten thousand of anything.
    assert!(calls < 2000, "{calls} transactions in two intervals while nothing happened");

    let id = queue.enqueue(&NewJob::new("pulled")).await.unwrap().id;
    let first = waiting.join_next().await.unwrap().unwrap();
    assert_eq!(first.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
    assert_eq!(
        pull.complete(&anyone(), id, &first[0].fence, Done::new()).await.unwrap(),
        Held::Held(State::Succeeded)
    );

    // Five hundred jobs wake five hundred of them, each with one.
    let jobs: Vec<_> = (0..500).map(|_| NewJob::new("pulled")).collect();
    queue.enqueue_many(&jobs).await.unwrap();
    let mut seen = std::collections::HashSet::new();
    while seen.len() < 500 {
        for job in waiting.join_next().await.unwrap().unwrap() {
            assert!(seen.insert(job.id), "no job is handed out twice");
        }
    }
    pull.stop().await;
    // The remaining claims end without a job.
    while let Some(rest) = waiting.join_next().await {
        assert!(rest.unwrap().is_empty());
    }
}

async fn heartbeat_of_the_dispatcher(client: &tokio_postgres::Client) -> std::time::SystemTime {
    let seen = "select last_seen_at from windlass.job_workers where metadata ->> 'kind' = 'pull dispatcher'";
    client.query_one(seen, &[]).await.unwrap().get(0)
}

/// The notification, not the poll, which is due in ten minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_claim_is_woken_by_a_job() {
    let (queue, other) = start().await;
    other.stop().await;
    let client = queue.client().await;
    let pull = Pull::start_polling(queue.queue(), Duration::from_secs(600)).await.unwrap();
    let waits = "select count(*) from windlass.waiting";
    // The first claim also searches a moment after it has started to wait.
    for _ in 0..3 {
        let claiming = tokio::spawn({
            let (pull, claim) = (pull.clone(), claim(&["pulled"]).wait(Duration::from_secs(60)));
            async move { pull.claim(&anyone(), claim).await.unwrap().deliver() }
        });
        eventually("it waits", async || count(&client, waits).await == 1).await;
        let id = queue.enqueue(&NewJob::new("pulled")).await.unwrap().id;
        let jobs = claiming.await.unwrap();
        assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
        pull.complete(&anyone(), id, &jobs[0].fence, Done::new()).await.unwrap();
    }
    pull.stop().await;
}

/// A job that was claimed for a disconnected caller is queued again, without a counted failure.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_dropped_takes_no_job_with_it() {
    let (queue, pull) = start().await;
    let client = queue.client().await;
    let ids: Vec<_> = {
        let jobs: Vec<_> = (0..20).map(|_| NewJob::new("pulled").max_attempts(1)).collect();
        queue.enqueue_many(&jobs).await.unwrap().into_iter().map(|job| job.id).collect()
    };
    for n in 0..20 {
        let claim = claim(&["pulled"]).limit(1).worker_id(Some(format!("gone{n}")));
        // Long enough that the claim is sometimes running, rarely long enough for its response.
        let _ = tokio::time::timeout(Duration::from_millis(n / 2), pull.claim(&anyone(), claim)).await;
    }
    let mut got = 0;
    eventually("all of them are handed out in the end", async || {
        let claim = claim(&["pulled"]).wait(Duration::ZERO).limit(50);
        for job in pull.claim(&anyone(), claim).await.unwrap() {
            assert_eq!(job.failures, 0);
            pull.complete(&anyone(), job.id, &job.fence, Done::new()).await.unwrap();
            got += 1;
        }
        got == ids.len()
    })
    .await;
    assert_eq!(count(&client, "select count(*) from windlass.pull_lease").await, 0);
    pull.stop().await;
}

/// Also jobs that have arrived and were not handed over yet, before the service has stopped.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_are_not_delivered_are_released_before_the_service_stops() {
    let (queue, pull) = start().await;
    let client = queue.client().await;
    let id = queue.enqueue(&NewJob::new("pulled").max_attempts(1)).await.unwrap().id;
    let jobs = pull.claim(&anyone(), claim(&["pulled"])).await.unwrap();
    assert_eq!(jobs.len(), 1);
    drop(jobs);
    pull.stop().await;
    assert_eq!(status(&client, id).await, "queued");
    assert_eq!(attempts(&client, id).await, ["released"]);
}

/// a tenant with one job in each of many lanes. Each lane was asked for several jobs, so a claim of a shared worker returned a few.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_filled_from_many_lanes_with_one_job_each() {
    let (queue, pull) = start().await;
    let (loud, quiet) = (queue.tenant("loud").await, queue.tenant("quiet").await);
    let sparse: Vec<NewJob> =
        (0..60).map(|priority| NewJob::new("pulled").tenant(loud).priority(priority)).collect();
    queue.enqueue_many(&sparse).await.unwrap();
    queue.enqueue_many(&vec![NewJob::new("pulled").tenant(quiet); 60]).await.unwrap();
    let mut left = 120;
    let mut of_quiet = Vec::new();
    while left > 0 {
        let given = pull.claim(&anyone(), claim(&["pulled"]).limit(20)).await.unwrap().deliver();
        assert_eq!(given.len(), 20, "with {left} left");
        of_quiet.push(given.iter().filter(|job| job.tenant_id == quiet).count());
        left -= given.len();
    }
    assert!(of_quiet[0] >= 8 && of_quiet[1] >= 8, "a share of each claim: {of_quiet:?}");
    pull.stop().await;
}
