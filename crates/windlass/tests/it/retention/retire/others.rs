//! What others do to a replacement: a deletion of a tenant, a restored copy of the database, a view on a partition.

use windlass::DEFAULT_TENANT;
use windlass::keeper::Duty;
use windlass_testing::{Login, eventually};

use super::{BETWEEN, aged, assert_is_over, end_old, enqueue_old, parts, step, until_step};
use crate::retention::statuses;
use crate::support::{count, ending, everything_unaudited, keeper, status};

/// Neither its jobs come back with the exchange, nor is a counter left.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_is_deleted_during_a_replacement_leaves_nothing() {
    for after in BETWEEN {
        let (queue, hand) = aged().await;
        let acme = queue.tenant("acme").await;
        let of_acme = format!(", tenant_id => '{acme}'");
        end_old(&hand, &of_acme, None).await;
        end_old(&hand, &of_acme, Some(ending::failed())).await;
        let other = end_old(&hand, "", None).await;
        let stays = end_old(&hand, "", Some(ending::failed())).await;
        enqueue_old(&hand, &of_acme).await;
        until_step(&hand.client, after).await;
        queue.delete_tenant(acme, |_| ()).await.unwrap();
        let keeper = keeper(&queue);
        eventually("the tenant is deleted", async || {
            keeper.run_once(Duty::PurgeTenants).await.unwrap();
            !everything_unaudited(&hand.client).await.contains(&acme.to_string())
        })
        .await;

        until_step(&hand.client, "dropped").await;
        assert!(!everything_unaudited(&hand.client).await.contains(&acme.to_string()), "after {after}");
        assert_eq!(statuses(&hand, &[other, stays]).await, ["missing", "failed"], "after {after}");
        assert_is_over(&hand.client).await;
    }
}

/// It may stay open for long, and the partition has jobs of other tenants.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_that_deletes_a_tenant_does_not_stop_a_replacement() {
    let (queue, hand) = aged().await;
    let acme = queue.tenant("acme").await;
    end_old(&hand, &format!(", tenant_id => '{acme}'"), Some(ending::failed())).await;
    let other = end_old(&hand, "", None).await;
    assert_eq!(step(&hand.client).await, "begun");
    let mut leaving = queue.client().await;
    let tx = leaving.transaction().await.unwrap();
    let delete = "select done from windlass.purge_tenant($1, 100)";
    while !tx.query_one(delete, &[&acme]).await.unwrap().get::<_, bool>(0) {}
    assert_eq!(step(&hand.client).await, "copied");
    tx.commit().await.unwrap();

    let keeper = keeper(&queue);
    eventually("the tenant is deleted", async || {
        keeper.run_once(Duty::PurgeTenants).await.unwrap();
        !everything_unaudited(&hand.client).await.contains(&acme.to_string())
    })
    .await;
    until_step(&hand.client, "dropped").await;
    assert!(!everything_unaudited(&hand.client).await.contains(&acme.to_string()));
    assert_eq!(status(&hand.client, other).await, "missing");
    assert_is_over(&hand.client).await;
}

/// Transaction ids start again in another cluster, so a new dependency would not be found by its id.
#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_in_a_restored_copy_starts_again() {
    let (_queue, hand) = aged().await;
    let id = end_old(&hand, "", None).await;
    until_step(&hand.client, "copied").await;
    // A restore writes every row again.
    hand.client.execute("update windlass.gate set purpose = purpose", &[]).await.unwrap();
    assert_eq!(step(&hand.client).await, "canceled");
    assert_eq!(step(&hand.client).await, "undone");
    assert_eq!(status(&hand.client, id).await, "succeeded");
    assert_is_over(&hand.client).await;
    hand.client.execute("delete from windlass.partition_look", &[]).await.unwrap();
    until_step(&hand.client, "dropped").await;
    assert_eq!(status(&hand.client, id).await, "missing");
}

/// Every login that can use the schema can create one, and the table cannot be dropped then.
#[tokio::test(flavor = "multi_thread")]
async fn a_view_on_a_partition_does_not_stop_its_replacement() {
    let (_queue, hand) = aged().await;
    let client = &hand.client;
    let ids = [end_old(&hand, "", None).await, end_old(&hand, "", Some(ending::failed())).await];
    let [old] = &parts(client).await[..] else { panic!("one partition") };
    client.batch_execute(&format!("create view public.peek as select * from windlass.{old}")).await.unwrap();
    until_step(client, "dropped").await;
    assert_eq!(statuses(&hand, &ids).await, ["missing", "failed"]);
    assert_eq!(count(client, "select count(*) from windlass.retiring").await, 0);
    assert_eq!(count(client, "select count(*) from public.peek").await, 0, "its rows are gone");
    let reported = format!(
        "select count(*) from windlass.problems() where duty = 'retire' and subject = '{old}' and reason like '%peek%'"
    );
    assert_eq!(count(client, &reported).await, 1);
    assert_eq!(status(client, enqueue_old(&hand, "").await).await, "queued");
    let of_default = format!("select count(*) from windlass.jobs where tenant_id = '{DEFAULT_TENANT}'");
    assert_eq!(count(client, &of_default).await, 2);
}

/// The same on the tables that would take its place, and no job stays. They are dropped when the views are gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_view_on_the_new_tables_does_not_stop_a_replacement() {
    let (queue, hand) = aged().await;
    let client = &hand.client;
    let id = end_old(&hand, "", None).await;
    assert_eq!(step(client).await, "begun");
    let names = client.query_one("select old || new from windlass.retiring", &[]).await.unwrap();
    let names: Vec<String> = names.get(0);
    let login = Login::create(&queue, "windlass_reader").await;
    let reader = login.client().await;
    for name in &names {
        reader
            .batch_execute(&format!("create temp view of_{name} as select from windlass.{name}"))
            .await
            .unwrap();
    }
    until_step(client, "dropped").await;
    assert_eq!(status(client, id).await, "missing");
    assert_eq!(count(client, "select count(*) from windlass.retiring").await, 0);
    let left = "select count(*) from unnest($1::text[]) n (name) where to_regclass('windlass.' || n.name) is not null";
    let left = async || client.query_one(left, &[&names]).await.unwrap().get::<_, i64>(0);
    assert_eq!(left().await, names.len() as i64, "views depend on all of them");
    assert_eq!(step(client).await, "none");
    assert_eq!(left().await, names.len() as i64);
    drop(reader);
    login.drop().await;
    eventually("the views are gone, and then the tables", async || {
        assert_eq!(step(client).await, "none");
        left().await == 0
    })
    .await;
    assert_is_over(client).await;
    assert_eq!(count(client, "select count(*) from windlass.problems()").await, 0);
}
