//! External callers that wait for a connection at the same time are batched, without a visible difference.

use tokio::task::JoinSet;
use uuid::Uuid;
use windlass::admin::Actor;
use windlass::{DEFAULT_TENANT, Definition, Error, NewJob, Queue};
use windlass_testing::{TestQueue, eventually, settings, until_a_session_waits, waiting_for_locks};

#[tokio::test(flavor = "multi_thread")]
async fn waiting_enqueues_are_batched_and_each_has_its_own_result_and_audit_row() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let tenants = [DEFAULT_TENANT, queue.tenant("other").await];
    let narrow = Queue::connect(settings(queue.url()).connections(1)).await.unwrap();
    let client = queue.client().await;
    let taken = queue.enqueue(&NewJob::new("a")).await.unwrap().id;
    for tenant in tenants {
        // Values that are looked up once are cached before the callers wait.
        let job = NewJob::new("a").tenant(tenant);
        narrow.enqueue_as(tenant, &actor("first"), &job).await.unwrap();
    }

    let holder = queue.client().await;
    holder.batch_execute("begin; lock table windlass.audit").await.unwrap();
    let mut callers = JoinSet::new();
    for number in 0..150_usize {
        let narrow = narrow.clone();
        let tenant = tenants[number % 2];
        callers.spawn(async move {
            let mut job = NewJob::new("a").tenant(tenant).payload(&serde_json::json!({"n": number}));
            if number == 100 {
                // Only the database knows that there is such a job.
                job = job.id(taken);
            }
            (number, narrow.enqueue_as(tenant, &actor(&format!("caller {number}")), &job).await)
        });
    }
    until_a_session_waits(&client).await;
    holder.batch_execute("rollback").await.unwrap();

    let mut results = callers.join_all().await;
    results.sort_by_key(|(number, _)| *number);
    for (number, result) in results {
        let tenant = tenants[number % 2];
        if number == 100 {
            let rejected = result.unwrap_err();
            assert!(matches!(rejected, Error::Taken { what: "the job id" }), "rejected alone: {rejected}");
            continue;
        }
        let placed = result.unwrap();
        let job = queue.job(tenant, placed.enqueued.id).await.unwrap().unwrap();
        assert_eq!((job.payload["n"].as_u64(), placed.queued_at), (Some(number as u64), Some(job.queued_at)));
        let row = "select tenant_id, actor from windlass.audit where action = 'job.enqueue' and target = $1";
        let row = client.query_one(row, &[&placed.enqueued.id.to_string()]).await.unwrap();
        assert_eq!((row.get::<_, Uuid>(0), row.get::<_, String>(1)), (tenant, format!("caller {number}")));
    }
    let count = "select count(*), count(distinct xid) from windlass.audit where actor like 'caller %'";
    let row = client.query_one(count, &[]).await.unwrap();
    let (rows, transactions): (i64, i64) = (row.get(0), row.get(1));
    assert_eq!(rows, 149);
    // The group with the rejected one was written one by one; it has at most 64.
    assert!(transactions < 80, "{transactions} transactions");
}

/// A tenant's own open transaction blocks its enqueues, which use its share of the connections and no other's.
#[tokio::test(flavor = "multi_thread")]
async fn enqueues_that_wait_for_their_tenants_quota_leave_connections_to_others() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let (loud, quiet) = (queue.tenant("loud").await, queue.tenant("quiet").await);
    let client = queue.client().await;
    let served = Queue::connect(settings(queue.url()).connections(4)).await.unwrap().for_callers();
    let enqueue = async |tenant| {
        served.enqueue_as(tenant, &actor("caller"), &NewJob::new("a").tenant(tenant)).await.unwrap();
    };
    for tenant in [loud, quiet] {
        enqueue(tenant).await;
    }
    // The process caches the absence of a quota for a few seconds, so the jobs take the fast path and reach it in the database.
    client.execute("select windlass.change_tenant($1, '{\"max_queued\": 1000}')", &[&loud]).await.unwrap();

    let open = queue.client().await;
    open.batch_execute(&format!("begin; select windlass.enqueue('a', tenant_id => '{loud}')")).await.unwrap();
    let mut callers = JoinSet::new();
    for round in 1..=6 {
        for _ in 0..4 {
            let served = served.clone();
            callers.spawn(async move {
                served.enqueue_as(loud, &actor("loud"), &NewJob::new("a").tenant(loud)).await.map(drop)
            });
        }
        // As many wait as there are connections for them: two of four while another tenant is active.
        eventually("they wait", async || waiting_for_locks(&client).await >= round.min(2)).await;
        enqueue(quiet).await;
        assert!(callers.try_join_next().is_none(), "the quiet tenant had to wait for the loud one");
    }
    open.batch_execute("commit").await.unwrap();
    for result in callers.join_all().await {
        result.unwrap();
    }
}

fn actor(name: &str) -> Actor {
    Actor::new(name.to_owned())
}
