//! The chains of the audit trail, by the functions that create and verify them.

use tokio_postgres::Client;
use uuid::Uuid;
use windlass::Queue;
use windlass::keeper::Duty;
use windlass_testing::{TestQueue, eventually, settings};

use crate::support::{count, keeper};

async fn write(client: &Client, tenant: Uuid) {
    let write = "insert into windlass.audit (tenant_id, actor, action, target) values ($1, 'a', 'b', 'c')";
    client.execute(write, &[&tenant]).await.unwrap();
}

async fn seal(queue: &TestQueue, client: &Client, rows: i64) {
    eventually("all are sealed", async || {
        keeper(queue).run_once(Duty::Seal).await.unwrap();
        let sealed = "select count(*) from windlass.audit_seals s
            join windlass.audit a on a.tenant_id = s.tenant_id and a.id = s.audit_id where a.actor = 'a'";
        count(client, sealed).await == rows
    })
    .await;
}

/// As someone who may disable triggers.
async fn behind(client: &Client, change: &str) {
    let change = format!("set session_replication_role = replica; {change}; reset session_replication_role");
    client.batch_execute(&change).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_current_tenant_only_its_chain_is_verified() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    write(&client, a).await;
    write(&client, b).await;
    seal(&queue, &client, 2).await;
    behind(
        &client,
        "update windlass.audit set actor = 'forged' where actor = 'a';
         update windlass.audit_heads set position = 9 where tenant_id <> '00000000-0000-0000-0000-000000000000'",
    )
    .await;
    let faulty = "select array_agg(distinct tenant_id) from windlass.verify_audit()";
    let mut all: Vec<Uuid> = client.query_one(faulty, &[]).await.unwrap().get(0);
    all.sort_unstable();
    let mut both = vec![a, b];
    both.sort_unstable();
    assert_eq!(all, both);
    client.execute("select set_config('windlass.tenant_id', $1, false)", &[&a.to_string()]).await.unwrap();
    assert_eq!(client.query_one(faulty, &[]).await.unwrap().get::<_, Vec<Uuid>>(0), [a]);
}

/// A login or a URL can have a current tenant by default. The command `windlass audit verify` calls these.
#[tokio::test(flavor = "multi_thread")]
async fn the_whole_trail_is_verified_whatever_tenant_the_login_has_by_default() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    write(&client, a).await;
    write(&client, b).await;
    seal(&queue, &client, 2).await;
    behind(&client, "update windlass.audit set actor = 'forged' where actor = 'a'").await;
    let separator = if queue.url().contains('?') { '&' } else { '?' };
    let of_one = format!("{}{separator}options=-c%20windlass.tenant_id%3D{a}", queue.url());
    let of_one = Queue::connect(settings(&of_one)).await.unwrap();
    let faults = of_one.verify_audit(&[]).await.unwrap();
    assert!([a, b].iter().all(|tenant| faults.iter().any(|fault| fault.tenant_id == *tenant)), "{faults:?}");
    let heads = of_one.audit_heads().await.unwrap();
    assert!([a, b].iter().all(|tenant| heads.iter().any(|head| head.tenant_id == *tenant)), "{heads:?}");
}

/// A sealer that started again at the first position would fail in every round, for every tenant.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_head_stops_no_chain() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (a, b) = (queue.tenant("a").await, queue.tenant("b").await);
    write(&client, a).await;
    seal(&queue, &client, 1).await;
    behind(&client, "delete from windlass.audit_heads").await;
    write(&client, a).await;
    write(&client, b).await;
    seal(&queue, &client, 3).await;
    assert_eq!(queue.verify_audit(&[]).await.unwrap(), []);
}

/// Ids of tenants can be chosen: the entry would be in the trail of a tenant that is created later.
#[tokio::test]
async fn an_entry_for_an_unknown_tenant_is_refused() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    for call in [
        "record_audit($1, 'a', 'r', null, null, 'job.enqueue', 't', 'denied', null, null)",
        "record_audits($1, '{a}', '{r}', '{x}', '{y}', 'job.enqueue', '{t}', '{null}')",
    ] {
        let refused = client.query_one(&format!("select windlass.{call}"), &[&Uuid::now_v7()]).await;
        assert_eq!(refused.unwrap_err().as_db_error().unwrap().code().code(), "WL003", "{call}");
    }
}
