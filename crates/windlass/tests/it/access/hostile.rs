//! Code of a caller's own never runs with anybody else's rights, whatever it is named and wherever it lies.

use windlass_testing::{Login, TestQueue, eventually, sample};

use super::GROUPS;
use super::calls::functions;
use super::stock::stock;
use crate::support::count;

/// What a function does as none of ours may: it runs as the owner and finds this on the caller's path. An operator, a unary one, one of
/// any array, a function of any array, one that returns rows, and one of ours.
const BAITS: [&str; 6] = ["1 = 1", "- n", "ids = ids", "cardinality(ids)", "unnest(ids)", "caller()"];

/// A worker waits for jobs, and a tenant has a quota or is being deleted: with both, enqueues take all their branches.
pub(super) const WATCHED: &str =
    "select setval('windlass.workers_wait', 1); select setval('windlass.tenants_watched', 1)";

#[tokio::test(flavor = "multi_thread")]
async fn hostile_code_of_the_same_names_never_runs_as_another_role() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let tenant = queue.tenant("a").await;
    let about = stock(&queue, tenant, "of-a").await;
    // Without a current tenant, with its own and with another one; the last time with one snapshot throughout, for which some functions
    // take another way.
    let passes = [
        (String::new(), "read committed"),
        (tenant.to_string(), "read committed"),
        (queue.tenant("b").await.to_string(), "read committed"),
        (tenant.to_string(), "repeatable read"),
    ];
    let calls: Vec<String> = functions(&admin).await.iter().map(|one| one.call(&about)).collect();
    assert!(calls.len() > 100);
    // Every call with both paths as every role takes minutes, because each needs a connection of its own.
    let all = GROUPS
        .into_iter()
        .flat_map(|group| calls.iter().map(move |call| (group, call)))
        .flat_map(|(group, call)| ["attack", "attack_domains"].map(|path| (group, call, path)));
    let tried = sample(all.collect(), 250);
    let database: String = admin.query_one("select current_database()::text", &[]).await.unwrap().get(0);
    for group in GROUPS {
        let role = Login::create(&queue, group).await;
        // The types, which some of our functions take: an attacker may have created functions before they were closed.
        let grant = format!(
            "grant create on database {database} to {0};
             do $$ declare type text; begin
               for type in select c.oid::regclass from pg_class c where c.relnamespace = 'windlass'::regnamespace and c.relkind in ('r', 'p')
               loop execute format('grant usage on type %s to {0}', type); end loop;
             end $$",
            role.name
        );
        admin.batch_execute(&grant).await.unwrap();
        let client = role.client().await;
        client.batch_execute(include_str!("hostile.sql")).await.unwrap();
        for (_, call, path) in tried.iter().filter(|(of, ..)| *of == group) {
            // A connection of its own, because a session keeps the names that a function found at its first call.
            let client = role.client().await;
            client
                .batch_execute(&format!("set search_path = {path}, pg_temp, windlass, pg_catalog"))
                .await
                .unwrap();
            for (current, isolation) in &passes {
                // Again for every call, because a rollback does not undo what a call did to them.
                admin.batch_execute(WATCHED).await.unwrap();
                let begin =
                    format!("begin isolation level {isolation}; set local windlass.tenant_id = '{current}'");
                client.batch_execute(&begin).await.unwrap();
                let answer = client.batch_execute(&format!("select {call}")).await;
                client.batch_execute("rollback").await.unwrap();
                let refused = answer
                    .err()
                    .and_then(|error| error.as_db_error().map(|error| error.message().to_owned()));
                let is_hijacked = refused.as_ref().is_some_and(|text| text.starts_with("hostile"));
                assert!(!is_hijacked, "{group}: {call}: {refused:?}");
            }
        }
        let ran: bool = admin.query_one("select is_called from attack.ran", &[]).await.unwrap().get(0);
        assert!(!ran, "{group}: hostile code ran, and its error was caught");

        client.batch_execute("set search_path = attack, windlass, pg_catalog").await.unwrap();
        for bait in BAITS {
            let function = format!(
                "create or replace function windlass.bait(n integer, ids uuid[]) returns boolean language plpgsql security definer
                   as 'begin perform {bait}; return true; end';
                 alter function windlass.bait owner to windlass_owner;
                 grant execute on function windlass.bait to public"
            );
            admin.batch_execute(&function).await.unwrap();
            let taken = client.batch_execute("select windlass.bait(1, '{}')").await.unwrap_err();
            let reported = taken.as_db_error().map(|error| error.message().to_owned()).unwrap_or_default();
            assert!(reported.starts_with("hostile"), "the attack works where it can: {bait}: {taken}");
        }
        admin.batch_execute("drop function windlass.bait").await.unwrap();
        drop(client);
        // A session that ends drops its temporary objects, which depend on the schema, and locks them in another order.
        let sessions = format!("select count(*) from pg_stat_activity where usename = '{}'", role.name);
        eventually("its sessions have ended", async || count(&admin, &sessions).await == 0).await;
        admin.batch_execute("drop schema attack, attack_domains cascade").await.unwrap();
        role.drop().await;
    }
}
