//! A tenant cannot create lanes without limit: the values that it chooses per job are bounded, and existing lanes cost others little.

mod retire;

use tokio::task::JoinSet;
use uuid::Uuid;
use windlass::{Definition, Error, NewJob};
use windlass_testing::TestQueue;

use crate::plans::watch::Watch;
use crate::support::{Hand, assert_counts_are_exact, count};

async fn bounded(queue: &TestQueue, lanes: i32, names: i32) -> Uuid {
    for key in ["a", "b"] {
        queue.define(&Definition::new(key)).await.unwrap();
    }
    let tenant = queue.tenant("many").await;
    let limit = "update windlass.tenants set max_lanes = $2, max_queue_names = $3 where id = $1";
    queue.client().await.execute(limit, &[&tenant, &lanes, &names]).await.unwrap();
    tenant
}

fn refused_for(result: Result<windlass::job::Enqueued, Error>) -> String {
    match result {
        Err(Error::TooManyLanes { field, message }) => format!("{field}: {message}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_tenant_at_its_lane_limit_can_use_existing_lanes_only() {
    let queue = TestQueue::create().await;
    let tenant = bounded(&queue, 3, 100).await;
    let new = |key: &str| NewJob::new(key).tenant(tenant);
    for priority in [1, 2, 3] {
        queue.enqueue(&new("a").priority(priority)).await.unwrap();
    }
    let refused = refused_for(queue.enqueue(&new("a").priority(4)).await);
    assert!(refused.starts_with("priority: ") && refused.contains("its limit is 3 (max_lanes)"), "{refused}");
    let refused = refused_for(queue.enqueue(&new("a").queue("other")).await);
    assert!(refused.starts_with("queue: "), "{refused}");
    queue.enqueue(&new("a").priority(3)).await.unwrap();
    // The definition's own queue is not the tenant's choice.
    queue.enqueue(&new("b")).await.unwrap();
    // It does not apply to another tenant.
    queue.enqueue(&NewJob::new("a").priority(4)).await.unwrap();
}

#[tokio::test]
async fn a_tenant_at_its_limit_of_queue_names_gets_no_new_one() {
    let queue = TestQueue::create().await;
    let tenant = bounded(&queue, 100, 2).await;
    let new = |name: &str| NewJob::new("a").tenant(tenant).queue(name);
    queue.enqueue(&new("one")).await.unwrap();
    queue.enqueue(&new("two")).await.unwrap();
    let refused = refused_for(queue.enqueue(&new("three")).await);
    assert!(refused.contains("its limit is 2 (max_queue_names)"), "{refused}");
    queue.enqueue(&new("two").priority(7)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_on_lanes_holds_under_concurrent_creation() {
    let queue = TestQueue::create().await;
    let tenant = bounded(&queue, 20, 1000).await;
    queue.enqueue(&NewJob::new("a").tenant(tenant).queue("first")).await.unwrap();
    queue.enqueue(&NewJob::new("a").tenant(tenant).queue("second")).await.unwrap();
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let queue = queue.queue().clone();
        tasks.spawn(async move {
            for n in 0..10 {
                let job = NewJob::new("a").tenant(tenant).queue(format!("q{task}.{n}"));
                match queue.enqueue(&job).await {
                    Ok(_) | Err(Error::TooManyLanes { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    tasks.join_all().await;
    let query = format!("select count(*) from windlass.lane where tenant_id = '{tenant}'");
    assert_eq!(count(&queue.client().await, &query).await, 20);
}

/// Below a tenth of the limit no one waits, and no transaction sees the lanes of another open one.
#[tokio::test(flavor = "multi_thread")]
async fn many_open_transactions_create_few_invisible_lanes_each() {
    const LIMIT: i32 = 100;
    const FREE: usize = 3;
    let queue = TestQueue::create().await;
    let tenant = bounded(&queue, LIMIT, LIMIT).await;
    let mut open = Vec::new();
    for number in 0..15 {
        let client = queue.client().await;
        client.batch_execute("begin; set local lock_timeout = '20ms'").await.unwrap();
        let mut made = 0;
        for lane in 0..9 {
            // A savepoint has its own transaction id, and its lanes count for the transaction too.
            client.batch_execute("savepoint made").await.unwrap();
            let enqueue =
                format!("select windlass.enqueue('a', tenant_id => '{tenant}', queue => 'q{number}.{lane}')");
            match client.batch_execute(&enqueue).await {
                Ok(()) => made += 1,
                Err(error) => {
                    assert_eq!(error.code().map(|code| code.code()), Some("55P03"), "{error}");
                    client.batch_execute("rollback to made").await.unwrap();
                }
            }
        }
        assert_eq!(made, if number == 0 { 9 } else { FREE }, "transaction {number}");
        open.push(client);
    }
    for client in &open {
        client.batch_execute("commit").await.unwrap();
    }
    let query = format!("select count(*) from windlass.lane where tenant_id = '{tenant}'");
    assert!(count(&open[0], &query).await <= i64::from(LIMIT));
}

/// It was quadratic: for each existing lane, every lane with work was read again.
#[tokio::test]
async fn a_search_for_work_reads_each_lane_with_work_once() {
    const LANES: u64 = 900;
    let queue = TestQueue::create().await;
    let tenant = bounded(&queue, 2000, 2000).await;
    let client = queue.client().await;
    let fill = format!(
        "select windlass.enqueue('a', tenant_id => '{tenant}', queue => 'q' || n) from generate_series(1, {LANES}) n"
    );
    client.batch_execute(&fill).await.unwrap();
    let empty = "insert into windlass.lane (tenant_id, definition_id, queue, priority)
                 select gen_random_uuid(), d.id, 'empty', 1 from windlass.job_definitions d, generate_series(1, 5000) where d.key = 'b'";
    client.batch_execute(empty).await.unwrap();
    for analysed in [false, true] {
        if analysed {
            client.batch_execute("analyze").await.unwrap();
        }
        let mut watch = Watch::open(queue.url()).await;
        let found: Vec<_> =
            watch.client.query("select * from windlass.active_lanes(null, null)", &[]).await.unwrap();
        assert_eq!(found.len() as u64, LANES);
        for plan in watch.plans().await {
            let read = [plan.rows_read("lane"), plan.rows_read("job_definitions"), plan.rows_read("tenants")];
            assert!(read.iter().all(|rows| *rows <= LANES + 1), "{read:?} rows for {LANES} lanes");
        }
    }
}

/// A worker has no cost for the lanes of definitions that others serve.
#[tokio::test]
async fn a_search_for_work_of_one_definition_reads_few_other_lanes() {
    let queue = TestQueue::create().await;
    let tenant = bounded(&queue, 2000, 2000).await;
    let client = queue.client().await;
    let fill = format!(
        "select windlass.enqueue('a', tenant_id => '{tenant}', queue => 'q' || n) from generate_series(1, 900) n;
         select windlass.enqueue('b', tenant_id => '{tenant}', queue => 'q' || n) from generate_series(1, 3) n;
         delete from windlass.line l using windlass.lane n where n.id = l.lane and n.queue = 'q2'"
    );
    client.batch_execute(&fill).await.unwrap();
    let mut watch = Watch::open(queue.url()).await;
    let look = "select queue from windlass.active_lanes(array['b'], $1)";
    let everywhere: Option<Vec<String>> = None;
    for (queues, expected) in [(everywhere, vec!["q1", "q3"]), (Some(vec!["q3".to_owned()]), vec!["q3"])] {
        let rows = watch.client.query(look, &[&queues]).await.unwrap();
        let mut found: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
    for plan in watch.plans().await {
        let read = [plan.rows_read("line"), plan.rows_read("lane")];
        assert!(read.iter().all(|rows| *rows < 50), "{read:?} rows for 2 lanes");
    }
}

/// A busy worker checks only the lanes that it has used before. Like a search for lanes, this leaves out jobs that must not run.
#[tokio::test]
async fn a_check_of_known_lanes_finds_work_that_may_run() {
    let queue = TestQueue::create().await;
    let tenant = bounded(&queue, 2000, 2000).await;
    let client = queue.client().await;
    let fill = format!(
        "select windlass.enqueue('a', tenant_id => '{tenant}', queue => 'q' || n) from generate_series(1, 4) n;
         delete from windlass.line l using windlass.lane n where n.id = l.lane and n.queue = 'q2'"
    );
    client.batch_execute(&fill).await.unwrap();
    let check = async || {
        let lanes: Vec<i32> =
            client.query_one("select array_agg(id) from windlass.lane", &[]).await.unwrap().get(0);
        let found =
            "select n.queue from windlass.lanes_with_work($1) w join windlass.lane n on n.id = w order by 1";
        let rows = client.query(found, &[&lanes]).await.unwrap();
        rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>()
    };
    assert_eq!(check().await, ["q1", "q3", "q4"]);
    queue.set_paused("q3", true).await.unwrap();
    assert_eq!(check().await, ["q1", "q4"]);
    client
        .execute("update windlass.tenants set status = 'suspended' where id = $1", &[&tenant])
        .await
        .unwrap();
    assert!(check().await.is_empty());
}

/// From SQL, a caller may list what it likes.
#[tokio::test]
async fn a_lane_that_is_listed_twice_in_a_claim_is_read_once() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    queue.define(&Definition::new("a")).await.unwrap();
    for jobs in [1, 3] {
        let jobs: Vec<NewJob> = (0..jobs).map(|_| NewJob::new("a")).collect();
        queue.enqueue_many(&jobs).await.unwrap();
        let claim = "select count(distinct c.job_id), count(*) from windlass.lane n,
            windlass.claim($1, gen_random_uuid(), array[n.id, n.id, n.id], array[0, 0, 0]::bigint[], array[1, 3, 2]) c";
        let row = hand.client.query_one(claim, &[&hand.worker]).await.unwrap();
        let all = i64::try_from(jobs.len()).unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (all, all));
    }
    assert_counts_are_exact(&hand.client).await;
}
