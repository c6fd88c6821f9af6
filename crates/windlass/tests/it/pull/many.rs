//! Many waiting claims: they cost little, and each job wakes one of them.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use windlass::job::State;
use windlass::pull::Held;
use windlass::{Done, NewJob};
use windlass_testing::eventually;

use super::{anyone, claim, start};
use crate::support::count;

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
    let (before, began) = (count(&client, CALLS).await, Instant::now());
    eventually("some seconds have passed", async || began.elapsed() > Duration::from_secs(4)).await;
    let calls = count(&client, CALLS).await - before;
    // A check per second, a heartbeat every five, the test's own reads: not ten thousand of anything.
    assert!(calls < 1000, "{calls} transactions in 4 s while nothing happened");

    let began = Instant::now();
    let id = queue.enqueue(&NewJob::new("pulled")).await.unwrap().id;
    let first = waiting.join_next().await.unwrap().unwrap();
    assert!(began.elapsed() < Duration::from_millis(900), "woken, not polled: {:?}", began.elapsed());
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
        count(&client, "select count(*) from windlass.line").await == 0
    })
    .await;
    let lost = count(&client, "select count(*) from windlass.pull_lease").await;
    // A future that was dropped after its response had arrived keeps its job, like a process that dies then.
    assert_eq!(got + lost, i64::try_from(ids.len()).unwrap());
    pull.stop().await;
}
