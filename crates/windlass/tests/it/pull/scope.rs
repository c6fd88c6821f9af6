//! Which tenants' jobs a credential may claim, and which it requests.

use std::time::Duration;

use serde_json::json;
use windlass::job::State;
use windlass::pull::{Claim, Held, Puller, WorkerInfo};
use windlass::{Definition, Done, NewJob};

use windlass_testing::eventually;

use super::{anyone, claim, start};
use crate::support::{count, everything, status};

fn hasty(claim: Claim) -> Claim {
    claim.wait(Duration::ZERO)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_credential_gets_only_that_tenants_jobs() {
    let (queue, pull) = start().await;
    let client = queue.client().await;
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    let of_a = queue.enqueue(&NewJob::new("pulled").tenant(a)).await.unwrap().id;
    let of_b = queue.enqueue(&NewJob::new("pulled").tenant(b)).await.unwrap().id;
    let (puller_a, puller_b) = (Puller::new("w").tenant(a), Puller::new("w").tenant(b));
    let jobs_a = pull.claim(&puller_a, hasty(claim(&["pulled"]))).await.unwrap().deliver();
    assert_eq!(jobs_a.iter().map(|job| job.id).collect::<Vec<_>>(), [of_a]);
    let before = everything(&client).await;
    let stolen = pull.complete(&puller_b, of_a, &jobs_a[0].fence, Done::new()).await.unwrap();
    assert_eq!(stolen, Held::LeaseLost, "another tenant's fence is a stale one");
    assert_eq!(everything(&client).await, before);
    let jobs_b = pull.claim(&puller_b, hasty(claim(&["pulled"]))).await.unwrap().deliver();
    assert_eq!(jobs_b.iter().map(|job| job.id).collect::<Vec<_>>(), [of_b]);
    assert_eq!(
        pull.complete(&anyone(), of_a, &jobs_a[0].fence, Done::new()).await.unwrap(),
        Held::Held(State::Succeeded)
    );
    let rows = "select count(*) from windlass.job_workers where worker_id like '%@%'";
    assert_eq!(count(&client, rows).await, 2, "the same name of two tenants is two workers");
    pull.stop().await;
}

/// Invariant 33 for pull workers with a credential for every tenant.
#[tokio::test(flavor = "multi_thread")]
async fn claims_across_tenants_are_fair() {
    let (queue, pull) = start().await;
    let (large, small) = (queue.tenant("large").await, queue.tenant("small").await);
    let many: Vec<_> = (0..300).map(|_| NewJob::new("pulled").tenant(large)).collect();
    queue.enqueue_many(&many).await.unwrap();
    let few: Vec<_> = (0..20).map(|_| NewJob::new("pulled").tenant(small)).collect();
    queue.enqueue_many(&few).await.unwrap();
    let (mut of_small, mut of_all) = (0, 0);
    while of_small < 20 && of_all < 100 {
        let jobs = pull.claim(&anyone(), hasty(claim(&["pulled"]))).await.unwrap().deliver();
        of_small += jobs.iter().filter(|job| job.tenant_id == small).count();
        of_all += jobs.len();
    }
    assert_eq!(of_small, 20, "the small tenant was served within {of_all} turns");
    assert!(of_all <= 50, "and had about every second one of them, not one in sixteen: {of_all}");
    pull.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_names_definitions_or_queues() {
    let (queue, pull) = start().await;
    queue.define(&Definition::new("other")).await.unwrap();
    let other = queue.enqueue(&NewJob::new("other").queue("slow")).await.unwrap().id;
    let fast = queue.enqueue(&NewJob::new("pulled").queue("fast")).await.unwrap().id;
    let ids = async |claim: Claim| -> Vec<_> {
        let jobs = pull.claim(&anyone(), hasty(claim)).await.unwrap();
        jobs.into_iter().map(|job| job.id).collect()
    };
    assert!(ids(claim(&["nothing"])).await.is_empty());
    assert!(ids(claim(&["pulled"]).queues(vec!["slow".to_owned()])).await.is_empty());
    assert_eq!(ids(claim(&[]).queues(vec!["slow".to_owned()])).await, [other]);
    assert_eq!(ids(claim(&["pulled", "other"])).await, [fast]);
    pull.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_claim_is_rejected_by_field() {
    let (_queue, pull) = start().await;
    let good = || claim(&["pulled"]);
    let bad = [
        ("definition_keys", claim(&[])),
        ("definition_keys/0", claim(&[""])),
        ("queues/1", good().queues(vec!["a".to_owned(), "x".repeat(300)])),
        ("limit", good().limit(0)),
        ("limit", good().limit(101)),
        ("wait_seconds", good().wait(Duration::from_secs(61))),
        ("lease_seconds", good().lease(Duration::ZERO)),
        ("lease_seconds", good().lease(Duration::from_secs(100_000))),
        ("worker_id", good().worker_id(Some("a/b".to_owned()))),
        ("worker_id", good().worker_id(Some("host:1:uuid\u{0}".to_owned()))),
    ];
    for (wanted, claim) in bad {
        match pull.claim(&anyone(), claim).await {
            Err(windlass::Error::Refused { field, .. }) => assert_eq!(field, wanted),
            other => panic!("{wanted}: {other:?}"),
        }
    }
    pull.stop().await;
}

/// It is listed with ours, and an operator can drain it.
#[tokio::test(flavor = "multi_thread")]
async fn a_registered_worker_is_listed_and_can_be_drained() {
    let (queue, pull) = start().await;
    let client = queue.client().await;
    let me = WorkerInfo::default()
        .worker_id(Some("mac-mini".to_owned()))
        .hostname("mac".to_owned())
        .version("1.2".to_owned())
        .definition_keys(vec!["pulled".to_owned()])
        .metadata(json!({"gpu": true}).as_object().unwrap().clone());
    let registered = pull.register(&anyone(), &me).await.unwrap();
    assert_eq!((registered.worker_id.as_str(), registered.is_draining), ("mac-mini", false));
    let row = "select count(*) from windlass.job_workers where worker_id = 'mac-mini@pull' and hostname = 'mac' and version = '1.2'
        and definition_keys = '{pulled}' and metadata ->> 'gpu' = 'true' and lease_expires_at > clock_timestamp()";
    assert_eq!(count(&client, row).await, 1);
    client.execute("select windlass.set_draining('mac-mini@pull', true)", &[]).await.unwrap();
    assert!(pull.register(&anyone(), &me).await.unwrap().is_draining);

    // Once it is drained, it gets no job; and it gets jobs again once it is resumed.
    let id = queue.enqueue(&NewJob::new("pulled")).await.unwrap().id;
    let asks = hasty(claim(&["pulled"])).worker_id(Some("mac-mini".to_owned()));
    let is_given = async || {
        let jobs = pull.claim(&anyone(), asks.clone()).await.unwrap().deliver();
        for job in &jobs {
            pull.release(&anyone(), job.id, &job.fence).await.unwrap();
        }
        !jobs.is_empty()
    };
    eventually("it gets no job", async || !is_given().await).await;
    assert_eq!(status(&client, id).await, "queued");
    let loud = "select windlass.set_draining('mac-mini@pull', false)";
    client.execute(loud, &[]).await.unwrap();
    eventually("it gets jobs again", is_given).await;
    pull.stop().await;
}

/// A worker registers with each claim: in a day, a busy one would use up millions of 32-bit numbers.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_registers_again_takes_no_number() {
    let queue = windlass_testing::TestQueue::create().await;
    let client = queue.client().await;
    let register = async || -> i32 {
        let call = "select id from windlass.pull_register('w@pull', 'h', '', '{}', '{}', 60, '{}')";
        client.query_one(call, &[]).await.unwrap().get(0)
    };
    let first = register().await;
    for _ in 0..10 {
        assert_eq!(register().await, first);
    }
    let other = "select id from windlass.pull_register('other@pull', 'h', '', '{}', '{}', 60, '{}')";
    assert_eq!(client.query_one(other, &[]).await.unwrap().get::<_, i32>(0), first + 1);
}
