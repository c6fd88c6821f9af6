//! Dispatchers that are killed and frozen while events are emitted.

use rustix::process::Signal;
use serde_json::json;
use uuid::Uuid;
use windlass::DEFAULT_TENANT;
use windlass::schedule::NewTrigger;
use windlass_testing::{TestQueue, eventually};

use super::accounting::{number, settle_accounts};
use super::fleet::Fleet;

const ROUNDS: i64 = 4;
const EVENTS: i64 = 250;
const TRIGGERS: i64 = 3;

/// However a dispatcher dies: one job for each event at each trigger, none lost and none twice.
#[tokio::test(flavor = "multi_thread")]
async fn events_create_one_job_per_trigger_even_if_dispatchers_crash() {
    let (queue, fleet) = (TestQueue::create().await, Fleet::new());
    let client = queue.client().await;
    let flags = [("--lease-ms", "1000"), ("--heartbeat-ms", "300"), ("--reap-ms", "300")];
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(fleet.spawn(queue.url(), &flags).await);
    }
    for n in 0..TRIGGERS {
        let new = NewTrigger::event(n.to_string(), "load.*", "work")
            .dedupe_window_seconds(0)
            .payload_template(json!({"ms": "{{event.ms}}"}));
        queue.create_trigger(DEFAULT_TENANT, &new, "tester").await.unwrap();
    }
    let dispatched = "select count(*) from windlass.event_dispatch";
    for _ in 0..ROUNDS {
        let frozen = workers.remove(0);
        frozen.signal(Signal::STOP);
        let before = number(&client, dispatched).await;
        // One transaction each, as an application emits them.
        let emit = "do $$ begin for n in 1..250 loop perform windlass.emit('load.tick', '{\"ms\": 0}'); commit; end loop; end $$";
        client.batch_execute(emit).await.unwrap();
        eventually("a dispatcher is working", async || number(&client, dispatched).await > before).await;
        // One of the two that run leads; both die, one after the other, and are replaced.
        workers.remove(0).kill().await;
        workers.push(fleet.spawn(queue.url(), &flags).await);
        workers.remove(0).kill().await;
        workers.push(fleet.spawn(queue.url(), &flags).await);
        // It resumes in the middle of its work, long after others did it.
        frozen.signal(Signal::CONT);
        workers.push(frozen);
    }
    eventually("the outbox is empty", async || {
        number(&client, "select count(*) from windlass.event_pending").await == 0
    })
    .await;
    let all = ROUNDS * EVENTS * TRIGGERS;
    assert_eq!(number(&client, "select count(*) from windlass.event").await, ROUNDS * EVENTS);
    assert_eq!(
        number(&client, "select count(*) from windlass.event_dispatch where outcome = 'fired'").await,
        all
    );
    assert_eq!(number(&client, "select count(*) from windlass.job").await, all, "one job each, and no other");
    let strange = "select count(*) from windlass.event_dispatch d left join windlass.job b on b.id = d.job_id and b.source_ref = d.event_id::text
                    where b.id is null";
    assert_eq!(number(&client, strange).await, 0, "each is the job of its event");
    let jobs: Vec<Uuid> = client
        .query("select job_id from windlass.event_dispatch", &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    settle_accounts(&client, &fleet, &jobs, &jobs).await;
    for worker in workers {
        worker.finish().await;
    }
}
