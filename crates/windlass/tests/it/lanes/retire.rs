//! Lanes that are no longer used: they do not count for the limits, and are deleted in the end. A job that is added to one late
//! is not lost.

use tokio_postgres::Client;
use uuid::Uuid;
use windlass::NewJob;
use windlass::keeper::Duty;
use windlass_testing::{Login, TestQueue, eventually, until_a_session_waits};

use super::{bounded, refused_for};
use crate::support::{assert_counts_are_exact, count, keeper, status};

const DAY: &str = "update windlass.lane set idle_since = idle_since - interval '1 day'";
const WEEK: &str = "update windlass.lane set retired_at = retired_at - interval '7 days'";
const LANES: &str = "select count(*) from windlass.lane where queue like '2026-%'";
const RETIRED: &str =
    "select count(*) from windlass.lane where queue like '2026-%' and retired_at is not null";
const IN_USE: &str = "select count(*) from windlass.lane where queue = '2026-01-01' and retired_at is null";

struct World {
    queue: TestQueue,
    client: Client,
    tenant: Uuid,
}

impl World {
    /// A tenant with three queue names, two of which had a job that was purged.
    async fn create() -> Self {
        let queue = TestQueue::create().await;
        let tenant = bounded(&queue, 100, 3).await;
        let client = queue.client().await;
        let world = Self { queue, client, tenant };
        world.queue.enqueue(&NewJob::new("a").tenant(tenant)).await.unwrap();
        for date in ["2026-01-01", "2026-01-02"] {
            world.enqueue_and_purge_one(date).await;
        }
        world
    }

    fn job(&self, queue: &str) -> NewJob {
        NewJob::new("a").tenant(self.tenant).queue(queue)
    }

    /// A job that is enqueued and purged.
    async fn enqueue_and_purge_one(&self, queue: &str) {
        let id = self.queue.enqueue(&self.job(queue)).await.unwrap().id;
        self.queue.purge(self.tenant, &[id]).await.unwrap();
    }

    /// A visit of all lanes.
    async fn visit(&self) {
        self.client.batch_execute("update windlass.lane_mark set at_lane = 0").await.unwrap();
        for duty in [Duty::Fold, Duty::Prune] {
            keeper(&self.queue).run_once(duty).await.unwrap();
        }
    }

    async fn retire(&self) {
        self.visit().await;
        self.client.batch_execute(DAY).await.unwrap();
        self.visit().await;
    }

    /// Unless an open transaction may have used them.
    async fn delete(&self) {
        self.client.batch_execute(WEEK).await.unwrap();
        self.visit().await;
        self.visit().await;
    }

    async fn count(&self, query: &str) -> i64 {
        count(&self.client, query).await
    }

