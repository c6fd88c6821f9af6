//! Isolation levels other than read committed.

use serde_json::json;
use windlass::keeper::Duty;
use windlass::{Definition, NewJob, Settings};
use windlass_testing::{TestQueue, settings};

use crate::support::{Acting, Hand, Held, count, keeper, status, until, worker};

const REPEATABLE: [(&str, &str); 1] = [("default_transaction_isolation", "'repeatable read'")];

/// Three lanes, a limit of three, and workers that claim at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_limit_holds_where_transactions_are_repeatable_read_by_default() {
    let queue = TestQueue::create_under(&REPEATABLE).await;
    let client = queue.client().await;
    client.batch_execute("set default_transaction_isolation = 'read committed'").await.unwrap();
    let (handler, mut desk) = Held::with(|definition| definition.max_running(3));
    let (second, mut other_desk) = Held::with(|definition| definition.max_running(3));
    let workers = [
        worker(&queue).handler(handler).concurrency(8).start().await.unwrap(),
        worker(&queue).handler(second).concurrency(8).start().await.unwrap(),
    ];
    let mut jobs = Vec::new();
    for n in 0..30 {
        let tenant = queue.tenant(&format!("t{}", n % 3)).await;
        jobs.push(queue.enqueue(&NewJob::new("held").tenant(tenant)).await.unwrap().id);
    }
    for _ in 0..30 {
        let run = tokio::select! {
            run = desk.next() => run,
            run = other_desk.next() => run,
        };
        let running = count(&client, "select count(*) from windlass.running").await;
        assert!(running <= 3, "{running} run of 3 allowed");
        run.succeed();
    }
    for job in jobs {
        until(&client, job, "succeeded").await;
    }
    for worker in workers {
        worker.stop().await.unwrap();
    }
}

/// A caller that uses the functions directly gets an error, instead of exceeding the limit.
#[tokio::test]
async fn a_function_that_locks_then_reads_rejects_an_old_snapshot() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let job = hand.enqueue("'held'").await;
    let calls = [
        format!(
            "select windlass.claim({}, gen_random_uuid(), array[lane], array[0::bigint], array[1]) from windlass.line",
            hand.worker
        ),
        format!("select windlass.unclaim({}, gen_random_uuid(), '{{}}', 0)", hand.worker),
        format!("select windlass.purge(windlass.tenant_for(null), array['{job}'::uuid])"),
        "select windlass.place_hold(windlass.tenant_for(null), null, null, null, 'r', 'a')".to_owned(),
        "select windlass.maintain_partitions(1)".to_owned(),
        "select windlass.prune(1)".to_owned(),
        "select windlass.expire(1)".to_owned(),
        "select windlass.fold_tallies(1)".to_owned(),
        "select windlass.seal_audit(1)".to_owned(),
        "select windlass.sample_activity(1)".to_owned(),
        "select windlass.prune_events(1)".to_owned(),
        "select windlass.purge_deleted_tenants(1)".to_owned(),
        "select windlass.purge_tenant(gen_random_uuid(), 1)".to_owned(),
        "select windlass.reset_password('', '')".to_owned(),
        "select windlass.create_password_reset(windlass.tenant_for(null), gen_random_uuid(), '', 1, 'a')"
            .to_owned(),
        "select windlass.accept_invitation(windlass.tenant_for(null), '', '')".to_owned(),
        format!("select windlass.set_waiting({}, false)", hand.worker),
    ];
    for level in ["repeatable read", "serializable"] {
        for call in &calls {
            hand.client.batch_execute(&format!("begin isolation level {level}")).await.unwrap();
            let error = hand.client.batch_execute(call).await.expect_err(call);
            assert_eq!(error.code().unwrap().code(), "WL021", "{call}: {error:?}");
            hand.client.batch_execute("rollback").await.unwrap();
        }
    }
    assert_eq!(status(&hand.client, job).await, "queued");
}

/// The application's own transaction is not changed.
#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_is_part_of_a_transaction_of_any_level() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("acting")).await.unwrap();
    let served = worker(&queue).handler(Acting).start().await.unwrap();
    let mut own = queue.client().await;
    for level in
        [tokio_postgres::IsolationLevel::RepeatableRead, tokio_postgres::IsolationLevel::Serializable]
    {
        let transaction = own.build_transaction().isolation_level(level).start().await.unwrap();
        let job = NewJob::new("acting").dedupe_key("k").ordering_key("o");
        let id = windlass::enqueue_in(&transaction, &job).await.unwrap().id;
        transaction.commit().await.unwrap();
        until(&client, id, "succeeded").await;
    }
    served.stop().await.unwrap();
}

/// A pooler may use any session, so the settings are part of each transaction.
#[tokio::test(flavor = "multi_thread")]
async fn unnamed_statements_start_their_own_transactions_too() {
    let queue = TestQueue::create_under(&REPEATABLE).await;
    let pooled: Settings = settings(queue.url()).pooled();
    let pooled = windlass::Queue::connect(pooled).await.unwrap();
    pooled.define(&Definition::new("held")).await.unwrap();
    pooled.enqueue(&NewJob::new("held")).await.unwrap();
    keeper(&pooled).run_once(Duty::Partition).await.unwrap();
    keeper(&pooled).run_once(Duty::Expire).await.unwrap();
    let client = queue.client().await;
    assert_eq!(count(&client, "select count(*) from windlass.job").await, 1);
}
