//! One application calls every function that it may, from many connections, with the largest allowed arguments and with larger
//! ones, while another does ordinary work. No call of the other is rejected, lost or stuck, and arguments that are too large are
//! rejected by name.
//!
//! Built from the catalog, so that a new function of applications is included. The HTTP routes have the same test in `windlass-server`.

mod largest;

use std::collections::BTreeSet;

use serde_json::Value;
use tokio::task::JoinSet;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use windlass::schedule::NewTrigger;
use windlass::{Context, Definition, Done, Failure, Handler};
use windlass_testing::{Login, TestQueue, eventually};

use crate::access::set_tenant;
use crate::support::{Acting, count, worker};
use largest::{Size, calls};

const CONNECTIONS: usize = 6;
/// The maximum number of jobs of the loud tenant.
const QUOTA: i64 = 3000;

/// The loud tenant's jobs.
struct Loud;

windlass_testing::payload!(LoudArgs(Value) = "loud");

impl Handler for Loud {
    type Args = LoudArgs;

    async fn run(&self, _: &Context, _: LoudArgs) -> Result<Done, Failure> {
        Ok(Done::new())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_under_maximum_load_does_not_block_another() {
    let queue = TestQueue::create_apart().await;
    let admin = queue.client().await;
    for key in ["acting", "loud"] {
        queue.define(&Definition::new(key)).await.unwrap();
    }
    let (quiet, loud) = (queue.tenant("quiet").await, queue.tenant("loud").await);
    let quota = "update windlass.tenants set max_queued = $2 where id = $1";
    admin.execute(quota, &[&loud, &QUOTA]).await.unwrap();
    for (tenant, key) in [(quiet, "acting"), (loud, "loud")] {
        let trigger = NewTrigger::event("on", "*", key).dedupe_window_seconds(0);
        queue.create_trigger(tenant, &trigger, "tester").await.unwrap();
    }
    let worker = worker(&queue).handler(Acting).handler(Loud).start().await.unwrap();
    let (quiets, louds) =
        (Login::create(&queue, "windlass_app").await, Login::create(&queue, "windlass_app").await);

    let over = CancellationToken::new();
    let working = tokio::spawn(work(quiets.client().await, quiet, over.clone()));
    let calls = calls(&admin, loud).await;
    let mut callers = JoinSet::new();
    for number in 0..CONNECTIONS {
        let (client, mut calls) = (louds.client().await, calls.clone());
        // So that different functions run concurrently.
        let first = number * calls.len() / CONNECTIONS;
        calls.rotate_left(first);
        callers.spawn(async move { shout(&client, loud, &calls).await });
    }
    let refusals: BTreeSet<_> = callers.join_all().await.into_iter().flatten().collect();
    over.cancel();
    let rounds = working.await.unwrap();
    assert!(rounds > 0);
    let succeeded =
        format!("select count(*) from windlass.jobs where tenant_id = '{quiet}' and status = 'succeeded'");
    eventually("every job of the quiet tenant has succeeded", async || {
        count(&admin, &succeeded).await == 2 * rounds
    })
    .await;
    let others =
        format!("select count(*) from windlass.jobs where tenant_id = '{quiet}' and status <> 'succeeded'");
    assert_eq!(count(&admin, &others).await, 0);
    worker.stop().await.unwrap();
    quiets.drop().await;
    louds.drop().await;
    judge(&refusals);
}

/// Round after round until the load has ended: a job, an event that starts one, and a read. Returns the number of rounds.
async fn work(client: Client, tenant: Uuid, over: CancellationToken) -> i64 {
    set_tenant(&client, Some(tenant)).await;
    let mut rounds = 0;
    while !over.is_cancelled() {
        client.execute("select windlass.enqueue('acting', '{}')", &[]).await.unwrap();
        client.execute("select windlass.emit('it.happened', '{}')", &[]).await.unwrap();
        let seen = "select from windlass.jobs where definition_key = 'acting' order by id desc limit 20";
        assert!(!client.query(seen, &[]).await.unwrap().is_empty());
        rounds += 1;
    }
    rounds
}

/// A call, and how it was rejected: the SQLSTATE, and the field if the error names one.
type Refusal = (String, String, Option<String>);

async fn shout(client: &Client, tenant: Uuid, calls: &[(String, Size, String)]) -> Vec<Refusal> {
    set_tenant(client, Some(tenant)).await;
    let mut refusals = Vec::new();
    for (name, size, call) in calls {
        if let Err(error) = client.batch_execute(&format!("select {call}")).await {
            let error = error.as_db_error().expect("the connection works");
            let field = error.column().map(str::to_owned);
            refusals.push((format!("{name} {size:?}"), error.code().code().to_owned(), field));
        }
    }
    refusals
}

/// Rejections have our own message, and name the field that is too large.
fn judge(refusals: &BTreeSet<Refusal>) {
    let is_clear = |(_, code, field): &&Refusal| match code.as_str() {
        "WL005" | "WL007" => field.is_some(),
        code => code.starts_with("WL"),
    };
    let unclear: Vec<_> = refusals.iter().filter(|refusal| !is_clear(refusal)).collect();
    assert!(unclear.is_empty(), "{unclear:#?}");
    for wanted in ["payload", "tags", "max_attempts", "name", "depends_on"] {
        let is_met = |(_, _, field): &Refusal| field.as_deref() == Some(wanted);
        assert!(refusals.iter().any(is_met), "nothing was rejected for its {wanted}: {refusals:#?}");
    }
}
