//! Work for every duty, for one tenant.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use uuid::Uuid;
use windlass::events::NewEvent;
use windlass::schedule::{NewTrigger, Trigger};
use windlass_testing::TestQueue;

use crate::support::Hand;

/// One tenant's work, at least one item for each duty and each call of a worker.
pub(super) struct World {
    pub(super) tenant: Uuid,
    /// Past its retention; the last of its ordering key, with a dedupe key whose window is over.
    pub(super) old: Uuid,
    /// Runs, and holds a dedupe key.
    pub(super) running: Uuid,
    /// Runs at a worker that misses its heartbeats.
    pub(super) lost: Uuid,
    /// Runs; `waiting` depends on it.
    pub(super) need: Uuid,
    pub(super) waiting: Uuid,
    /// Past their deadlines: queued, scheduled and blocked.
    pub(super) late: Uuid,
    pub(super) late_scheduled: Uuid,
    pub(super) late_blocked: Uuid,
    /// It is due.
    pub(super) due: Uuid,
    pub(super) queued: Uuid,
    pub(super) event: Uuid,
    pub(super) schedule: Trigger,
}

/// A live worker, and one that is not.
pub(super) struct Workers {
    pub(super) alive: Hand,
    pub(super) dead: Hand,
}

impl Workers {
    pub(super) async fn new(queue: &TestQueue) -> Self {
        let alive = Hand::new(queue.client().await).await;
        let soon = json!({"kind": "exponential", "base_seconds": 0.01, "cap_seconds": 0.01, "jitter": 0});
        alive.define(json!({"key": "held", "retention": {"succeeded": 60}, "backoff": soon})).await;
        Self { alive, dead: Hand::new(queue.client().await).await }
    }
}

impl World {
    pub(super) async fn create(queue: &TestQueue, workers: &Workers, slug: &str) -> Self {
        let tenant = queue.tenant(slug).await;
        let hand = &workers.alive;
        let enqueue = async |arguments: &str| {
            hand.enqueue(&format!("'held', tenant_id => '{tenant}', {arguments}")).await
        };
        let old =
            enqueue("ordering_key => 'o', dedupe_key => 'window', uniqueness => '{\"window_seconds\": 1}'")
                .await;
        for fence in hand.claim_all().await {
            assert!(hand.settle(&fence, None).await);
        }
        let age =
            "update windlass.history set finished_at = finished_at - interval '1 hour' where job_id = $1";
        assert_eq!(hand.client.execute(age, &[&old]).await.unwrap(), 1);
        // A rule that has passed this time returns to it only after a while.
        let passed = "delete from windlass.keeper_mark where duty like 'prune %'";
        hand.client.batch_execute(passed).await.unwrap();
        let age = "update windlass.dedupe set until = until - interval '2 days' where job_id = $1";
        assert_eq!(hand.client.execute(age, &[&old]).await.unwrap(), 1);

        let lost = enqueue("payload => '{}'").await;
        workers.dead.claim_all().await;
        let running = enqueue("dedupe_key => 'r'").await;
        let need = enqueue("payload => '{}'").await;
        hand.claim_all().await;
        let waiting = enqueue(&format!("depends_on => array['{need}'::uuid]")).await;
        let far = "deadline => now() + interval '1 hour'";
        let late = enqueue(far).await;
        let late_scheduled = enqueue(&format!("delay => '1 day', {far}")).await;
        let late_blocked = enqueue(&format!("depends_on => array['{running}'::uuid], {far}")).await;
        let due = enqueue("delay => '1 hour'").await;
        let queued = enqueue("payload => '{}'").await;

        let trigger = NewTrigger::schedule("each minute", "* * * * *", "held");
        let schedule = queue.create_trigger(tenant, &trigger, "tester").await.unwrap();
        let trigger = NewTrigger::event("on a", "a", "held");
        queue.create_trigger(tenant, &trigger, "tester").await.unwrap();
        let event = queue.emit(&NewEvent::new("a").tenant(tenant)).await.unwrap().id;
        let world = Self {
            tenant,
            old,
            running,
            lost,
            need,
            waiting,
            late,
            late_scheduled,
            late_blocked,
            due,
            queued,
            event,
            schedule,
        };
        world.let_time_pass(hand).await;
        world
    }

    /// Deadlines have passed and instants are due.
    async fn let_time_pass(&self, hand: &Hand) {
        let pass = format!(
            "update windlass.expiry set expires_at = clock_timestamp() - interval '1 s' where tenant_id = '{0}';
             update windlass.job set deadline = clock_timestamp() - interval '1 s' where tenant_id = '{0}' and deadline is not null;
             update windlass.deferred set due_at = clock_timestamp() - interval '1 s' where tenant_id = '{0}' and job_id = '{1}';
             delete from windlass.keeper_mark where duty like 'prune %'",
            self.tenant, self.due
        );
        hand.client.batch_execute(&pass).await.unwrap();
        let instant = Timestamp::now() - SignedDuration::from_secs(5);
        let set = "update windlass.job_triggers set next_due_at = date_trunc('minute', $2::timestamptz) where id = $1";
        hand.client.execute(set, &[&self.schedule.id, &instant]).await.unwrap();
    }

    /// A statement of an application, with this tenant's jobs by their names.
    pub(super) fn fill_in(&self, statement: &str) -> String {
        let jobs = [
            ("{old}", self.old),
            ("{running}", self.running),
            ("{lost}", self.lost),
            ("{need}", self.need),
            ("{waiting}", self.waiting),
            ("{late}", self.late),
            ("{late_scheduled}", self.late_scheduled),
            ("{late_blocked}", self.late_blocked),
            ("{due}", self.due),
            ("{queued}", self.queued),
            ("{tenant}", self.tenant),
        ];
        jobs.iter()
            .fold(statement.to_owned(), |text, (name, id)| text.replace(name, &format!("'{id}'::uuid")))
    }
}
