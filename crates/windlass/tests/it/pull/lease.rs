//! The lease of one job: renewed, lost, and useless afterwards (invariants 5 to 8).

use std::time::Duration;

use uuid::Uuid;
use windlass::job::{Fence, OnTimeout, State};
use windlass::keeper::Duty;
use windlass::pull::{Heartbeat, Held, Pull};
use windlass::{DEFAULT_TENANT, Definition, Done, Failure, NewJob, Queue};
use windlass_testing::{TestQueue, eventually, settings, until_a_session_waits};

use super::{anyone, claim, start, take_one};
use crate::support::{attempts, count, everything, job, keeper, soon, status};

const EXPIRE: &str = "update windlass.pull_lease set expires_at = clock_timestamp() - interval '1 s'";

/// another job's fence, a changed one, a stale one, a repeated one.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_with_another_fence_is_lease_lost_and_changes_nothing() {
    let (queue, pull) = start().await;
    let client = queue.client().await;
    let (first, second) = (
        queue.enqueue(&NewJob::new("pulled")).await.unwrap().id,
        queue.enqueue(&NewJob::new("pulled")).await.unwrap().id,
    );
    let jobs = pull.claim(&anyone(), claim(&["pulled"])).await.unwrap().deliver();
    let fence_of = |id: Uuid| jobs.iter().find(|job| job.id == id).unwrap().fence.clone();
    let (own, others) = (fence_of(first), fence_of(second));
    let fence = Fence::decode(&own).unwrap();
    assert_ne!(fence.token, Fence::decode(&others).unwrap().token, "each job has its own token");
    let forged = [
        others,
        String::new(),
        "nonsense".to_owned(),
        Fence { attempt: 2, ..fence }.encode(),
        Fence { attempt: 0, ..fence }.encode(),
        Fence { token: Uuid::new_v4(), ..fence }.encode(),
        Fence { tenant: Uuid::new_v4(), ..fence }.encode(),
        Fence { job: second, ..fence }.encode(),
        format!("{own}="),
    ];
    let before = everything(&client).await;
    for forged in &forged {
        lost_in_every_call(&pull, first, forged).await;
    }
    // The fence of one job is not valid for another.
    lost_in_every_call(&pull, second, &own).await;
    assert_eq!(everything(&client).await, before);

    assert_eq!(
        pull.complete(&anyone(), first, &own, Done::new()).await.unwrap(),
        Held::Held(State::Succeeded)
    );
    let before = everything(&client).await;
    lost_in_every_call(&pull, first, &own).await;
    assert_eq!(everything(&client).await, before, "a repeated write counts once");
    pull.stop().await;
}

async fn lost_in_every_call(pull: &Pull, job: Uuid, fence: &str) {
    let (puller, beat) = (anyone(), Heartbeat::default().percent(Some(1.0)).message(Some("x".to_owned())));
    assert_eq!(pull.heartbeat(&puller, job, fence, &beat).await.unwrap(), Held::LeaseLost, "{fence}");
    assert_eq!(pull.complete(&puller, job, fence, Done::new()).await.unwrap(), Held::LeaseLost, "{fence}");
    assert_eq!(
        pull.fail(&puller, job, fence, Failure::retry("x")).await.unwrap(),
        Held::LeaseLost,
        "{fence}"
    );
    assert_eq!(pull.snooze(&puller, job, fence, Duration::ZERO).await.unwrap(), Held::LeaseLost, "{fence}");
    assert_eq!(pull.release(&puller, job, fence).await.unwrap(), Held::LeaseLost, "{fence}");
}

/// Invariants 7 and 8.
#[tokio::test(flavor = "multi_thread")]
async fn an_expired_lease_is_valid_until_it_is_reaped() {
    let (queue, pull) = start().await;
    let client = queue.client().await;
    let id = queue.enqueue(&NewJob::new("pulled")).await.unwrap().id;
    let taken = take_one(&pull).await;
    client.execute(EXPIRE, &[]).await.unwrap();
    let renewed = pull.heartbeat(&anyone(), id, &taken.fence, &Heartbeat::default()).await.unwrap();
    assert!(matches!(renewed, Held::Held(_)), "it sent a heartbeat before another worker claimed the job");
    let keeper = keeper(&queue);
    assert_eq!(keeper.run_once(Duty::Reap).await.unwrap().moved, 0);
    client.execute(EXPIRE, &[]).await.unwrap();
    assert_eq!(keeper.run_once(Duty::Reap).await.unwrap().moved, 1);
    assert_eq!(status(&client, id).await, "scheduled");
    assert_eq!(attempts(&client, id).await, ["lost"]);
    assert_eq!(count(&client, "select count(*) from windlass.pull_lease").await, 0);
    let before = everything(&client).await;
    lost_in_every_call(&pull, id, &taken.fence).await;
    assert_eq!(everything(&client).await, before);
    pull.stop().await;
}

