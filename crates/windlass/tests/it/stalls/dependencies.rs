//! An open transaction has locked what the end of many jobs of its tenant needs. The keeper ends the jobs of others meanwhile,
//! and does not wait for each job of the tenant.

use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::keeper::Duty;
use windlass::pull::{Claim, Pull, Puller};
use windlass::{Definition, NewJob};
use windlass_testing::{TestQueue, eventually};

use super::{limited, round};
use crate::support::{Hand, count, status, until};

const PAIRS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Held {
    /// A retry of a canceled job behind each of them: it locks what that job waits for, which is left for later.
    Dependencies,
    /// The keys that they release.
    Keys,
}

/// How many problems are noted: after three jobs that had to wait, the tenant is set aside.
const NOTED: [(Held, i64); 2] = [(Held::Dependencies, 0), (Held::Keys, 4)];

async fn hold(held: Held, queue: &TestQueue, hand: &Hand, tenant: Uuid) -> Client {
    if held == Held::Dependencies {
        return retry_behind(queue, hand, tenant, &keys()).await;
    }
    let application = queue.client().await;
    let lock = format!("begin; select from windlass.dedupe where tenant_id = '{tenant}' for update");
    application.batch_execute(&lock).await.unwrap();
    application
}

/// Opens a transaction that retries a canceled job behind each of these ordering keys.
async fn retry_behind(queue: &TestQueue, hand: &Hand, tenant: Uuid, keys: &[String]) -> Client {
    let mut begin = format!("set role windlass_app; set windlass.tenant_id = '{tenant}'; begin");
    for key in keys {
        let behind = format!("'held', tenant_id => '{tenant}', ordering_key => '{key}', if_unmet => 'run'");
        let behind = hand.enqueue(&behind).await;
        let cancel = "select windlass.cancel($1, $2)";
        assert_eq!(
            hand.client.query_one(cancel, &[&tenant, &behind]).await.unwrap().get::<_, String>(0),
            "canceled"
        );
        begin.push_str(&format!("; select windlass.retry('{tenant}', '{behind}', 'tester')"));
    }
    let application = queue.client().await;
    application.batch_execute(&begin).await.unwrap();
    application
}

fn keys() -> Vec<String> {
    (0..PAIRS).map(|n| format!("k{n}")).collect()
}

/// A-337
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_delays_no_deadline_of_another_tenant() {
    for (held, problems) in NOTED {
        no_deadline_is_delayed(held, problems).await;
    }
}

async fn no_deadline_is_delayed(held: Held, problems: i64) {
    let queue = TestQueue::create_apart().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let (open, other) = (queue.tenant("open").await, queue.tenant("other").await);
    let late = "delay => '1 day', deadline => now() + interval '1 hour'";
    let mut first = Vec::new();
    for key in keys() {
        let arguments =
            format!("'held', tenant_id => '{open}', ordering_key => '{key}', dedupe_key => '{key}', {late}");
        first.push(hand.enqueue(&arguments).await);
    }
    let single = hand.enqueue(&format!("'held', tenant_id => '{other}', {late}")).await;
    let application = hold(held, &queue, &hand, open).await;
    let pass = "update windlass.expiry set expires_at = clock_timestamp() - interval '1 s';
        update windlass.job set deadline = clock_timestamp() - interval '1 s' where deadline is not null";
    hand.client.batch_execute(pass).await.unwrap();

    round(&queue, Duty::Expire, "an open transaction").await;
    assert_eq!(status(&hand.client, single).await, "failed");
    let noted = "select count(*) from windlass.problem where duty = 'expire'";
    assert_eq!(count(&hand.client, noted).await, problems, "{held:?}");
    application.batch_execute("commit").await.unwrap();
    for job in first {
        eventually("its deadline passes too", async || {
            round(&queue, Duty::Expire, "after the transaction").await;
            status(&hand.client, job).await == "failed"
        })
        .await;
    }
    assert_eq!(count(&hand.client, noted).await, 0, "nothing is left of it");
}

