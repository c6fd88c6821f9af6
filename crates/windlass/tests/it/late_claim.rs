//! A claim that commits just after its worker was declared dead must not leave its jobs running for ever.

use uuid::Uuid;
use windlass::{Definition, Duty, Keeper, KeeperSettings, NewJob, State};
use windlass_testing::TestQueue;

#[tokio::test]
async fn jobs_claimed_while_their_worker_was_being_closed_are_taken_back() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let job = queue.enqueue(&NewJob::new("a")).await.unwrap().id;
    let keeper = Keeper::new(queue.queue().clone(), KeeperSettings::default());
    let (mut theirs, ours) = (queue.client().await, queue.client().await);
    let register = "select windlass.register_worker('w', 'h', '', '{}', '{a}', 30, '{}')";
    let worker: i32 = ours.query_one(register, &[]).await.unwrap().get(0);
    let lane: i32 = ours.query_one("select lane from windlass.live", &[]).await.unwrap().get(0);

    // The claim has looked at its worker and taken the job, but is not committed when the reaper looks.
    let claim = theirs.transaction().await.unwrap();
    let query =
        "select count(*) from windlass.claim($1, $2, array[$3]::integer[], array[0]::bigint[], array[1])";
    let taken: i64 = claim.query_one(query, &[&worker, &Uuid::new_v4(), &lane]).await.unwrap().get(0);
    assert_eq!(taken, 1);
    ours.batch_execute("update windlass.job_workers set lease_expires_at = now() - interval '1 s'")
        .await
        .unwrap();
    keeper.run_once(Duty::Reap).await.unwrap();
    let closed = "select stopped_at is not null, swept_at is not null from windlass.job_workers";
    let row = ours.query_one(closed, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1)), (true, false), "closed, but to be looked at once more");
    claim.commit().await.unwrap();
    let state = async || queue.job(windlass::DEFAULT_TENANT, job).await.unwrap().unwrap().status;
    assert_eq!(state().await, State::Running);

    ours.batch_execute("update windlass.job_workers set stopped_at = now() - interval '1 minute'")
        .await
        .unwrap();
    assert_eq!(keeper.run_once(Duty::Reap).await.unwrap().moved, 1);
    assert_eq!(state().await, State::Scheduled, "lost, and to be tried again");
    keeper.run_once(Duty::Reap).await.unwrap();
    let row = ours.query_one(closed, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1)), (true, true), "nothing is left of it");
}