/// Of a concurrent reap and completion of the same attempt exactly one takes effect.
#[tokio::test(flavor = "multi_thread")]
async fn a_concurrent_reap_and_completion_end_the_attempt_once() {
    let (queue, pull) = start().await;
    let client = queue.client().await;
    let keeper = keeper(&queue);
    for _ in 0..30 {
        let id = queue.enqueue(&NewJob::new("pulled")).await.unwrap().id;
        let taken = take_one(&pull).await;
        client.execute(EXPIRE, &[]).await.unwrap();
        let puller = anyone();
        let (reaped, completed) =
            tokio::join!(keeper.run_once(Duty::Reap), pull.complete(&puller, id, &taken.fence, Done::new()));
        let (reaped, completed) = (reaped.unwrap().moved == 1, completed.unwrap() != Held::LeaseLost);
        assert!(reaped != completed, "reaped: {reaped}, completed: {completed}");
        let wanted = if completed { "succeeded" } else { "lost" };
        assert_eq!(attempts(&client, id).await, [wanted]);
        queue.cancel(DEFAULT_TENANT, id).await.unwrap();
    }
    pull.stop().await;
}

/// Only that one job: the worker's others continue.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_heartbeats_is_lost_while_its_worker_lives() {
    let (queue, pull) = start().await;
    let client = queue.client().await;
    for _ in 0..2 {
        queue.enqueue(&NewJob::new("pulled")).await.unwrap();
    }
    let short = claim(&["pulled"]).lease(Duration::from_secs(1)).limit(2);
    let jobs = pull.claim(&anyone(), short).await.unwrap().deliver();
    let [silent, alive] = &jobs[..] else { panic!("two are queued") };
    let keeper = keeper(&queue);
    eventually("the one without heartbeats is recovered", async || {
        let beat = Heartbeat::default().lease(Some(Duration::from_secs(30)));
        assert!(matches!(
            pull.heartbeat(&anyone(), alive.id, &alive.fence, &beat).await.unwrap(),
            Held::Held(_)
        ));
        keeper.run_once(Duty::Reap).await.unwrap();
        status(&client, silent.id).await == "scheduled"
    })
    .await;
    assert_eq!(status(&client, alive.id).await, "running");
    let present = "select count(*) from windlass.job_workers where worker_id = 'tester@pull' and stopped_at is null and ended = 'lost'";
    assert_eq!(count(&client, present).await, 1, "it left one job");
    pull.heartbeat(&anyone(), alive.id, &alive.fence, &Heartbeat::default()).await.unwrap();
    assert_eq!(count(&client, present).await, 0, "and sends a heartbeat");
    let lease = job(&client, alive.id).await["lease_expires_at"].clone();
    assert!(lease.as_str().is_some(), "the job shows its own lease");
    pull.stop().await;
}

/// A heartbeat does not extend the timeout of the definition, and a timeout is not a lost worker.
#[tokio::test(flavor = "multi_thread")]
async fn a_pulled_attempt_times_out_despite_heartbeats() {
    let (queue, pull) = start().await;
    let client = queue.client().await;
    let definition =
        Definition::new("pulled").backoff(soon()).timeout(Duration::from_secs(1), OnTimeout::Fail);
    queue.define(&definition).await.unwrap();
    let id = queue.enqueue(&NewJob::new("pulled")).await.unwrap().id;
    let taken = take_one(&pull).await;
    assert_eq!(taken.lease_expires_at, taken.deadline, "the lease ends with the attempt's time");
    let keeper = keeper(&queue);
    eventually("it has timed out", async || {
        let beat = Heartbeat::default().lease(Some(Duration::from_secs(600)));
        if let Held::Held(renewed) = pull.heartbeat(&anyone(), id, &taken.fence, &beat).await.unwrap() {
            assert_eq!(renewed.lease_expires_at, taken.deadline);
        }
        keeper.run_once(Duty::Reap).await.unwrap();
        status(&client, id).await == "failed"
    })
    .await;
    assert_eq!(attempts(&client, id).await, ["timeout"]);
    assert_eq!(job(&client, id).await["reason"], "timeout");
    pull.stop().await;
}

