//! What one tenant asks for does not keep another's claims waiting.

use std::time::Duration;

use serde_json::json;
use uuid::Uuid;
use windlass::pull::{Beat, Pull, Puller};
use windlass::{Definition, Error, NewJob};
use windlass_testing::{TestQueue, eventually};

use super::{claim, start};
use crate::support::count;

fn of(tenant: Uuid) -> Puller {
    Puller::new("own").tenant(tenant)
}

async fn two_tenants() -> (TestQueue, Pull, Uuid, Uuid) {
    let (queue, pull) = start().await;
    let (loud, quiet) = (queue.tenant("loud").await, queue.tenant("quiet").await);
    (queue, pull, loud, quiet)
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_jobs_that_do_not_fit_keep_no_claim_of_another_tenant_waiting() {
    let (queue, pull, loud, quiet) = two_tenants().await;
    let client = queue.client().await;
    queue.define(&Definition::new("strict")).await.unwrap();
    let bad: Vec<NewJob> =
        (0..3000).map(|_| NewJob::new("strict").tenant(loud).payload(&json!({"n": "bad"}))).collect();
    queue.enqueue_many(&bad).await.unwrap();
    // The schema comes after the jobs, so that none of them fits.
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    queue.define(&Definition::new("strict").arg_schema(schema)).await.unwrap();
    let asking = tokio::spawn({
        let pull = pull.clone();
        async move { pull.claim(&of(loud), claim(&["strict"]).limit(100)).await.unwrap() }
    });
    let refused =
        "select count(*) from windlass.jobs where definition_key = 'strict' and finished_at is not null";
    eventually("the first is refused", async || count(&client, refused).await > 0).await;

    let id = queue.enqueue(&NewJob::new("remote").tenant(quiet)).await.unwrap().id;
    let given = pull.claim(&of(quiet), claim(&["remote"])).await.unwrap();
    assert_eq!(given.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
    let left = 3000 - count(&client, refused).await;
    assert!(left > 0, "the other tenant's jobs were all refused first");
    eventually("every one is refused in the end", async || count(&client, refused).await == 3000).await;
    asking.abort();
    pull.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_a_bounded_number_of_workers_and_is_told() {
    let (queue, pull, loud, quiet) = two_tenants().await;
    let client = queue.client().await;
    let fill = format!(
        "insert into windlass.job_workers (worker_id, hostname, lease_seconds, lease_expires_at)
         select 'w' || n || '@{loud}', '', 60, now() + interval '1 h' from generate_series(1, 1000) n"
    );
    client.execute(&fill, &[]).await.unwrap();
    let hasty = claim(&["remote"]).wait(Duration::ZERO);
    let refused = pull.claim(&of(loud), hasty.clone()).await.unwrap_err();
    assert!(matches!(&refused, Error::Refused { field, .. } if field == "worker_id"), "{refused}");
    let known = hasty.clone().worker_id(Some("w7".to_owned()));
    assert!(pull.claim(&of(loud), known).await.unwrap().is_empty(), "those that are known go on");
    assert!(pull.claim(&of(quiet), hasty).await.unwrap().is_empty(), "another tenant has its own");
    pull.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_with_too_much_text_is_refused_by_field() {
    let (_queue, pull, loud, _) = two_tenants().await;
    for (field, beat) in [
        ("log", Beat::default().log(vec!["x".repeat(1024); 1025])),
        ("progress/message", Beat::default().message(Some("x".repeat(64 * 1024 + 1)))),
    ] {
        let refused = pull.heartbeat(&of(loud), Uuid::nil(), "x", &beat).await.unwrap_err();
        assert!(matches!(&refused, Error::Refused { field: named, .. } if named == field), "{refused}");
    }
    pull.stop().await;
}
