//! Invariant 25: of a limited definition, and of a limited tenant, never more jobs run than the limit, under any number of
//! concurrent claims; and freed places are taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use uuid::Uuid;
use windlass::admin::Reach;
use windlass::{Context, DEFAULT_TENANT, Definition, Done, Failure, Handler, NewJob, Worker};
use windlass_testing::{TestQueue, eventually};

use crate::support::{Hand, Held, assert_counts_are_exact, count, ending, until, worker};

/// Counts how many run at the same time, over all workers that share it.
#[derive(Clone, Default)]
struct Crowd {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

windlass_testing::payload!(CrowdArgs(serde_json::Value) = "crowd");

impl Handler for Crowd {
    type Args = CrowdArgs;

    async fn run(&self, _: &Context, _: CrowdArgs) -> Result<Done, Failure> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        // Long enough for the others to start, if they were allowed.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        self.now.fetch_sub(1, Ordering::SeqCst);
        Ok(Done::new())
    }
}

async fn crowded(queue: &TestQueue, crowd: &Crowd, tenants: &[Uuid]) -> Vec<Worker> {
    let jobs: Vec<NewJob> =
        (0..90).map(|n: usize| NewJob::new("crowd").tenant(tenants[n % tenants.len()])).collect();
    queue.enqueue_many(&jobs).await.unwrap();
    let mut workers = Vec::new();
    for _ in 0..4 {
        workers.push(worker(queue).handler(crowd.clone()).concurrency(10).start().await.unwrap());
    }
    let client = queue.client().await;
    let done = "select count(*) from windlass.jobs where status = 'succeeded'";
    eventually("all have run", async || count(&client, done).await == 90).await;
    workers
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_never_exceeds_its_limit_with_any_number_of_workers() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("crowd").max_running(3)).await.unwrap();
    let tenants = [DEFAULT_TENANT, queue.tenant("a").await, queue.tenant("b").await];
    let crowd = Crowd::default();
    for worker in crowded(&queue, &crowd, &tenants).await {
        worker.stop().await.unwrap();
    }
    assert!(crowd.most.load(Ordering::SeqCst) <= 3, "{} ran at once", crowd.most.load(Ordering::SeqCst));
    assert_counts_are_exact(&queue.client().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_never_exceeds_its_limit() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("crowd")).await.unwrap();
    let tenant = queue.tenant("small").await;
    let limit = "update windlass.tenants set max_running = 2 where id = $1";
    queue.client().await.execute(limit, &[&tenant]).await.unwrap();
    let crowd = Crowd::default();
    for worker in crowded(&queue, &crowd, &[tenant]).await {
        worker.stop().await.unwrap();
    }
    assert!(crowd.most.load(Ordering::SeqCst) <= 2, "{} ran at once", crowd.most.load(Ordering::SeqCst));
}

/// It polls once an hour.
#[tokio::test(flavor = "multi_thread")]
async fn a_freed_place_is_taken_at_once_and_others_are_not_blocked() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (held, mut desk) = Held::with(|definition| definition.max_running(1));
    let worker = worker(&queue)
        .handler(held)
        .handler(Crowd::default())
        .poll_interval(Duration::from_secs(3600))
        .start();
    let worker = worker.await.unwrap();
    let [first, second] = [
        queue.enqueue(&NewJob::new("held")).await.unwrap().id,
        queue.enqueue(&NewJob::new("held")).await.unwrap().id,
    ];
    let run = desk.next().await;
    assert_eq!(run.job, first);
    let other = queue.enqueue(&NewJob::new("crowd")).await.unwrap().id;
    until(&client, other, "succeeded").await;
    assert!(desk.is_empty(), "the second waits for the first");
    let reading = queue.read(Reach::Tenant(DEFAULT_TENANT)).await.unwrap();
    let why = reading.why(second).await.unwrap();
    reading.end().await.unwrap();
    assert_eq!(why.reason.code, "limit_reached", "{why:?}");
    run.succeed();
    let run = desk.next().await;
    assert_eq!(run.job, second);
    run.succeed();
    until(&client, second, "succeeded").await;
    worker.stop().await.unwrap();
}

