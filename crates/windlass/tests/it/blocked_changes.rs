//! An application's open transaction holds up no change of an operator for long, and no other tenant through it.

use std::time::{Duration, Instant};

use serde_json::json;
use windlass::admin::{Actor, Reach};
use windlass::{Definition, Error, NewJob};
use windlass_testing::{Login, TestQueue, until_waits_or_ends};

use crate::access::set_tenant;
use crate::support::{Hand, count};

/// the state before it was read before the wait, and the entry contained the change of the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_waited_for_another_is_recorded_alone() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    client.batch_execute("select windlass.define('{\"key\": \"a\"}')").await.unwrap();
    let first = queue.client().await;
    first
        .batch_execute("begin; select windlass.define('{\"key\": \"a\", \"is_active\": false}')")
        .await
        .unwrap();
    let second = queue.client().await;
    let waiting = tokio::spawn(async move {
        second.batch_execute("select windlass.define('{\"key\": \"a\", \"timeout_seconds\": 77}')").await
    });
    until_waits_or_ends(&client, &waiting).await;
    first.batch_execute("commit").await.unwrap();
    waiting.await.unwrap().unwrap();
    let changed = "select array_agg(b.key order by b.key) from windlass.audit u, jsonb_each(u.before) b
        where u.action = 'definition.change' and b.key not in ('updated_at', 'version') and b.value is distinct from u.after -> b.key
        group by u.id order by u.id";
    let rows = client.query(changed, &[]).await.unwrap();
    let fields: Vec<Vec<String>> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(fields, [["is_active"], ["timeout_seconds"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_held_by_an_open_transaction_is_refused_after_a_few_seconds_and_changed_afterwards() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let tenant = queue.tenant("slow").await;
    let app = Login::create(&queue, "windlass_app").await;
    let open = app.client().await;
    set_tenant(&open, Some(tenant)).await;
    open.batch_execute("begin isolation level repeatable read; select windlass.enqueue('a')").await.unwrap();

    let started = Instant::now();
    let suspend = async || {
        let acting = queue.act(Reach::Everything, &Actor::default()).await?;
        let fields = json!({"status": "suspended"});
        let changed = acting.change_tenant(tenant, fields.as_object().unwrap()).await?;
        acting.commit().await?;
        Ok::<_, Error>(changed)
    };
    let refused = suspend().await.unwrap_err();
    assert!(matches!(&refused, Error::Locked { what } if what == "the tenant"), "{refused}");
    assert!(refused.is_transient() && refused.to_string().contains("try again"), "{refused}");
    let acting = queue.act(Reach::Everything, &Actor::default()).await.unwrap();
    let refused = acting.delete_tenant(tenant).await.unwrap_err();
    drop(acting);
    assert!(matches!(&refused, Error::Locked { .. }), "{refused}");
    let refused = queue.ensure_tenant("slow", "renamed", 1).await.unwrap_err();
    assert!(matches!(&refused, Error::Locked { .. }), "{refused}");
    assert!(started.elapsed() < Duration::from_secs(14), "{:?}", started.elapsed());

    open.batch_execute("commit").await.unwrap();
    suspend().await.unwrap();
    let suspended = "select count(*) from windlass.tenants where status = 'suspended'";
    assert_eq!(count(&queue.client().await, suspended).await, 1);
    drop(open);
    app.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_set_while_a_cancel_is_open_and_the_jobs_of_others_can_be_settled() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    let hand = Hand::new(queue.client().await).await;
    let held = queue.enqueue(&NewJob::new("a").tenant(a)).await.unwrap().id;
    for tenant in [a, b, b] {
        queue.enqueue(&NewJob::new("a").tenant(tenant)).await.unwrap();
    }
    let fences = hand.claim_all().await;
    assert_eq!(fences.len(), 4);
    let app = Login::create(&queue, "windlass_app").await;
    let open = app.client().await;
    set_tenant(&open, Some(a)).await;
    open.batch_execute(&format!("begin; select windlass.cancel('{a}', '{held}')")).await.unwrap();

    let started = Instant::now();
    let operator = queue.client().await;
    let limit = "select windlass.change_definition(id, '{\"max_running\": 3}', null) from windlass.job_definitions where key = 'a'";
    operator.batch_execute("set statement_timeout = '10s'").await.unwrap();
    operator.batch_execute(limit).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    queue.enqueue(&NewJob::new("a").tenant(b)).await.unwrap();
    assert!(hand.claim_all().await.is_empty(), "four run, and three may");
    for fence in fences.iter().filter(|fence| fence.tenant == b) {
        assert!(hand.settle(fence, None).await);
    }
    open.batch_execute("commit").await.unwrap();
    drop(open);
    app.drop().await;
}