/// A pull worker that vanished is closed like one of ours, and one that returns under its name is accepted again.
#[tokio::test(flavor = "multi_thread")]
async fn a_pull_worker_that_vanished_is_closed_and_may_return() {
    let (queue, pull) = start().await;
    let client = queue.client().await;
    let id = queue.enqueue(&NewJob::new("pulled").max_attempts(5)).await.unwrap().id;
    take_one(&pull).await;
    let silent = "update windlass.job_workers set lease_expires_at = clock_timestamp() - interval '1 s' where worker_id like '%@%'";
    client.execute(silent, &[]).await.unwrap();
    let keeper = keeper(&queue);
    keeper.run_once(Duty::Reap).await.unwrap();
    assert_eq!(attempts(&client, id).await, ["lost"], "its jobs are lost with it");
    keeper.run_once(Duty::Reap).await.unwrap();
    let closed = "select count(*) from windlass.job_workers where worker_id = 'tester@pull' and stopped_at is not null";
    assert_eq!(count(&client, closed).await, 1);
    let ended = "select ended from windlass.job_workers where worker_id = 'tester@pull'";
    let ended = async || client.query_one(ended, &[]).await.unwrap().get::<_, Option<String>>(0);
    assert_eq!(ended().await.as_deref(), Some("lost"), "it left a job");
    eventually("it is due again", async || {
        keeper.run_once(Duty::Promote).await.unwrap();
        status(&client, id).await == "queued"
    })
    .await;
    let again = take_one(&pull).await;
    assert_eq!((again.id, again.attempt), (id, 2));
    assert_eq!((count(&client, closed).await, ended().await), (0, None), "it is registered again");
    pull.complete(&anyone(), id, &again.fence, Done::new()).await.unwrap();
    eventually("it ended without a job, as at a shutdown", async || {
        client.execute(silent, &[]).await.unwrap();
        keeper.run_once(Duty::Reap).await.unwrap();
        ended().await.as_deref() == Some("stopped")
    })
    .await;
    assert_eq!(
        count(&client, "select count(*) from windlass.job_workers where worker_id like '%@%'").await,
        1
    );
    pull.stop().await;
}

/// The connection of a canceled call does not serve the next one: that would wait for the statement of the first.
#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_whose_caller_disconnects_delays_no_other() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("pulled")).await.unwrap();
    let one_connection = Queue::connect(settings(queue.url()).connections(1)).await.unwrap();
    let pull = Pull::start(&one_connection).await.unwrap();
    for _ in 0..2 {
        queue.enqueue(&NewJob::new("pulled")).await.unwrap();
    }
    let mut jobs = Vec::new();
    // Two workers, because heartbeats of one wait for each other.
    for worker in ["one", "two"] {
        let claim = claim(&["pulled"]).worker_id(Some(worker.to_owned())).limit(1);
        jobs.extend(pull.claim(&anyone(), claim).await.unwrap());
    }
    let [stuck, other] = &jobs[..] else { panic!("two are queued") };
    let mut client = queue.client().await;
    let tx = client.transaction().await.unwrap();
    tx.query_one("select from windlass.pull_lease where job_id = $1 for update", &[&stuck.id]).await.unwrap();
    let beating = tokio::spawn({
        let (pull, id, fence) = (pull.clone(), stuck.id, stuck.fence.clone());
        async move { pull.heartbeat(&anyone(), id, &fence, &Heartbeat::default()).await }
    });
    until_a_session_waits(&queue.client().await).await;
    beating.abort();
    assert!(beating.await.unwrap_err().is_cancelled());
    let renewed = pull.heartbeat(&anyone(), other.id, &other.fence, &Heartbeat::default()).await.unwrap();
    assert!(matches!(renewed, Held::Held(_)));
    tx.rollback().await.unwrap();
    pull.stop().await;
}

/// a claim marks its worker as present a few seconds later, which returned a worker to service that had signed off
/// meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_signed_off_stays_so_until_its_next_claim() {
    let (queue, pull) = start().await;
    let client = queue.client().await;
    let is_open = async || {
        let open = "select count(*) from windlass.job_workers where worker_id = 'tester@pull' and stopped_at is null";
        count(&client, open).await == 1
    };
    let claim_once = async || {
        let once = claim(&["pulled"]).wait(Duration::ZERO);
        assert!(pull.claim(&anyone(), once).await.unwrap().deliver().is_empty());
    };
    claim_once().await;
    assert!(is_open().await);
    assert!(pull.sign_off(&anyone(), Some("tester")).await.unwrap());
    let touch = "select worker from windlass.pull_touch(array(select id from windlass.job_workers where worker_id = 'tester@pull'), 60)";
    assert!(client.query(touch, &[]).await.unwrap().is_empty(), "it is not known any more");
    assert!(!is_open().await);
    claim_once().await;
    assert!(is_open().await, "a later claim returns it to service");
    assert_eq!(client.query(touch, &[]).await.unwrap().len(), 1);
    pull.stop().await;
}