/// Claims from the lanes of these tenants, in this order, more jobs than may run.
async fn claim_in_order(hand: &Hand, tenants: &[Uuid]) -> Vec<Uuid> {
    let claim = "select c.job_id from
        (select array_agg(n.id order by t.ord) as lanes, array_agg(0::bigint) as seqs, array_agg(10) as counts
           from unnest($2::uuid[]) with ordinality t (id, ord) join windlass.lane n on n.tenant_id = t.id) l,
        windlass.claim($1, gen_random_uuid(), l.lanes, l.seqs, l.counts) c";
    hand.client.query(claim, &[&hand.worker, &tenants]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// A tenant that holds its jobs in an open transaction, and one without jobs, come first in the claim.
#[tokio::test]
async fn free_slots_go_to_jobs_that_can_be_claimed_and_not_to_earlier_lanes() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    let tenants = [queue.tenant("idle").await, queue.tenant("open").await, queue.tenant("other").await];
    for (limit, allowed) in [(1, 1), (2, 2), (3, 2)] {
        hand.client.batch_execute("delete from windlass.live").await.unwrap();
        hand.define(json!({"key": "held", "max_running": limit})).await;
        for tenant in tenants {
            hand.client
                .execute("select windlass.route_of($1, 'held', null, null)", &[&tenant])
                .await
                .unwrap();
        }
        let locked = hand.enqueue(&format!("'held', tenant_id => '{}'", tenants[1])).await;
        let mut others = Vec::new();
        for _ in 0..2 {
            others.push(hand.enqueue(&format!("'held', tenant_id => '{}'", tenants[2])).await);
        }
        let open = queue.client().await;
        open.batch_execute(&format!("begin; select windlass.cancel('{}', '{locked}')", tenants[1]))
            .await
            .unwrap();
        assert_eq!(claim_in_order(&hand, &tenants).await, others[..allowed], "limit {limit}");
        assert!(claim_in_order(&hand, &tenants).await.is_empty(), "limit {limit}");
        open.batch_execute("commit").await.unwrap();
        hand.client.batch_execute("delete from windlass.line").await.unwrap();
    }
}

/// A-411: a claim under a limit, left open, stopped every worker that had a lane under it.
#[tokio::test]
async fn an_open_claim_under_a_limit_stops_no_jobs_without_it() {
    let queue = TestQueue::create().await;
    let (hand, open) = (Hand::new(queue.client().await).await, Hand::new(queue.client().await).await);
    for key in ["first", "second"] {
        hand.define(json!({"key": key, "max_running": 5})).await;
        hand.enqueue(&format!("'{key}'")).await;
    }
    open.client.batch_execute("begin").await.unwrap();
    assert_eq!(open.claim_all().await.len(), 2);
    hand.define(json!({"key": "free"})).await;
    let free = hand.enqueue("'free'").await;
    let limited = hand.enqueue("'first'").await;
    assert_eq!(hand.claim_one().await.job, free);
    open.client.batch_execute("rollback").await.unwrap();
    let claimed = hand.claim_all().await;
    assert!(claimed.len() == 3 && claimed.iter().any(|fence| fence.job == limited), "those under the limits");
}

/// The limit of a tenant is shared by its definitions in the same way.
#[tokio::test]
async fn slots_of_a_tenant_are_not_used_up_by_a_lane_without_jobs() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    let limit = "update windlass.tenants set max_running = 2 where id = $1";
    hand.client.execute(limit, &[&DEFAULT_TENANT]).await.unwrap();
    for key in ["first", "held"] {
        hand.define(json!({"key": key})).await;
        hand.client
            .execute("select windlass.route_of($1, $2, null, null)", &[&DEFAULT_TENANT, &key])
            .await
            .unwrap();
    }
    let jobs = [hand.enqueue("'held'").await, hand.enqueue("'held'").await, hand.enqueue("'held'").await];
    let claimed = hand.claim_all().await;
    assert_eq!(claimed.iter().map(|fence| fence.job).collect::<Vec<_>>(), jobs[..2]);
}

/// An application or an operator may leave the transaction that sets a limit open.
#[tokio::test]
async fn an_open_change_of_a_limit_keeps_no_job_from_ending() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let of_definition = "select windlass.change_definition(d.id, '{\"max_running\": 5}', null) from windlass.job_definitions d";
    for change in ["select windlass.define('{\"key\": \"held\", \"max_running\": 5}')", of_definition] {
        for tenant in ["a", "b"] {
            let tenant = queue.tenant(tenant).await;
            hand.enqueue(&format!("'held', tenant_id => '{tenant}'")).await;
        }
        let fences = hand.claim_all().await;
        let open = queue.client().await;
        open.batch_execute(&format!("begin; {change}")).await.unwrap();
        let settle = "select settled from windlass.settle(array[$1::uuid], array[$2::uuid], array[$3::integer], array[$4::uuid],
            array[1], array[null]::jsonb[], null, true)";
        let fence = &fences[0];
        let row =
            hand.client.query_one(settle, &[&fence.tenant, &fence.job, &fence.attempt, &fence.token]).await;
        assert_eq!(row.unwrap().get::<_, Option<Vec<i32>>>(0), Some(vec![1]), "{change}");
        hand.miss_heartbeats().await;
        let reap = "select r.settled from (select array_agg(l.worker) as workers, array_agg(l.tenant_id) as tenants,
              array_agg(l.job_id) as jobs, array_agg(l.attempt) as attempts, array_agg(l.token) as tokens, array_agg($1::jsonb) as details
            from windlass.lost_jobs(10) l) l, windlass.reap(l.workers, l.tenants, l.jobs, l.attempts, l.tokens, l.details) r";
        let row = hand.client.query_one(reap, &[&ending::failed()]).await.unwrap();
        assert_eq!(row.get::<_, Option<Vec<i32>>>(0), Some(vec![1]), "{change}");
        open.batch_execute("rollback").await.unwrap();
        assert!(hand.heartbeat().await);
        assert_counts_are_exact(&hand.client).await;
    }
}

