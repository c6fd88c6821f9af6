//! Invariant 27: a tenant never has more unfinished jobs than its quota, under any number of concurrent enqueues.

mod batch;

use std::time::Duration;

use tokio::task::JoinSet;
use uuid::Uuid;
use windlass::admin::{Actor, Reach};
use windlass::job::State;
use windlass::{Definition, Done, Error, NewJob};
use windlass_testing::TestQueue;

use crate::support::{Held, attempts, until, worker};

async fn limited(queue: &TestQueue, most: i64) -> Uuid {
    queue.define(&Definition::new("a")).await.unwrap();
    let tenant = queue.tenant("limited").await;
    let statement = "update windlass.tenants set max_queued = $2 where id = $1";
    queue.client().await.execute(statement, &[&tenant, &most]).await.unwrap();
    tenant
}

async fn unended(queue: &TestQueue, tenant: Uuid) -> i64 {
    let counts = queue.counts(Some(tenant)).await.unwrap();
    counts.iter().map(|count| count.queued + count.scheduled + count.blocked + count.running).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_exact_while_many_enqueue_at_once() {
    let queue = TestQueue::create().await;
    let tenant = limited(&queue, 50).await;
    let mut tasks = JoinSet::new();
    for task in 0..8_u64 {
        let queue = queue.queue().clone();
        tasks.spawn(async move {
            let mut accepted = 0;
            for number in 0..12_u64 {
                let job = NewJob::new("a").tenant(tenant);
                let result = match (task + number) % 3 {
                    0 => queue.enqueue(&job.delay(Duration::from_secs(3600))).await.map(|_| 1),
                    1 => queue.enqueue_many(&[job.clone(), job]).await.map(|both| both.len()),
                    _ => queue.enqueue(&job).await.map(|_| 1),
                };
                match result {
                    Ok(added) => accepted += added,
                    Err(Error::QuotaReached { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            accepted
        });
    }
    let accepted: usize = tasks.join_all().await.into_iter().sum();
    assert!((49..=50).contains(&accepted), "{accepted}: a pair may not fit if one would");
    assert_eq!(unended(&queue, tenant).await, i64::try_from(accepted).unwrap());
    // It does not apply to another tenant.
    queue.enqueue(&NewJob::new("a")).await.unwrap();
}

#[tokio::test]
async fn a_freed_place_can_be_taken_and_a_retry_needs_one() {
    let queue = TestQueue::create().await;
    let tenant = limited(&queue, 2).await;
    let new = || NewJob::new("a").tenant(tenant);
    let first = queue.enqueue(&new().dedupe_key("d")).await.unwrap();
    queue.enqueue(&new()).await.unwrap();
    assert!(matches!(queue.enqueue(&new()).await, Err(Error::QuotaReached { .. })));
    let again = queue.enqueue(&new().dedupe_key("d")).await.unwrap();
    assert!(again.is_duplicate && again.id == first.id, "a duplicate adds nothing");
    queue.cancel(tenant, first.id).await.unwrap();
    queue.enqueue(&new()).await.unwrap();
    assert!(matches!(queue.retry(tenant, first.id, "me").await, Err(Error::QuotaReached { .. })));
    assert_eq!(unended(&queue, tenant).await, 2);
    // A rejected one does not block the others of its batch.
    let actor = Actor::new("me");
    let statement = "update windlass.tenants set max_queued = 3 where id = $1";
    queue.client().await.execute(statement, &[&tenant]).await.unwrap();
    let job = new();
    let jobs = [queue.check_job(&job).await.unwrap(), queue.check_job(&job).await.unwrap()];
    let acting = queue.act(Reach::Tenant(tenant), &actor).await.unwrap();
    let placed = acting.enqueue_each(&jobs).await.unwrap();
    assert!(placed[0].is_ok() && matches!(placed[1], Err(Error::QuotaReached { .. })), "{placed:?}");
}

/// A parent was a way around the quota: 20,004 jobs instead of five.
#[tokio::test]
async fn a_job_that_names_a_parent_counts_like_any_other() {
    let queue = TestQueue::create().await;
    let tenant = limited(&queue, 2).await;
    let client = queue.client().await;
    let parent = queue.enqueue(&NewJob::new("a").tenant(tenant)).await.unwrap().id;
    let child = "select id from windlass.enqueue('a', tenant_id => $1, parent_id => $2)";
    client.query_one(child, &[&tenant, &parent]).await.unwrap();
    let refused = client.query_one(child, &[&tenant, &parent]).await.unwrap_err();
    assert_eq!(refused.code().map(|code| code.code().to_owned()).as_deref(), Some("WL010"));
    assert_eq!(unended(&queue, tenant).await, 2);
}

/// The completion is not lost: the attempt fails with the reason, nothing of the chain is enqueued, and a retry that finds room completes.
#[tokio::test(flavor = "multi_thread")]
async fn next_jobs_over_quota_fail_the_attempt_but_one_may_replace_its_parent() {
    let queue = TestQueue::create().await;
    let tenant = limited(&queue, 1).await;
    let client = queue.client().await;
    let (held, mut desk) = Held::new();
    let worker = worker(&queue).handler(held).start().await.unwrap();
    let first = queue.enqueue(&NewJob::new("held").tenant(tenant)).await.unwrap().id;
    let next = || NewJob::new("a").delay(Duration::from_secs(3600));
    desk.next().await.end(Ok(Done::new().then(next()).then(next())));
    let again = desk.next().await;
    assert_eq!(again.job, first);
    assert_eq!(attempts(&client, first).await, ["failed", "running"]);
    let query = "select error_text from windlass.history where job_id = $1";
    let error: String = client.query_one(query, &[&first]).await.unwrap().get(0);
    assert!(error.contains("could not be enqueued") && error.contains("its job quota of 1"), "{error}");
    assert_eq!(unended(&queue, tenant).await, 1, "no job of the chain exists");
    again.end(Ok(Done::new().then(next())));
    until(&client, first, State::Succeeded.as_str()).await;
    assert_eq!(unended(&queue, tenant).await, 1, "the next job");
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_enqueues_at_most_a_thousand_jobs() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let client = queue.client().await;
    let (held, mut desk) = Held::new();
    let worker = worker(&queue).handler(held).start().await.unwrap();
    let job = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    let followed_by = |many: usize| (0..many).fold(Done::new(), |done, _| done.then(NewJob::new("a")));
    desk.next().await.end(Ok(followed_by(1001)));
    let again = desk.next().await;
    let query = "select error_text from windlass.history where job_id = $1";
    let error: String = client.query_one(query, &[&job]).await.unwrap().get(0);
    assert!(error.contains("at most 1000 next jobs, not 1001"), "{error}");
    // a job has few dependencies, but a thousand jobs have many.
    let needs = |many: usize| (0..many).fold(NewJob::new("a"), |job, _| job.depends_on(Uuid::now_v7()));
    again.end(Ok((0..51).fold(Done::new(), |done, _| done.then(needs(100)))));
    let again = desk.next().await;
    let query = "select error_text from windlass.history where job_id = $1 order by attempt desc limit 1";
    let error: String = client.query_one(query, &[&job]).await.unwrap().get(0);
    assert!(error.contains("at most 5000 dependencies together, not 5100"), "{error}");
    again.end(Ok(followed_by(1000)));
    until(&client, job, State::Succeeded.as_str()).await;
    assert_eq!(unended(&queue, windlass::DEFAULT_TENANT).await, 1000);
    worker.stop().await.unwrap();
}

/// jobs of a transaction that was open when the limit was set count once they are committed.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_were_open_when_a_quota_was_set_count_after_their_commit() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let tenant = queue.tenant("limited").await;
    let client = queue.client().await;
    queue.enqueue(&NewJob::new("a").tenant(tenant)).await.unwrap(); // the first use of a lane delays others
    let open = queue.client().await;
    let many = format!("select windlass.enqueue_many('a', array_fill('{{}}'::jsonb, array[50]), '{tenant}')");
    open.batch_execute(&format!("begin; {many}")).await.unwrap();
    let limit = "select windlass.change_tenant($1, '{\"max_queued\": 100}')";
    client.execute(limit, &[&tenant]).await.unwrap();
    let enqueue = format!("select windlass.enqueue('a', tenant_id => '{tenant}')");
    client.batch_execute(&enqueue).await.unwrap();
    open.batch_execute("commit").await.unwrap();
    let mut accepted = 1;
    while client.batch_execute(&enqueue).await.is_ok() {
        accepted += 1;
    }
    assert_eq!(accepted, 49);
    assert_eq!(unended(&queue, tenant).await, 100);
}
