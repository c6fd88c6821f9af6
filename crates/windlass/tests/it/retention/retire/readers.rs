//! Readers during a replacement: none misses a job that stays, and none waits for long.

use std::time::{Duration, Instant};

use tokio_postgres::IsolationLevel;
use uuid::Uuid;
use windlass::DEFAULT_TENANT;
use windlass::job::Filter;
use windlass_testing::eventually;

use super::{aged, assert_is_over, end_old, enqueue_old, step, until_step};
use crate::support::{count, ending};

/// Keyset pages, each in its own statement.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_who_pages_through_a_partition_that_is_exchanged_misses_nothing() {
    let (queue, hand) = aged().await;
    let mut stays = Vec::new();
    for _ in 0..8 {
        end_old(&hand, "", None).await;
        stays.push(end_old(&hand, "", Some(ending::failed())).await);
    }
    stays.push(enqueue_old(&hand, "").await);
    for exchanged_after in 0..4 {
        let mut seen = Vec::new();
        let mut cursor = None;
        let mut pages = 0;
        loop {
            let mut filter = Filter::new(DEFAULT_TENANT).limit(3);
            if let Some(cursor) = cursor.take() {
                filter = filter.older_than(cursor);
            }
            let page = queue.list(&filter).await.unwrap();
            seen.extend(page.jobs.iter().map(|job| job.id));
            cursor = page.next;
            pages += 1;
            if pages == exchanged_after {
                eventually("it is over", async || step(&hand.client).await == "none").await;
            }
            if cursor.is_none() {
                break;
            }
        }
        for id in &stays {
            let times = seen.iter().filter(|seen| *seen == id).count();
            assert_eq!(times, 1, "{id} in {seen:?}, exchanged after {exchanged_after} pages");
        }
        end_old(&hand, "", None).await;
        hand.client.execute("delete from windlass.partition_look", &[]).await.unwrap();
    }
}

/// The exchange waits for transactions that are older than the copies.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_older_than_the_copies_still_sees_every_job() {
    let (queue, hand) = aged().await;
    let goes = end_old(&hand, "", None).await;
    let stays = end_old(&hand, "", Some(ending::failed())).await;
    let mut reader = queue.client().await;
    let tx =
        reader.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await.unwrap();
    tx.query_one("select count(*) from windlass.tenants", &[]).await.unwrap(); // it has a snapshot, and no lock on jobs
    until_step(&hand.client, "copied").await;
    until_step(&hand.client, "caught up").await;
    for _ in 0..3 {
        assert_eq!(step(&hand.client).await, "waits");
    }
    let found = "select count(*) from windlass.jobs where id = any ($1)";
    let found: i64 = tx.query_one(found, &[&vec![goes, stays]]).await.unwrap().get(0);
    assert_eq!(found, 2);
    tx.commit().await.unwrap();
    until_step(&hand.client, "dropped").await;
    assert_is_over(&hand.client).await;
}

/// After a minute it does not wait any longer: such a transaction finds what was copied before its snapshot, and not the rest.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_between_the_copy_and_the_exchange_finds_the_copies() {
    let (queue, hand) = aged().await;
    end_old(&hand, "", None).await;
    let stays = end_old(&hand, "", Some(ending::failed())).await;
    until_step(&hand.client, "caught up").await;
    let mut reader = queue.client().await;
    let tx =
        reader.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await.unwrap();
    tx.query_one("select count(*) from windlass.tenants", &[]).await.unwrap();
    until_step(&hand.client, "dropped").await;
    let found = "select count(*) from windlass.jobs where id = $1";
    assert_eq!(tx.query_one(found, &[&stays]).await.unwrap().get::<_, i64>(0), 1);
    tx.commit().await.unwrap();
}

/// A reader that holds its locks for long is not disturbed, and does not make others wait for more than a moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_reader_postpones_the_exchange_and_nobody_else_waits_for_it() {
    let (queue, hand) = aged().await;
    let id = end_old(&hand, "", None).await;
    until_step(&hand.client, "caught up").await;
    let reader = queue.client().await;
    reader.batch_execute("begin; select count(*) from windlass.job").await.unwrap();
    let keeper = queue.client().await;
    let exchanging = tokio::spawn(async move {
        let began = Instant::now();
        let step = step(&keeper).await;
        (step, began.elapsed())
    });
    let mut longest = Duration::ZERO;
    while !exchanging.is_finished() {
        let began = Instant::now();
        hand.enqueue("'held'").await;
        longest = longest.max(began.elapsed());
    }
    let (step_done, took) = exchanging.await.unwrap();
    assert_eq!(step_done, "busy");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(longest < Duration::from_secs(5), "{longest:?}");
    let problem = "select count(*) from windlass.retiring where problem is not null and tries = 1";
    assert_eq!(count(&hand.client, problem).await, 1);
    reader.batch_execute("commit").await.unwrap();
    until_step(&hand.client, "dropped").await;
    assert_eq!(count(&hand.client, &format!("select count(*) from windlass.job where id = '{id}'")).await, 0);
    assert_is_over(&hand.client).await;
}

/// Reads by id and by list while partition after partition is exchanged.
#[tokio::test(flavor = "multi_thread")]
async fn no_read_misses_a_job_while_its_partition_is_exchanged() {
    let (queue, hand) = aged().await;
    let stays: Vec<Uuid> = {
        let mut ids = Vec::new();
        for _ in 0..5 {
            ids.push(end_old(&hand, "", Some(ending::failed())).await);
        }
        ids
    };
    let stop = tokio_util::sync::CancellationToken::new();
    let readers: Vec<_> = (0..3)
        .map(|n| {
            let (queue, stop, stays) = (queue.queue().clone(), stop.clone(), stays.clone());
            tokio::spawn(async move {
                let mut reads = 0;
                while !stop.is_cancelled() {
                    if n == 0 {
                        let page = queue.list(&Filter::new(DEFAULT_TENANT).limit(100)).await.unwrap();
                        let found =
                            stays.iter().filter(|id| page.jobs.iter().any(|job| job.id == **id)).count();
                        assert_eq!(found, stays.len(), "after {reads} reads");
                    } else {
                        for id in &stays {
                            assert!(
                                queue.job(DEFAULT_TENANT, *id).await.unwrap().is_some(),
                                "{id} after {reads} reads"
                            );
                        }
                    }
                    reads += 1;
                }
                reads
            })
        })
        .collect();
    for _ in 0..5 {
        end_old(&hand, "", None).await;
        hand.client.execute("delete from windlass.partition_look", &[]).await.unwrap();
        eventually("it is replaced", async || step(&hand.client).await == "dropped").await;
    }
    stop.cancel();
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    assert_is_over(&hand.client).await;
}