/// Waits until claims count only marked rows. Transactions of other databases that have begun before delay it.
async fn until_marked(hand: &Hand) {
    let unmarked = "select count(*) from windlass.gate where purpose = 'unmarked'";
    eventually("all running jobs are marked", async || {
        assert!(hand.claim_all().await.is_empty(), "the limit is reached");
        count(&hand.client, unmarked).await == 0
    })
    .await;
}

#[tokio::test]
async fn jobs_that_ran_before_their_definition_got_a_limit_count() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    hand.define(json!({"key": "other"})).await;
    for _ in 0..2 {
        hand.enqueue("'held'").await;
        hand.enqueue("'other'").await;
    }
    let before = hand.claim_all().await;
    assert_eq!(before.len(), 4);
    for _ in 0..5 {
        hand.enqueue("'held'").await;
    }
    hand.define(json!({"key": "held", "max_running": 3})).await;
    assert_eq!(hand.claim_all().await.len(), 1);
    assert!(hand.claim_all().await.is_empty());
    let of_held = async |job: Uuid| {
        let query =
            format!("select count(*) from windlass.jobs where id = '{job}' and definition_key = 'held'");
        count(&hand.client, &query).await == 1
    };
    for fence in &before {
        assert!(hand.settle(fence, None).await);
        let room = usize::from(of_held(fence.job).await);
        assert_eq!(hand.claim_all().await.len(), room, "one that ends makes room for one of its definition");
    }
    until_marked(&hand).await;
    assert_counts_are_exact(&hand.client).await;
}

/// It read the limits before the limit was committed, and commits later.
#[tokio::test]
async fn jobs_of_a_claim_that_did_not_see_the_limit_count_from_its_commit_on() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    for _ in 0..10 {
        hand.enqueue("'held'").await;
    }
    let early = Hand::new(queue.client().await).await;
    let claim = "select count(*) from (select array_agg(id) as lanes from windlass.lane) l,
        windlass.claim($1, gen_random_uuid(), l.lanes, array[0::bigint], array[2])";
    early.client.batch_execute("begin").await.unwrap();
    assert_eq!(early.client.query_one(claim, &[&early.worker]).await.unwrap().get::<_, i64>(0), 2);
    hand.define(json!({"key": "held", "max_running": 3})).await;
    let mut mine = hand.claim_all().await;
    assert_eq!(mine.len(), 3);
    assert!(hand.claim_all().await.is_empty());
    early.client.batch_execute("commit").await.unwrap();
    for left in [4, 3, 2] {
        assert!(hand.settle(&mine.remove(0), None).await);
        assert_eq!(hand.claim_all().await.len(), usize::from(left == 2), "{left} run");
    }
    until_marked(&hand).await;
}

/// A-502: the definition has no lane yet when it gets its limit, and its first jobs are enqueued and claimed before that is committed.
#[tokio::test]
async fn jobs_of_a_lane_that_was_created_while_the_limit_was_set_count() {
    let queue = TestQueue::create().await;
    let of_definition = "select windlass.change_definition(d.id, '{\"max_running\": 3}', null) from windlass.job_definitions d where d.key = 'second'";
    for (key, change) in [
        ("first", "select windlass.define('{\"key\": \"first\", \"max_running\": 3}')"),
        ("second", of_definition),
    ] {
        let hand = Hand::new(queue.client().await).await;
        hand.define(json!({"key": key})).await;
        let open = queue.client().await;
        open.batch_execute(&format!("begin; {change}")).await.unwrap();
        for _ in 0..2 {
            hand.enqueue(&format!("'{key}'")).await;
        }
        let mut running = hand.claim_all().await;
        assert_eq!(running.len(), 2, "without a limit");
        open.batch_execute("commit").await.unwrap();
        for _ in 0..4 {
            hand.enqueue(&format!("'{key}'")).await;
        }
        running.extend(hand.claim_all().await);
        assert_eq!(running.len(), 3, "{key}");
        assert!(hand.settle(&running.remove(0), None).await);
        assert_eq!(hand.claim_all().await.len(), 1, "one that ends makes room for one");
        assert_counts_are_exact(&hand.client).await;
    }
}

/// A definition that has a limit from the start needs no count: it had no jobs.
#[tokio::test]
async fn a_new_definition_with_a_limit_has_nothing_to_count() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held", "max_running": 3})).await;
    assert_eq!(count(&hand.client, "select count(*) from windlass.gate where purpose = 'unmarked'").await, 0);
}
