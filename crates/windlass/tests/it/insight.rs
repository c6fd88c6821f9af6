//! The data of the charts and of the dead-letter page.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use windlass::admin::Reach;
use windlass::{Definition, NewJob};
use windlass_testing::{TestQueue, eventually};

use crate::support::{self, Acting};

#[tokio::test]
async fn activity_is_summed_per_tenant_and_for_all() {
    let queue = TestQueue::create().await;
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    queue.define(&Definition::new("unserved").queue("slow")).await.unwrap();
    let worker = support::worker(&queue).handler(Acting).start().await.unwrap();
    let client = queue.client().await;
    for tenant in [a, a, b] {
        let done = queue.enqueue(&NewJob::new("acting").tenant(tenant)).await.unwrap().id;
        support::until(&client, done, "succeeded").await;
    }
    let failed = NewJob::new("acting").tenant(a).payload(&json!({ "act": "permanent" }));
    let failed = queue.enqueue(&failed).await.unwrap().id;
    support::until(&client, failed, "failed").await;
    queue.enqueue(&NewJob::new("unserved").tenant(b)).await.unwrap();

    let since = Timestamp::now() - SignedDuration::from_hours(1);
    let sums = async |reach: Reach| {
        let reading = queue.read(reach).await.unwrap();
        let activity = reading.activity(since, 3600).await.unwrap();
        reading.end().await.unwrap();
        let sum = |pick: fn(&windlass::admin::Activity) -> i64| activity.iter().map(pick).sum::<i64>();
        (sum(|each| each.succeeded), sum(|each| each.failed))
    };
    // Slots of a second: the newest two seconds are never sampled, whatever the slot.
    eventually("the sampler has passed the last job", async || {
        client.execute("select windlass.sample_activity(1)", &[]).await.unwrap();
        sums(Reach::Everything).await == (3, 1)
    })
    .await;
    assert_eq!(sums(Reach::Tenant(a)).await, (2, 1));
    assert_eq!(sums(Reach::Tenant(b)).await, (1, 0));
    let reading = queue.read(Reach::Tenant(b)).await.unwrap();
    let waiting = reading.activity(since, 3600).await.unwrap();
    assert!(waiting.iter().any(|each| each.queue == "slow" && each.queued == 1), "{waiting:?}");
    drop(reading);
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn the_newest_runs_show_how_long_they_waited_and_ran() {
    let queue = TestQueue::create().await;
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    let worker = support::worker(&queue).handler(Acting).start().await.unwrap();
    let client = queue.client().await;
    let retried = NewJob::new("acting").tenant(a).payload(&json!({ "act": "fail_once" }));
    let retried = queue.enqueue(&retried).await.unwrap().id;
    support::until(&client, retried, "succeeded").await;
    let other = queue.enqueue(&NewJob::new("acting").tenant(b)).await.unwrap().id;
    support::until(&client, other, "succeeded").await;

    let reading = queue.read(Reach::Tenant(a)).await.unwrap();
    let runs = reading.runs(&[a], 10).await.unwrap();
    assert!(reading.runs(&[b], 10).await.unwrap().is_empty(), "another tenant's runs");
    let seen: Vec<_> = runs.iter().map(|run| (run.job_id, run.attempt, run.outcome.as_str())).collect();
    assert_eq!(seen, [(retried, 1, "failed"), (retried, 2, "succeeded")]);
    assert!(runs[0].waited().is_some() && runs[1].waited().is_none(), "a retry waits for its backoff");
    assert!(runs.iter().all(|run| run.lasted().is_some()));
    drop(reading);

    let reading = queue.read(Reach::Everything).await.unwrap();
    assert_eq!(reading.runs(&[a, b], 10).await.unwrap().len(), 3);
    assert_eq!(reading.runs(&[a, b], 1).await.unwrap().len(), 2, "the newest of each");
    drop(reading);
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn dead_letters_are_grouped_by_error_and_by_tenant() {
    let queue = TestQueue::create().await;
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    let worker = support::worker(&queue).handler(Acting).start().await.unwrap();
    let client = queue.client().await;
    for tenant in [a, a, b] {
        let job = NewJob::new("acting").tenant(tenant).max_attempts(1).payload(&json!({ "act": "fail" }));
        let job = queue.enqueue(&job).await.unwrap().id;
        support::until(&client, job, "dead_letter").await;
    }
    let reading = queue.read(Reach::Tenant(a)).await.unwrap();
    let groups = reading.error_groups(a).await.unwrap();
    assert_eq!(groups.len(), 1, "{groups:?}");
    assert_eq!((groups[0].definition_key.as_str(), groups[0].jobs.len()), ("acting", 2));
    assert_eq!(groups[0].example, "as requested");
    assert!(reading.error_groups(b).await.unwrap().is_empty(), "another tenant's dead letters");
    drop(reading);
    worker.stop().await.unwrap();
}
