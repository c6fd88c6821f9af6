//! No table keeps a row of a deleted tenant. The tables come from the catalog, so a new one is tested too.

use serde_json::json;
use tokio_postgres::Client;
use windlass_testing::{TestQueue, eventually, until_waits_or_ends};

use super::{mark, purge_until};
use crate::support::{Hand, count, register};

/// Tables that may name a deleted tenant, and why.
const KEPT: &[(&str, &str)] = &[
    ("audit", "records the deletion, and what happened before"),
    ("audit_seals", "the chain of these records"),
    ("audit_heads", "the end of that chain"),
    ("key_lock", "has rows within a transaction only"),
    ("legal_hold", "a tenant with a hold is not deleted"),
];

/// One row of the tenant in every table with a column for tenants, of one job, as far as they refer to jobs. Constraints are
/// dropped: a check would refuse most of the values.
const FILL: &str = "
set session_replication_role = replica;
do $fill$
declare
  to_fill record;
begin
  for to_fill in
    select format('alter table %s drop constraint %I', k.conrelid::regclass, k.conname) as statement
      from pg_constraint k join pg_class c on c.oid = k.conrelid
     where k.contype = 'c' and c.relnamespace = 'windlass'::regnamespace and not c.relispartition
    union all
    select format('insert into windlass.%I (%s) overriding system value values (%s)', c.relname, string_agg(quote_ident(a.attname), ', '),
             string_agg(case
               when a.attname ~ 'tenant' then quote_literal('{tenant}')
               when a.attname = 'needs_job_id' then 'gen_random_uuid()'
               when a.attname = 'ids' then 'array[''{job}''::uuid]'
               else case t.typname
                 when 'uuid' then quote_literal('{job}') when 'bool' then 'false' when 'timestamptz' then 'now()'
                 when 'json' then '''{}''' when 'jsonb' then '''{}''' when 'bytea' then '''x'''
                 when '_text' then '''{}''' when 'text' then '''x''' else '''1''' end end, ', '))
      from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      join pg_type t on t.oid = a.atttypid
     where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
       and c.relname <> all ({kept})
       and exists (select from pg_attribute k where k.attrelid = c.oid and k.attname ~ 'tenant' and not k.attisdropped)
       and not exists (select from pg_attribute k where k.attrelid = c.oid and k.attname = 'is_only')
       and (a.attname ~ 'tenant' or a.attname in ('id', 'lane', 'seq', 'line_seq') or a.attnotnull and not a.atthasdef)
     group by c.relname
  loop
    execute to_fill.statement;
  end loop;
end
$fill$;
set session_replication_role = origin;
insert into windlass.job_workers (worker_id, hostname, version, lease_seconds, lease_expires_at, stopped_at)
  values ('open@{tenant}', 'h', 'v', 1, now(), null), ('closed@{tenant}', 'h', 'v', 1, now(), now());
insert into windlass.gate (of_id, purpose) values ('{tenant}', 'circle');
insert into windlass.keeper_mark (duty, reached) values ('prune x y {tenant}', now());
insert into windlass.progress (tenant_id, job_id, attempt, updated_at) values ('{tenant}', gen_random_uuid(), 1, now());
insert into windlass.job_log (tenant_id, job_id, attempt, chunk, stream, at, text) values ('{tenant}', gen_random_uuid(), 1, 1, 1, now(), 'x')";

#[tokio::test(flavor = "multi_thread")]
async fn no_table_keeps_a_row_of_a_deleted_tenant() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let tenant = queue.tenant("leaving").await;
    let kept: Vec<&str> = KEPT.iter().map(|(table, _)| *table).collect();
    let fill = FILL
        .replace("{tenant}", &tenant.to_string())
        .replace("{job}", "01900000-0000-7000-8000-000000000007")
        .replace("{kept}", &format!("array['{}']", kept.join("', '")));
    client.batch_execute(&fill).await.unwrap();
    let filled = naming(&client, tenant).await;
    for table in ["job", "live", "pull_lease", "activity", "job_workers", "retention", "members", "sessions"]
    {
        assert!(filled.iter().any(|name| name == table), "{table} is not filled: {filled:?}");
    }
    assert!(filled.len() > 35, "{filled:?}");
    mark(&queue, tenant).await;
    purge_until(&queue, 0).await;
    let mut left = naming(&client, tenant).await;
    left.retain(|table| !kept.contains(&table.as_str()));
    assert!(left.is_empty(), "{left:?} have rows of a deleted tenant");
}