    async fn lane(&self, queue: &str) -> i32 {
        let query = "select id from windlass.lane where queue = $1";
        self.client.query_one(query, &[&queue]).await.unwrap().get(0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_queue_names_are_retired_to_make_room() {
    let world = World::create().await;
    refused_for(world.queue.enqueue(&world.job("2026-01-03")).await);
    world.visit().await;
    refused_for(world.queue.enqueue(&world.job("2026-01-03")).await);
    world.client.batch_execute(DAY).await.unwrap();
    world.visit().await;
    assert_eq!(world.count(RETIRED).await, 2);
    for date in ["2026-01-03", "2026-01-04"] {
        world.queue.enqueue(&world.job(date)).await.unwrap();
    }
    // Another process, without a cached route: a lane that is used again counts as new.
    let call =
        format!("select windlass.enqueue('a', tenant_id => '{}', queue => '2026-01-01')", world.tenant);
    let refused = world.client.batch_execute(&call).await.unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("WL014"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_in_use_or_with_history_is_not_retired() {
    let world = World::create().await;
    world.queue.enqueue(&world.job("2026-01-02")).await.unwrap();
    world.visit().await;
    world.client.batch_execute(DAY).await.unwrap();
    // Empty at both visits, and used in between.
    world.enqueue_and_purge_one("2026-01-01").await;
    world.visit().await;
    assert_eq!(world.count(RETIRED).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retired_lane_is_deleted_after_a_week_and_its_jobs_stay_counted() {
    let world = World::create().await;
    let enqueued = async || {
        let counts = world.queue.counts(Some(world.tenant)).await.unwrap();
        counts.iter().map(windlass::job::Counts::enqueued).sum::<i64>()
    };
    world.retire().await;
    world.visit().await;
    assert_eq!(world.count(LANES).await, 2, "not yet");
    world.client.batch_execute(WEEK).await.unwrap();
    // Transactions of other tests on the same server may have to end first.
    eventually("they are deleted", async || {
        world.visit().await;
        world.count(LANES).await == 0
    })
    .await;
    assert_eq!(enqueued().await, 3);
    assert_counts_are_exact(&world.client).await;
    // The name can be used again.
    let call =
        format!("select windlass.enqueue('a', tenant_id => '{}', queue => '2026-01-01')", world.tenant);
    world.client.batch_execute(&call).await.unwrap();
}

/// The jobs of an open transaction are invisible, and they are in the lane once it commits.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_an_open_transaction_is_found_in_its_lane() {
    let world = World::create().await;
    let open = world.queue.client().await;
    let call = format!(
        "select e.id from windlass.enqueue('a', tenant_id => '{}', queue => '2026-01-01') e",
        world.tenant
    );
    open.batch_execute("begin").await.unwrap();
    let job: Uuid = open.query_one(&call, &[]).await.unwrap().get(0);
    world.retire().await;
    assert_eq!(world.count(RETIRED).await, 2);
    world.delete().await;
    assert_eq!(world.count(LANES).await, 2, "the transaction may have used either");
    open.batch_execute("commit").await.unwrap();
    assert_eq!(status(&world.client, job).await, "queued");
    let claimable = "select count(*) from windlass.active_lanes(null, null) where queue = '2026-01-01'";
    assert_eq!(world.count(claimable).await, 1);
    world.visit().await;
    assert_eq!(world.count(IN_USE).await, 1);
}

/// A process caches a route for a few seconds, and the lane may be retired meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_enqueued_by_a_cached_route_is_found_in_its_lane() {
    let world = World::create().await;
    world.retire().await;
    let (job, lane) = (Uuid::now_v7(), world.lane("2026-01-01").await);
    let call = "select windlass.enqueue_routed($1, $2, $3, 3::smallint, '{}', null)";
    world.client.execute(call, &[&world.tenant, &job, &lane]).await.unwrap();
    assert_eq!(status(&world.client, job).await, "queued");
    world.delete().await;
    assert_eq!(status(&world.client, job).await, "queued");
    assert_eq!(world.count(IN_USE).await, 1);
}

/// A caller that keeps the numbers of lanes has no more of them than the limit allows.
#[tokio::test(flavor = "multi_thread")]
async fn retired_lane_numbers_do_not_bypass_a_limit() {
    let world = World::create().await;
    world.retire().await;
    for date in ["2026-01-03", "2026-01-04"] {
        world.queue.enqueue(&world.job(date)).await.unwrap();
    }
    let lane = world.lane("2026-01-01").await;
    let role = Login::create(&world.queue, "windlass_app").await;
    let client = role.client().await;
    let call = format!(
        "begin; set local windlass.tenant_id = '{0}'; select windlass.enqueue_routed('{0}', gen_random_uuid(), {lane}, 3::smallint, '{{}}', null)",
        world.tenant
    );
    let refused = client.batch_execute(&call).await.unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("WL014"), "{refused}");
    drop(client);
    role.drop().await;
}

/// Using a lane again and deleting it exclude each other.
#[tokio::test(flavor = "multi_thread")]
async fn a_lane_that_an_open_transaction_uses_again_is_not_deleted() {
    let world = World::create().await;
    world.retire().await;
    world.client.batch_execute(WEEK).await.unwrap();
    world.visit().await;
    let open = world.queue.client().await;
    let call = format!(
        "begin; select windlass.enqueue('a', tenant_id => '{}', queue => '2026-01-01')",
        world.tenant
    );
    open.batch_execute(&call).await.unwrap();
    let lane = world.lane("2026-01-01").await;
    world.visit().await;
    open.batch_execute("commit").await.unwrap();
    world.visit().await;
    assert_eq!(world.lane("2026-01-01").await, lane);
    assert_eq!(world.count(IN_USE).await, 1);
}

/// it is refused like a lane that does not exist. Before, the job was accepted and never claimed.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_for_a_lane_that_is_being_deleted_is_refused() {
    let world = World::create().await;
    world.retire().await;
    world.client.batch_execute(WEEK).await.unwrap();
    world.visit().await;
    let lane = world.lane("2026-01-01").await;
    let keeper = world.queue.client().await;
    // Transactions of other tests on the same server may have to end first.
    eventually("it is deleted", async || {
        let delete = "begin; update windlass.lane_mark set at_lane = 0; select windlass.retire_lanes(1000)";
        keeper.batch_execute(delete).await.unwrap();
        let is_gone = count(&keeper, LANES).await == 0;
        if !is_gone {
            keeper.batch_execute("commit").await.unwrap();
        }
        is_gone
    })
    .await;
    let role = Login::create(&world.queue, "windlass_app").await;
    let client = role.client().await;
    let call = format!(
        "begin; set local windlass.tenant_id = '{0}'; select windlass.enqueue_routed('{0}', gen_random_uuid(), {lane}, 3::smallint, '{{}}', null)",
        world.tenant
    );
    let enqueuing = tokio::spawn(async move { client.batch_execute(&call).await });
    until_a_session_waits(&world.client).await;
    keeper.batch_execute("commit").await.unwrap();
    let refused = enqueuing.await.unwrap().unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("WL007"), "{refused}");
    role.drop().await;
}
