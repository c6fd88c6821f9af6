//! Deleting tenants: one that cannot be deleted does not block the others, and nothing is added to a deleted one.

mod ids;
mod leftovers;
mod purge;

use uuid::Uuid;
use windlass::admin::{Actor, Reach};
use windlass::keeper::Duty;
use windlass::retention::HoldOn;
use windlass::setup::examine;
use windlass::{Definition, Error, NewJob};
use windlass_testing::{Login, TestQueue, eventually, settings};

use crate::access::{refusal, set_tenant};
use crate::support::{count, everything_unaudited, keeper};

async fn mark(queue: &TestQueue, tenant: Uuid) {
    let acting = queue.act(Reach::Everything, &Actor::default()).await.unwrap();
    acting.delete_tenant(tenant).await.unwrap();
    acting.commit().await.unwrap();
}

async fn blocked(queue: &TestQueue, tenant: Uuid) -> Option<String> {
    let query = "select purge_blocked from windlass.tenants where id = $1";
    queue.client().await.query_one(query, &[&tenant]).await.unwrap().get(0)
}

/// Rounds of the duty, as by the keeper, until this many of the tenants are left: the last step waits for the transactions of
/// other databases too.
async fn purge_until(queue: &TestQueue, left: i64) {
    let (keeper, client) = (keeper(queue), queue.client().await);
    let query = "select count(*) from windlass.tenants where slug <> 'default'";
    eventually("they are deleted", async || {
        keeper.run_once(Duty::PurgeTenants).await.unwrap();
        count(&client, query).await == left
    })
    .await;
    for _ in 0..3 {
        keeper.run_once(Duty::PurgeTenants).await.unwrap();
    }
    assert_eq!(count(&client, query).await, left);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_under_legal_hold_or_with_an_error_blocks_no_other() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let (held, bad, free) =
        (queue.tenant("held").await, queue.tenant("bad").await, queue.tenant("free").await);
    for tenant in [held, bad, free] {
        queue.enqueue(&NewJob::new("held").tenant(tenant)).await.unwrap();
    }
    let hold = queue.hold(held, &HoldOn::Tenant, "case 12", "counsel").await.unwrap();
    // An object of the user refers to the tenant.
    client
        .batch_execute(&format!(
            "create table public.mine (tenant uuid references windlass.tenants (id)); insert into public.mine values ('{bad}')"
        ))
        .await
        .unwrap();
    for tenant in [held, bad, free] {
        mark(&queue, tenant).await;
    }
    purge_until(&queue, 2).await;
    assert!(!everything_unaudited(&client).await.contains(&free.to_string()));
    assert_eq!(blocked(&queue, held).await.as_deref(), Some("some of its data is under legal hold"));
    let why = blocked(&queue, bad).await.unwrap();
    assert!(why.contains("foreign key"), "{why}");
    let kept = format!("select count(*) from windlass.job where tenant_id = '{held}'");
    assert_eq!(count(&client, &kept).await, 1, "none of it is deleted");

    let findings = examine(&settings(queue.url())).await.unwrap();
    let reported: Vec<&str> =
        findings.iter().filter(|one| one.check == "deleted tenants").map(|one| one.found.as_str()).collect();
    assert!(
        reported.iter().any(|found| found.contains("held: some of its data is under legal hold")),
        "{reported:?}"
    );
    assert!(
        reported.iter().any(|found| found.contains("bad: ") && found.contains("foreign key")),
        "{reported:?}"
    );

    queue.release(held, hold, "counsel").await.unwrap();
    client
        .batch_execute("drop table public.mine; update windlass.tenants set purge_checked_at = now() - interval '2 min' where slug = 'bad'")
        .await
        .unwrap();
    purge_until(&queue, 0).await;
}

/// A held tenant may exist for years: it does not slow down enqueues.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_under_hold_does_not_slow_down_enqueues() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let held = queue.tenant("held").await;
    queue.hold(held, &HoldOn::Tenant, "case 12", "counsel").await.unwrap();
    mark(&queue, held).await;
    let watched = "select last_value from windlass.tenants_watched";
    purge_until(&queue, 1).await;
    assert_eq!(count(&client, watched).await, 1, "its lanes may be cached for a moment");
    client.batch_execute("update windlass.tenants set updated_at = now() - interval '2 min'").await.unwrap();
    purge_until(&queue, 1).await;
    assert_eq!(count(&client, watched).await, 0);
}

/// Transaction ids start again in a cluster that a backup was restored into.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_is_deleted_after_a_restore_into_a_new_cluster() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let tenant = queue.tenant("leaving").await;
    mark(&queue, tenant).await;
    client
        .batch_execute("update windlass.tenants set purge_barrier = '9000000000' where slug = 'leaving'")
        .await
        .unwrap();
    purge_until(&queue, 0).await;
}

/// A transaction with a single snapshot has taken it before the tenant was marked, and has no transaction id yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_with_an_old_snapshot_adds_nothing_to_a_deleted_tenant() {
    for level in ["repeatable read", "serializable"] {
        let queue = TestQueue::create().await;
        queue.define(&Definition::new("held")).await.unwrap();
        let tenant = queue.tenant("leaving").await;
        let new = NewJob::new("held").tenant(tenant);
        for new in [new.clone(), new.clone().dedupe_key("k"), new.clone().tag("t")] {
            windlass::enqueue_in(&queue.client().await, &new).await.unwrap();
        }
        let mut old = Vec::new();
        for new in [new.clone(), new.clone().dedupe_key("l"), new.tag("t")] {
            let client = queue.client().await;
            client
                .batch_execute(&format!("begin isolation level {level}; select from windlass.tenants"))
                .await
                .unwrap();
            old.push((client, new));
        }
        queue.delete_tenant(tenant, |_| ()).await.unwrap();
        for (client, new) in old {
            let refused = windlass::enqueue_in(&client, &new).await;
            assert!(refused.is_err(), "{level}: {refused:?}");
        }
        let client = queue.client().await;
        assert!(
            !everything_unaudited(&client).await.contains(&tenant.to_string()),
            "{level}: a row of the tenant is left"
        );
    }
}

