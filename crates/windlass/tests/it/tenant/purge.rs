//! The data of a tenant besides its jobs, in any amount.

use windlass::Definition;
use windlass::keeper::Duty;
use windlass_testing::{TestQueue, eventually};

use super::{blocked, mark, purge_until};
use crate::support::{count, everything_unaudited, keeper};

/// One transaction for all of it would exceed the time limit of a duty, for a tenant with millions of events.
#[tokio::test(flavor = "multi_thread")]
async fn the_events_and_keys_of_a_tenant_are_deleted_in_batches() {
    const MAX: i64 = 100;
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let tenant = queue.tenant("leaving").await;
    let fill = format!(
        "insert into windlass.event (tenant_id, id, name, payload, emitted_at)
           select '{tenant}', windlass.uuid7(), 'n', '{{}}', now() from generate_series(1, 450);
         insert into windlass.event_dispatch (tenant_id, event_id, trigger_id, outcome, reason)
           select tenant_id, id, gen_random_uuid(), 'failed', 'r' from windlass.event;
         insert into windlass.idempotency (tenant_id, idempotency_key, job_id, body_hash, created_at)
           select '{tenant}', n::text, gen_random_uuid(), '', now() from generate_series(1, 450) n"
    );
    client.batch_execute(&fill).await.unwrap();
    mark(&queue, tenant).await;
    let rows = "select greatest((select count(*) from windlass.event), (select count(*) from windlass.event_dispatch),
        (select count(*) from windlass.idempotency))";
    let mut left = 450;
    eventually("all of it is deleted", async || {
        client
            .execute("select windlass.purge_deleted_tenants($1)", &[&i32::try_from(MAX).unwrap()])
            .await
            .unwrap();
        let now = count(&client, rows).await;
        assert!(left - now <= MAX, "{} rows at once", left - now);
        left = now;
        left == 0
    })
    .await;
    purge_until(&queue, 0).await;
}

/// A step that takes too long is canceled by the server. The attempt is recorded, so the next tenant has its turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_tenant_deletion_does_not_block_the_others() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let (slow, free) = (queue.tenant("slow").await, queue.tenant("free").await);
    let stall = format!(
        "insert into windlass.event (tenant_id, id, name, payload, emitted_at) values ('{slow}', windlass.uuid7(), 'n', '{{}}', now());
         create function public.stall() returns trigger language plpgsql as 'begin perform pg_sleep(60); return old; end';
         create trigger stall before delete on windlass.event for each row execute function public.stall()"
    );
    client.batch_execute(&stall).await.unwrap();
    for tenant in [slow, free] {
        mark(&queue, tenant).await;
    }
    let impatient = queue.client().await;
    impatient.batch_execute("set statement_timeout = '1s'").await.unwrap();
    let remaining = format!("select count(*) from windlass.tenants where id = '{free}'");
    eventually("the other one is deleted", async || {
        impatient.execute("select windlass.purge_deleted_tenants(100)", &[]).await.unwrap();
        count(&client, &remaining).await == 0 && blocked(&queue, slow).await.is_some()
    })
    .await;
    let why = blocked(&queue, slow).await.unwrap();
    assert!(why.contains("statement timeout"), "{why}");
}

/// Including the marks of its retention rules, its links, and notes about it.
#[tokio::test(flavor = "multi_thread")]
async fn no_row_names_a_deleted_tenant() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    queue.define(&Definition::new("held")).await.unwrap();
    let tenant = queue.tenant("leaving").await;
    let fill = format!(
        "select windlass.set_retention('{tenant}', 'held', 'succeeded', 60, false);
         insert into windlass.users (id, email, name) values (gen_random_uuid(), 'a@example.com', 'A');
         insert into windlass.password_resets (user_id, by_tenant, secret_hash, created_by, expires_at)
           select id, '{tenant}', '', 'b', now() from windlass.users;
         select windlass.note_problem('reap', '{tenant}', 'a job', 'why')"
    );
    client.batch_execute(&fill).await.unwrap();
    let marks = format!("select count(*) from windlass.keeper_mark where duty like '%{tenant}'");
    eventually("the rule has a mark", async || {
        keeper(&queue).run_once(Duty::Prune).await.unwrap();
        count(&client, &marks).await == 1
    })
    .await;
    mark(&queue, tenant).await;
    purge_until(&queue, 0).await;
    let left = everything_unaudited(&client).await;
    let named: Vec<&str> = left.lines().filter(|line| line.contains(&tenant.to_string())).collect();
    assert!(named.is_empty(), "{named:#?}");
}
