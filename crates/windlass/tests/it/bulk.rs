//! Operations of a caller on all jobs that match a filter, a thousand at a time.

use std::time::Duration;

use uuid::Uuid;
use windlass::admin::{Actor, Bulk, BulkCursor, Reach};
use windlass::job::{Filter, State};
use windlass::{DEFAULT_TENANT, Definition, NewJob, Queue};
use windlass_testing::{TestQueue, settings};

use crate::support::{Hand, count};

async fn enqueue(queue: &TestQueue, job: NewJob, jobs: usize) {
    for left in (0..jobs).step_by(500) {
        queue.enqueue_many(&vec![job.clone(); 500.min(jobs - left)]).await.unwrap();
    }
}

/// A thousand jobs in one statement take longer than usual on a busy machine.
async fn patient(queue: &TestQueue) -> Queue {
    Queue::connect(settings(queue.url()).statement_timeout(Duration::from_secs(300))).await.unwrap()
}

/// A running job that was asked to stop still runs; also a call without a cursor finds the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_of_all_running_jobs_skips_those_with_a_pending_request() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held")).await.unwrap();
    enqueue(&queue, NewJob::new("held").tag("t").subject("post", "1"), 1100).await;
    while !hand.claim_all().await.is_empty() {}
    let all = Filter::new(DEFAULT_TENANT);
    let filters = [
        all.clone(),
        all.clone().state(State::Running),
        all.clone().tag("t"),
        all.clone().subject("post", "1"),
        all.clone().held_by(worker_of(&hand).await),
    ];
    let acting = queue.act(Reach::Tenant(DEFAULT_TENANT), &Actor::new("tester")).await.unwrap();
    for filter in &filters {
        let page = acting.cancelable(filter, None).await.unwrap();
        assert_eq!((page.ids.len(), page.next.is_some()), (1000, true), "{filter:?}");
        let rest = acting.cancelable(filter, page.next).await.unwrap();
        assert_eq!((rest.ids.len(), rest.next), (100, None), "{filter:?}");
        assert!(rest.ids.iter().all(|id| !page.ids.contains(id)));
    }
    let ask =
        "with newest as materialized (select job_id from windlass.running order by job_id desc limit 1000)
        update windlass.live l set cancel_requested_at = array(
            select case when i.id in (select job_id from newest) then now() end
              from unnest(l.ids) with ordinality i (id, ord) order by i.ord)";
    hand.client.execute(ask, &[]).await.unwrap();
    for filter in &filters {
        let rest = acting.cancelable(filter, None).await.unwrap();
        assert_eq!((rest.ids.len(), rest.next), (100, None), "{filter:?}");
    }
}

async fn worker_of(hand: &Hand) -> String {
    let name = "select worker_id from windlass.job_workers where id = $1";
    hand.client.query_one(name, &[&hand.worker]).await.unwrap().get(0)
}

/// The queued jobs have smaller ids than the scheduled ones, and the running ones are the oldest.
#[tokio::test(flavor = "multi_thread")]
async fn an_operation_on_jobs_of_several_states_continues_where_it_stopped() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held")).await.unwrap();
    enqueue(&queue, NewJob::new("held"), 20).await;
    hand.claim_all().await;
    enqueue(&queue, NewJob::new("held"), 1000).await;
    enqueue(&queue, NewJob::new("held").delay(Duration::from_secs(3600)), 20).await;
    let (patient, filter) = (patient(&queue).await, Filter::new(DEFAULT_TENANT));
    let mut next = None;
    let mut changed = Vec::new();
    loop {
        let acting = patient.act(Reach::Tenant(DEFAULT_TENANT), &Actor::new("tester")).await.unwrap();
        let bulk = acting.cancel_many(&filter, next).await.unwrap();
        acting.commit().await.unwrap();
        assert_eq!(bulk.changed(), bulk.outcomes.len(), "no job is met twice");
        changed.push(bulk.changed());
        // As a caller would send it.
        next = bulk.next.map(|next| next.to_string().parse().unwrap());
        if next.is_none() {
            break;
        }
    }
    assert_eq!(changed, [1000, 40]);
    let left = "select (select count(*) from windlass.line) + (select count(*) from windlass.deferred)
        + (select count(*) from windlass.running where cancel_requested_at is null)";
    assert_eq!(count(&hand.client, left).await, 0);
}

/// A job that ends again while the others are retried is not retried twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_of_many_jobs_meets_each_of_them_once() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("held")).await.unwrap();
    enqueue(&queue, NewJob::new("held"), 1020).await;
    let (patient, all) = (patient(&queue).await, Filter::new(DEFAULT_TENANT));
    patient.cancel_matching(&all).await.unwrap();
    let retry = async |from: Option<BulkCursor>| -> Bulk {
        let acting = patient.act(Reach::Tenant(DEFAULT_TENANT), &Actor::new("tester")).await.unwrap();
        let bulk = acting.retry_many(&all, from).await.unwrap();
        acting.commit().await.unwrap();
        bulk
    };
    let first = retry(None).await;
    assert_eq!(first.changed(), 1000);
    assert_eq!(patient.cancel_matching(&all).await.unwrap(), 1000);
    let rest = retry(first.next).await;
    assert_eq!((rest.outcomes.len(), rest.next), (20, None));
    assert!(rest.outcomes.iter().all(|one| !first.outcomes.contains(one)));
}

/// Each refused job left an open savepoint, and each later one was nested in all of them.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_are_refused_among_many_leave_no_open_subtransaction() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let refused = NewJob::new("held").tenant(DEFAULT_TENANT).depends_on(Uuid::new_v4());
    let accepted = NewJob::new("held").tenant(DEFAULT_TENANT).dedupe_key("k");
    let mut jobs = vec![refused; 20];
    jobs.push(accepted);
    let mut checked = Vec::new();
    for job in &jobs {
        checked.push(queue.check_job(job).await.unwrap());
    }
    let acting = queue.act(Reach::Tenant(DEFAULT_TENANT), &Actor::new("tester")).await.unwrap();
    let results = acting.enqueue_each(&checked).await.unwrap();
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    let open = "select count(*) from pg_locks l join pg_stat_activity a using (pid)
        where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and a.datname = current_database()";
    assert_eq!(count(&client, open).await, 1, "only that of the transaction itself");
    acting.commit().await.unwrap();
}
