//! A transaction that has reactivated a lane locks its row. A keeper that needs the lane for an event or a schedule leaves
//! that to a later round.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::events::NewEvent;
use windlass::keeper::Duty;
use windlass::schedule::NewTrigger;
use windlass_testing::{TestQueue, eventually};

use super::round;
use crate::support::{Hand, count};

/// How many different definitions have a trigger; each has a lane of its own.
const KEYS: usize = 5;

/// Two tenants with the same triggers. All lanes of the first one are retired, and its open transaction uses them again.
async fn two_tenants(new: fn(&str) -> NewTrigger) -> (TestQueue, Client, Client, Uuid, Uuid) {
    let queue = TestQueue::create_apart().await;
    let hand = Hand::new(queue.client().await).await;
    let (open, other) = (queue.tenant("open").await, queue.tenant("other").await);
    let mut begin = format!("set role windlass_app; set windlass.tenant_id = '{open}'; begin");
    for n in 0..KEYS {
        let key = format!("held-{n}");
        hand.define(json!({"key": key})).await;
        for tenant in [open, other] {
            queue.create_trigger(tenant, &new(&key), "tester").await.unwrap();
        }
        begin.push_str(&format!("; select windlass.enqueue('{key}')"));
    }
    let retire = "update windlass.lane set retired_at = now() where tenant_id = $1";
    assert_eq!(hand.client.execute(retire, &[&open]).await.unwrap(), KEYS as u64);
    let application = queue.client().await;
    application.batch_execute(&begin).await.unwrap();
    (queue, hand.client, application, open, other)
}

///
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_that_uses_a_retired_lane_blocks_no_event_of_another_tenant() {
    let (queue, client, application, open, other) =
        two_tenants(|key| NewTrigger::event(format!("on {key}"), key, key)).await;
    for n in 0..KEYS {
        for tenant in [open, other] {
            let name = format!("held-{n}");
            queue.emit(&NewEvent::new(&name).tenant(tenant)).await.unwrap();
        }
    }
    queue.emit(&NewEvent::new("unheard").tenant(open)).await.unwrap();
    let waiting =
        |tenant: Uuid| format!("select count(*) from windlass.event_pending where tenant_id = '{tenant}'");
    round(&queue, Duty::Dispatch, "a retired lane").await;
    assert_eq!(count(&client, &waiting(other)).await, 0, "the other tenant does not wait");
    assert_eq!(
        count(&client, &waiting(open)).await,
        KEYS as i64,
        "an event that needs no lane does not wait"
    );
    application.batch_execute("commit").await.unwrap();
    eventually("the events are dispatched after the commit", async || {
        round(&queue, Duty::Dispatch, "a lane in use").await;
        count(&client, &waiting(open)).await == 0
    })
    .await;
    let fired = "select count(*) from windlass.event_dispatch where outcome = 'fired'";
    assert_eq!(count(&client, fired).await, 2 * KEYS as i64);
}

///
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_that_uses_a_retired_lane_blocks_no_schedule_of_another_tenant() {
    let (queue, client, application, open, other) =
        two_tenants(|key| NewTrigger::schedule(format!("each minute {key}"), "* * * * *", key)).await;
    let instant = Timestamp::now() - SignedDuration::from_secs(5);
    let due = "update windlass.job_triggers set next_due_at = date_trunc('minute', $1::timestamptz)";
    client.execute(due, &[&instant]).await.unwrap();
    let fired = |tenant: Uuid| {
        format!(
            "select count(distinct trigger_id) from windlass.fire where tenant_id = '{tenant}' and outcome = 'fired'"
        )
    };
    round(&queue, Duty::Schedule, "a retired lane").await;
    assert_eq!(count(&client, &fired(other)).await, KEYS as i64, "the other tenant does not wait");
    assert_eq!(count(&client, &fired(open)).await, 0);
    let noted = "select count(*) from windlass.problem where duty = 'schedule'";
    assert_eq!(
        count(&client, noted).await,
        4,
        "three schedules were tried, and then the tenant was set aside"
    );
    application.batch_execute("commit").await.unwrap();
    eventually("the schedules fire after the commit", async || {
        round(&queue, Duty::Schedule, "a lane in use").await;
        count(&client, &fired(open)).await == KEYS as i64
    })
    .await;
    eventually("nothing is left of it", async || {
        round(&queue, Duty::Schedule, "a lane in use").await;
        count(&client, noted).await == 0
    })
    .await;
}
