//! The core of the library, on one database: enqueue, claim, settle, retry, cancel, reap, schedules, retention, lists.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;
use windlass::events::NewEvent;
use windlass::job::{Filter, State};
use windlass::keeper::Duty;
use windlass::schedule::NewTrigger;
use windlass::{DEFAULT_TENANT, Definition, NewJob};
use windlass_testing::{TestQueue, eventually, settings};

use crate::schedule::{create, every_minute, look_back};
use crate::support::{Acting, assert_counts_are_exact, count, keeper, worker};

pub(super) async fn run(defaults: &[(&str, &str)]) {
    run_on(&TestQueue::create_under(defaults).await).await;
}

pub(super) async fn run_on(queue: &TestQueue) {
    // The queries of the test itself must not depend on the defaults either.
    let client = queue.client().await;
    client
        .batch_execute("set search_path = pg_catalog; set default_transaction_isolation = 'read committed'")
        .await
        .unwrap();
    queue.define(&Definition::new("acting").retention(State::Succeeded, Duration::ZERO)).await.unwrap();
    queue.define(&Definition::new("held")).await.unwrap();

    let canceled = queue.enqueue(&NewJob::new("held")).await.unwrap().id;
    queue.cancel(DEFAULT_TENANT, canceled).await.unwrap();
    let acts = ["succeed", "fail_once", "permanent", "snooze_once", "fail"];
    let mut jobs: Vec<NewJob> = (0..40)
        .map(|n| NewJob::new("acting").payload(&json!({"act": acts[n % acts.len()]})).max_attempts(2))
        .collect();
    jobs.push(NewJob::new("acting").dedupe_key("once").idempotency_key("once"));
    jobs.push(NewJob::new("acting").delay(Duration::from_millis(10)).subject("order", "7"));
    jobs.push(NewJob::new("acting").ordering_key("key"));
    jobs.push(NewJob::new("acting").ordering_key("key"));
    let enqueued = queue.enqueue_many(&jobs).await.unwrap();
    let first = enqueued[0].id;
    queue.enqueue(&NewJob::new("acting").depends_on(first)).await.unwrap();
    assert!(queue.enqueue(&jobs[40]).await.unwrap().is_duplicate);

    let one = worker(queue).handler(Acting).concurrency(4).start().await.unwrap();
    let two = worker(queue).handler(Acting).concurrency(4).start().await.unwrap();
    let left =
        "select count(*) from windlass.jobs where status in ('queued', 'running', 'scheduled', 'blocked')";
    eventually("every job has ended", async || count(&client, left).await == 0).await;

    let trigger = create(queue, &every_minute().definition_key("acting")).await;
    look_back(&client, &trigger, SignedDuration::from_mins(2)).await;
    create(queue, &NewTrigger::event("on order", "order.*", "acting")).await;
    queue.emit(&NewEvent::new("order.made").payload(&json!({}))).await.unwrap();
    let made = "select count(distinct source) from windlass.jobs where status = 'succeeded' and source in ('event', 'schedule')";
    eventually("the schedule and the event created their jobs", async || {
        keeper(queue).run_once(Duty::Schedule).await.unwrap();
        keeper(queue).run_once(Duty::Dispatch).await.unwrap();
        count(&client, made).await == 2
    })
    .await;

    windlass::setup::examine(&settings(queue.url())).await.unwrap();
    let mut seen = Vec::new();
    let mut filter = Filter::new(DEFAULT_TENANT).limit(7);
    loop {
        let page = queue.list(&filter).await.unwrap();
        seen.extend(page.jobs.iter().map(|job| job.id));
        let Some(next) = page.next else { break };
        filter = filter.older_than(next);
    }
    let all = count(&client, "select count(*) from windlass.job").await;
    assert_eq!(seen.len(), usize::try_from(all).unwrap());
    queue.retry(DEFAULT_TENANT, enqueued[2].id, "tester").await.unwrap();
    let failed =
        format!("select count(*) from windlass.jobs where id = '{}' and status = 'failed'", enqueued[2].id);
    eventually("the retried job has failed again", async || count(&client, &failed).await == 1).await;
    two.abort();
    one.stop().await.unwrap();

    for duty in Duty::ALL {
        keeper(queue).run_once(duty).await.unwrap_or_else(|error| panic!("{}: {error}", duty.as_str()));
    }
    let kept = "select count(*) from windlass.jobs where status = 'succeeded'";
    eventually("succeeded jobs are pruned", async || {
        keeper(queue).run_once(Duty::Prune).await.unwrap();
        count(&client, kept).await == 0
    })
    .await;
    queue.set_paused("default", true).await.unwrap();
    assert_counts_are_exact(&client).await;
    let wrong = "select count(*) from windlass.partition_problems()";
    assert_eq!(count(&client, wrong).await, 0);
}