/// A-338
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_delays_no_lost_job_of_another_tenants_pull_workers() {
    for (held, problems) in NOTED {
        no_lost_job_is_delayed(held, problems).await;
    }
}

/// The keeper waited for each of them.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_delays_no_lost_job_of_another_tenant() {
    for (held, problems) in NOTED {
        let queue = TestQueue::create_apart().await;
        let hand = Hand::new(queue.client().await).await;
        hand.define(json!({"key": "held", "max_lost": 1})).await;
        let (open, other) = (queue.tenant("open").await, queue.tenant("other").await);
        for key in keys() {
            let arguments =
                format!("'held', tenant_id => '{open}', ordering_key => '{key}', dedupe_key => '{key}'");
            hand.enqueue(&arguments).await;
        }
        let single = hand.enqueue(&format!("'held', tenant_id => '{other}'")).await;
        assert_eq!(hand.claim_all().await.len(), PAIRS + 1);
        let application = hold(held, &queue, &hand, open).await;
        hand.miss_heartbeats().await;

        round(&queue, Duty::Reap, "an open transaction").await;
        until(&hand.client, single, "dead_letter").await;
        let noted = "select count(*) from windlass.problem where duty = 'reap'";
        assert_eq!(count(&hand.client, noted).await, problems, "{held:?}");
        application.batch_execute("commit").await.unwrap();
        eventually("its jobs are recovered too", async || {
            round(&queue, Duty::Reap, "after the transaction").await;
            count(&hand.client, "select count(*) from windlass.live").await == 0
        })
        .await;
        assert_eq!(count(&hand.client, noted).await, 0, "nothing is left of it");
    }
}

async fn no_lost_job_is_delayed(held: Held, problems: i64) {
    let queue = TestQueue::create_apart().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("held")).await.unwrap();
    let (open, other) = (queue.tenant("open").await, queue.tenant("other").await);
    let ordered = |key: &String| NewJob::new("held").tenant(open).ordering_key(key).dedupe_key(key);
    for key in keys() {
        queue.enqueue(&ordered(&key)).await.unwrap();
    }
    let single = queue.enqueue(&NewJob::new("held").tenant(other)).await.unwrap().id;
    let pull = Pull::start(queue.queue()).await.unwrap();
    for (tenant, jobs) in [(open, PAIRS), (other, 1)] {
        let claim = Claim::new(["held"]).worker_id(Some("own".to_owned())).limit(10);
        let claimed = pull.claim(&Puller::new("own").tenant(tenant), claim).await.unwrap().deliver();
        assert_eq!(claimed.len(), jobs);
    }
    let application = hold(held, &queue, &hand, open).await;
    let expire = "update windlass.pull_lease set expires_at = now() - interval '1 s'";
    hand.client.batch_execute(expire).await.unwrap();

    let reap = "select coalesce(cardinality(l.tenants), 0) from (select array_agg(l.tenant_id) as tenants, array_agg(l.job_id) as jobs,
            array_agg(l.attempt) as attempts, array_agg(l.token) as tokens, array_agg($1::jsonb) as details
          from windlass.pull_lost_jobs(100) l) l, windlass.pull_reap(l.tenants, l.jobs, l.attempts, l.tokens, l.details) r";
    let lost = json!({"outcome": 5, "next": 3, "failures": 1, "lost": 1, "snoozes": 0, "reason": "attempts_exhausted"});
    let reaped =
        async || -> i32 { limited("a reap", hand.client.query_one(reap, &[&lost])).await.unwrap().get(0) };
    assert_eq!(reaped().await, 1 + PAIRS as i32);
    until(&hand.client, single, "dead_letter").await;
    let noted = "select count(*) from windlass.problem where duty = 'reap'";
    assert_eq!(count(&hand.client, noted).await, problems, "{held:?}");
    application.batch_execute("commit").await.unwrap();
    let left = "select count(*) from windlass.pull_lease";
    eventually("its jobs are recovered too", async || {
        reaped().await;
        count(&hand.client, left).await == 0
    })
    .await;
    assert_eq!(count(&hand.client, noted).await, 0, "nothing is left of it");
    pull.stop().await;
}
