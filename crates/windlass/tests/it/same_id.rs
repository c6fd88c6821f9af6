//! Ids of jobs are unique within a tenant. A worker that runs two jobs with the same id for two tenants keeps them separate.

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;
use windlass::job::LogPosition;
use windlass::{Context, Definition, Done, Failure, Handler, NewJob};
use windlass_testing::{TestQueue, eventually};

use crate::support::worker;

/// Reports its tenant, and waits for a signal or for its end.
struct Twin;

windlass_testing::payload!(TwinArgs(Value) = "twin");

impl Handler for Twin {
    type Args = TwinArgs;

    async fn run(&self, job: &Context, _: TwinArgs) -> Result<Done, Failure> {
        job.log(&format!("a line of {}", job.tenant_id()));
        job.progress(10.0, &format!("progress of {}", job.tenant_id()));
        let _ = tokio::time::timeout(Duration::from_secs(60), job.stopped()).await;
        Ok(Done::new())
    }

    fn definition(&self) -> Definition {
        Definition::of::<TwinArgs>()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_two_tenants_with_one_id_are_kept_apart() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    let worker = worker(&queue).handler(Twin).grace(Duration::ZERO).start().await.unwrap();
    let id = Uuid::now_v7();
    for tenant in [a, b] {
        queue.enqueue(&NewJob::new("twin").tenant(tenant).id(id)).await.unwrap();
    }
    let status = async |tenant: Uuid| -> (Value, Value) {
        let query = "select to_jsonb(j) from windlass.jobs j where tenant_id = $1 and id = $2";
        let row: Value = client.query_one(query, &[&tenant, &id]).await.unwrap().get(0);
        (row["status"].clone(), row["progress_message"].clone())
    };
    for tenant in [a, b] {
        let expected = (json!("running"), json!(format!("progress of {tenant}")));
        eventually("each has its own progress", async || status(tenant).await == expected).await;
        eventually("each has its own line", async || {
            log(&queue, tenant, id).await == [format!("a line of {tenant}\n")]
        })
        .await;
    }

    queue.cancel(a, id).await.unwrap();
    eventually("the first is canceled", async || status(a).await.0 == "canceled").await;
    assert_eq!(status(b).await.0, "running", "the other continues");
    queue.cancel(b, id).await.unwrap();
    eventually("the other is canceled by its own tenant", async || status(b).await.0 == "canceled").await;
    for tenant in [a, b] {
        assert_eq!(log(&queue, tenant, id).await, [format!("a line of {tenant}\n")]);
        assert_eq!(status(tenant).await.1, json!(format!("progress of {tenant}")));
    }
    worker.stop().await.unwrap();
}

async fn log(queue: &TestQueue, tenant: Uuid, id: Uuid) -> Vec<String> {
    let log = queue.read_log(tenant, id, LogPosition::default()).await.unwrap();
    log.chunks.into_iter().map(|chunk| chunk.text).collect()
}