/// Each field comes from the row as it is when the change is made, not when the change started to wait.
#[tokio::test(flavor = "multi_thread")]
async fn two_concurrent_changes_do_not_undo_each_other() {
    let queue = TestQueue::create().await;
    let tenant = queue.tenant("changed").await;
    let (first, second, client) = (queue.client().await, queue.client().await, queue.client().await);
    let change = "select windlass.change_tenant($1, $2)";
    first.batch_execute("begin").await.unwrap();
    let suspend = serde_json::json!({"status": "suspended", "max_queued": 7});
    first.query_one(change, &[&tenant, &suspend]).await.unwrap();
    let rename = tokio::spawn(async move {
        second.query_one(change, &[&tenant, &serde_json::json!({"name": "Renamed"})]).await.unwrap();
    });
    let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    eventually("the second waits", async || count(&client, waits).await == 1).await;
    first.batch_execute("commit").await.unwrap();
    rename.await.unwrap();
    let row = client
        .query_one("select status, name, max_queued from windlass.tenants where id = $1", &[&tenant])
        .await
        .unwrap();
    let found: (String, String, Option<i64>) = (row.get(0), row.get(1), row.get(2));
    assert_eq!(found, ("suspended".to_owned(), "Renamed".to_owned(), Some(7)));
}

/// As an enqueue is; see `check_tenants_active`.
#[tokio::test]
async fn a_suspended_tenants_jobs_are_not_retried() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let tenant = queue.tenant("late").await;
    let job = queue.enqueue(&NewJob::new("a").tenant(tenant)).await.unwrap().id;
    queue.cancel(tenant, job).await.unwrap();
    let admin = queue.client().await;
    admin
        .query("select windlass.change_tenant($1, '{\"status\": \"suspended\"}')", &[&tenant])
        .await
        .unwrap();
    let refused = queue.retry(tenant, job, "somebody").await.unwrap_err();
    assert!(matches!(&refused, Error::TenantRefused { .. }), "{refused}");
    let app = Login::create(&queue, "windlass_app").await;
    let client = app.client().await;
    set_tenant(&client, Some(tenant)).await;
    for call in ["retry($1, $2, 'me')", "retry_many($1, array[$2::uuid], '{}', 'me')"] {
        let answer = client.query(&format!("select windlass.{call}"), &[&tenant, &job]).await;
        assert_eq!(refusal(answer), "WL003", "{call}");
    }
    assert_eq!(queue.job(tenant, job).await.unwrap().unwrap().status.as_str(), "canceled");
    admin.query("select windlass.change_tenant($1, '{\"status\": \"active\"}')", &[&tenant]).await.unwrap();
    queue.retry(tenant, job, "somebody").await.unwrap();
    app.drop().await;
}

/// tenants are named by slug or by id, so the id of another tenant must not be a slug.
#[tokio::test]
async fn a_slug_is_not_the_text_of_an_id() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (other, own) = (queue.tenant("other").await, queue.tenant("own").await);
    for slug in [other.to_string(), other.simple().to_string(), Uuid::now_v7().to_string()] {
        for call in [
            format!("windlass.create_tenant('{{\"slug\": \"{slug}\", \"name\": \"n\"}}')"),
            format!("windlass.change_tenant('{own}', '{{\"slug\": \"{slug}\"}}')"),
            format!("windlass.ensure_tenant('{slug}', 'n', 1)"),
        ] {
            let error = client.query(&format!("select {call}"), &[]).await.unwrap_err();
            let refused = error.as_db_error().unwrap();
            assert_eq!((refused.code().code(), refused.column()), ("WL007", Some("slug")), "{call}");
        }
        let refused = queue.ensure_tenant(&slug, "n", 1).await.unwrap_err();
        assert!(matches!(&refused, Error::Refused { field, .. } if field == "slug"), "{refused}");
    }
}

/// An application's own id. It is never reused: the audit trail of a deleted tenant stays.
#[tokio::test(flavor = "multi_thread")]
async fn the_id_of_a_tenant_can_be_chosen_once() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let id = Uuid::new_v4();
    let ensure = "select windlass.ensure_tenant($1, $1, id => $2)";
    for _ in 0..2 {
        let made: Uuid = client.query_one(ensure, &[&"acme", &id]).await.unwrap().get(0);
        assert_eq!(made, id);
    }
    let weight =
        "select windlass.ensure_tenant('acme', 'acme', 7); select windlass.ensure_tenant('acme', 'Acme')";
    client.batch_execute(weight).await.unwrap();
    let kept = "select count(*) from windlass.tenants where slug = 'acme' and name = 'Acme' and weight = 7";
    assert_eq!(count(&client, kept).await, 1);
    for (slug, id) in
        [("acme", Uuid::new_v4()), ("other", id), ("other", Uuid::nil()), ("other", Uuid::max())]
    {
        assert_eq!(refusal(client.query(ensure, &[&slug, &id]).await), "WL007", "{slug} {id}");
    }
    let definition: Uuid =
        client.query_one("select windlass.define('{\"key\": \"a\"}')", &[]).await.unwrap().get(0);
    assert_eq!(
        refusal(client.query(ensure, &[&"other", &definition]).await),
        "WL007",
        "it has gates of its own"
    );
    mark(&queue, id).await;
    purge_until(&queue, 0).await;
    assert_eq!(refusal(client.query(ensure, &[&"acme", &id]).await), "WL007", "it was deleted");
}