/// no call for a tenant that is gone leaves a row, which nothing would delete.
#[tokio::test(flavor = "multi_thread")]
async fn no_call_for_a_deleted_tenant_leaves_a_row() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let gone = uuid::Uuid::now_v7();
    let before = naming(&client, gone).await;
    let calls = [
        ("select * from windlass.purge_tenant($1, 100)", None),
        ("select windlass.purge($1, array[gen_random_uuid()])", None),
        ("select windlass.purge_subject($1, 'a', 'b')", None),
        ("select windlass.remember_request($1, 'key', 'x'::bytea)", Some("WL003")),
        ("select windlass.pull_register('name@' || $1::uuid, 'h', 'v', '{}', '{}', 60, '{}')", Some("WL003")),
    ];
    for (call, refused) in calls {
        let code =
            client.query(call, &[&gone]).await.err().map(|error| error.code().unwrap().code().to_owned());
        assert_eq!(code.as_deref(), refused, "{call}");
    }
    assert_eq!(naming(&client, gone).await, before);
    assert_eq!(before, Vec::<String>::new());
}

/// The same while the last step of the deletion is being committed: the call waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn no_call_during_the_last_step_of_a_deletion_leaves_a_row() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let calls = [
        "select windlass.remember_request($1, 'key', 'x'::bytea)",
        "select windlass.pull_register('name@' || $1::uuid, 'h', 'v', '{}', '{}', 60, '{}')",
    ];
    for (place, call) in calls.into_iter().enumerate() {
        let tenant = queue.tenant(&format!("leaving-{place}")).await;
        mark(&queue, tenant).await;
        // Until its transaction is the one that deletes the tenant: before that, it waits for those of other databases.
        let deleting = queue.client().await;
        eventually("the tenant is deleted", async || {
            deleting.batch_execute("begin").await.unwrap();
            let step = "select done from windlass.purge_tenant($1, 100)";
            let done: bool = deleting.query_one(step, &[&tenant]).await.unwrap().get(0);
            if !done {
                deleting.batch_execute("commit").await.unwrap();
            }
            done
        })
        .await;
        let caller = queue.client().await;
        let late = tokio::spawn(async move { caller.query(call, &[&tenant]).await });
        until_waits_or_ends(&client, &late).await;
        deleting.batch_execute("commit").await.unwrap();
        let code = late.await.unwrap().err().map(|error| error.code().unwrap().code().to_owned());
        assert_eq!(code.as_deref(), Some("WL003"), "{call}");
        assert_eq!(naming(&client, tenant).await, ["audit"], "{call}");
    }
}

/// Also that of a job of a pull worker: its lease stayed until it expired.
#[tokio::test(flavor = "multi_thread")]
async fn a_purged_job_of_a_pull_worker_leaves_no_row() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held"})).await;
    let id = hand.enqueue("'held'").await;
    let puller = register(&hand.client).await;
    let claim = "select c.job_id from windlass.lane l, windlass.pull_claim($1, gen_random_uuid(), array[l.id], array[0::bigint],
        array[1], array[$2::integer], array[60], array[gen_random_uuid()], 30, 0) c";
    assert_eq!(hand.client.query(claim, &[&hand.worker, &puller]).await.unwrap().len(), 1);
    assert!(naming(&hand.client, id).await.contains(&"pull_lease".to_owned()));
    queue.purge(windlass::DEFAULT_TENANT, &[id]).await.unwrap();
    assert_eq!(naming(&hand.client, id).await, ["audit"]);
}

/// The tables with a row that contains this id.
async fn naming(client: &Client, id: uuid::Uuid) -> Vec<String> {
    let tables = "select c.relname::text from pg_class c
        where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition order by 1";
    let mut naming = Vec::new();
    for row in client.query(tables, &[]).await.unwrap() {
        let table: String = row.get(0);
        let query = format!("select count(*) from windlass.{table} r where strpos(r::text, '{id}') > 0");
        if count(client, &query).await > 0 {
            naming.push(table);
        }
    }
    naming
}
