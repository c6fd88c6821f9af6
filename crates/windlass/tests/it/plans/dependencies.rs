//! The statements about dependencies.

use uuid::Uuid;

use super::hand::{claim, lanes, register, settle, single};
use super::prepared;
use super::watch::{Plan, Watch};

/// A-204: the index of the keeper contained the tenant in a later column, and looked as good as the others without statistics.
#[tokio::test]
async fn dependencies_are_read_by_their_tenant_and_new_ones_in_order() {
    for is_analyzed in [false, true] {
        let queue = prepared().await;
        let client = queue.client().await;
        if is_analyzed {
            client.batch_execute("analyze").await.unwrap();
        }
        let of_others = "insert into windlass.dependency (tenant_id, needs_job_id, job_id, if_unmet)
            select gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'cancel' from generate_series(1, 20000)";
        client.batch_execute(of_others).await.unwrap();
        let mut watch = Watch::open(queue.url()).await;
        let first: Uuid = single(&watch.client, "select id from windlass.enqueue('a')").await;
        for _ in 0..10 {
            let next =
                format!("select id from windlass.enqueue('b', depends_on => array['{first}']::uuid[])");
            let _: Uuid = single(&watch.client, &next).await;
        }
        let (worker, lanes) = (register(&watch.client).await, lanes(&watch.client).await);
        let taken = claim(&watch.client, worker, &lanes, 1).await;
        assert_eq!(settle(&watch.client, &taken, None).await, 1);
        let plans = watch.plans().await;
        let is_about = |plan: &&Plan| plan.nodes().iter().any(|node| node["Relation Name"] == "dependency");
        let about: Vec<&Plan> = plans.iter().filter(is_about).collect();
        assert!(
            about.iter().any(|plan| plan.query.contains("recursive reach")),
            "the settlement unblocks them"
        );
        for plan in about {
            assert!(!plan.uses_index("dependency_by_xid"), "{is_analyzed}: {plan:#?}");
            assert!(plan.scanned_whole().is_empty(), "{is_analyzed}: {plan:#?}");
            assert!(plan.rows_read("dependency") <= 100, "{is_analyzed}: {plan:#?}");
        }
        let waiting: i64 = single(&watch.client, "select count(*) from windlass.blocked").await;
        assert_eq!(waiting, 0);

        watch.plans().await;
        let _: i32 = single(&watch.client, "select decided from windlass.unblock_all(50)").await;
        let plans = watch.plans().await;
        let about: Vec<&Plan> = plans.iter().filter(|plan| plan.query.contains("order by d.xid")).collect();
        assert!(!about.is_empty(), "{is_analyzed}: unblock_all reads new dependencies");
        for plan in about {
            assert!(plan.uses_index("dependency_by_xid"), "{is_analyzed}: {plan:#?}");
            assert!(plan.scanned_whole().is_empty(), "{is_analyzed}: {plan:#?}");
            assert!(plan.rows_read("dependency") <= 50, "{is_analyzed}: {plan:#?}");
        }
    }
}

/// A-241: each step from one waiting job to the next read all dependencies.
#[tokio::test]
async fn a_retry_reads_each_job_behind_it_once() {
    const BEHIND: u64 = 200;
    for is_analyzed in [false, true] {
        let queue = prepared().await;
        let mut watch = Watch::open(queue.url()).await;
        let ordered = "select id from windlass.enqueue('a', ordering_key => 'k')";
        let first: Uuid = single(&watch.client, ordered).await;
        let (worker, lanes) = (register(&watch.client).await, lanes(&watch.client).await);
        let taken = claim(&watch.client, worker, &lanes, 1).await;
        let failed = r#"{"outcome": 2, "next": 2, "failures": 1, "lost": 0, "snoozes": 0, "reason": "permanent", "error": "no"}"#;
        assert_eq!(settle(&watch.client, &taken, Some(failed)).await, 1);
        for _ in 0..BEHIND {
            let _: Uuid = single(&watch.client, ordered).await;
        }
        if is_analyzed {
            watch.client.batch_execute("analyze").await.unwrap();
        }
        watch.plans().await;
        let retry =
            format!("select result from windlass.retry('{}', '{first}', 'me')", windlass::DEFAULT_TENANT);
        let answer: String = single(&watch.client, &retry).await;
        assert_eq!(answer, "queued");
        let plans = watch.plans().await;
        assert!(plans.iter().any(|plan| plan.query.contains("recursive behind")));
        assert!(plans.iter().any(|plan| plan.query.contains("recursive chain")));
        for plan in plans {
            assert!(plan.rows_read("dependency") <= 2 * BEHIND + 10, "{is_analyzed}: {plan:#?}");
        }
    }
}
