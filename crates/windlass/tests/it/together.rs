//! Callers from outside who wait for a connection at the same time go together, and none of them notices.

use tokio::task::JoinSet;
use uuid::Uuid;
use windlass::{Actor, DEFAULT_TENANT, Definition, NewJob, Queue};
use windlass_testing::{TestQueue, eventually, settings};

#[tokio::test(flavor = "multi_thread")]
async fn callers_who_wait_go_together_and_each_has_an_answer_and_an_audit_row_of_their_own() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let tenants = [DEFAULT_TENANT, queue.tenant("other").await];
    let narrow = Queue::connect(settings(queue.url()).connections(1)).await.unwrap();
    let client = queue.client().await;
    let taken = queue.enqueue(&NewJob::new("a")).await.unwrap().id;
    for tenant in tenants {
        // What has to be looked up once is known before everybody waits.
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
                // Nobody knows before the database that there is such a job.
                job = job.id(taken);
            }
            (number, narrow.enqueue_as(tenant, &actor(&format!("caller {number}")), &job).await)
        });
    }
    let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    eventually("the first has the connection and waits", async || {
        client.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;
    holder.batch_execute("rollback").await.unwrap();

    let mut answers = callers.join_all().await;
    answers.sort_by_key(|(number, _)| *number);
    for (number, answer) in answers {
        let tenant = tenants[number % 2];
        if number == 100 {
            assert!(answer.unwrap_err().to_string().contains("duplicate key"), "refused alone");
            continue;
        }
        let placed = answer.unwrap();
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
    // The group with the refused one was written one by one; it has at most 64.
    assert!(transactions < 80, "{transactions} transactions");
}

fn actor(name: &str) -> Actor {
    Actor { name: name.to_owned(), ..Actor::default() }
}
