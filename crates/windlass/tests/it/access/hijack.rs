//! Functions that run as the owner are out of reach of what their caller puts on the search path.

use tokio_postgres::Client;
use windlass::Definition;
use windlass_testing::{Login, TestQueue};

use super::hostile::WATCHED;

/// They have no SET clause, and say in their file why they need none.
const WITHOUT_SEARCH_PATH: [&str; 1] = ["enqueue_routed"];

#[tokio::test]
async fn functions_that_run_as_the_owner_choose_their_search_path() {
    let queue = TestQueue::create().await;
    let query = "select p.proname::text from pg_proc p
                  where p.pronamespace = 'windlass'::regnamespace and p.prosecdef
                    and not coalesce(p.proconfig @> array['search_path=pg_catalog, windlass, pg_temp'], false)";
    let rows = queue.client().await.query(query, &[]).await.unwrap();
    let open: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(open, WITHOUT_SEARCH_PATH);
}

/// Every name and operator that our functions use without a schema, made again in a schema that comes first, and tables
/// of our names among the temporary ones. Whichever of them ran as the owner would say so.
#[tokio::test]
async fn shadowed_names_and_operators_are_never_used() {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let tenant = queue.tenant("a").await;
    let role = Login::create(&queue, "windlass_server").await;
    let admin = queue.client().await;
    admin.batch_execute(&format!("create schema shadow authorization {}", role.name)).await.unwrap();
    let client = role.client().await;
    client.batch_execute(SHADOWS).await.unwrap();
    for (left, right) in SHADOWED_TYPES {
        for operator in ["=", "<>", "<", "<=", ">", ">="] {
            let name = format!("shadow.op_{}", uuid::Uuid::new_v4().simple());
            let make = format!(
                "create function {name}({left}, {right}) returns boolean language plpgsql as
                   $$ begin raise exception 'hijacked as %', current_user; end $$;
                 create operator shadow.{operator} (leftarg = {left}, rightarg = {right}, function = {name})"
            );
            client.batch_execute(&make).await.unwrap();
        }
    }
    // Without synchronous commits, because the functions switch them on.
    let settings = "set search_path = shadow, pg_temp, windlass, pg_catalog; set synchronous_commit = off";
    client.batch_execute(settings).await.unwrap();
    assert!(
        hijacks(&client, "select clock_timestamp()").await,
        "the shadows are in the way of ordinary statements"
    );

    let lane: i32 = {
        let query = "select lane from windlass.route_of($1, 'a', null, null)";
        admin.query_one(query, &[&tenant]).await.unwrap().get(0)
    };
    // Alone, and while a worker waits and a tenant is watched: to notify is a path of its own, and so is to check the tenant. The same
    // with one snapshot throughout, where the tenant is checked in another way.
    let alone = "select setval('windlass.workers_wait', 0); select setval('windlass.tenants_watched', 0)";
    for (flags, isolation) in [
        (alone, "read committed"),
        (WATCHED, "read committed"),
        (alone, "repeatable read"),
        (WATCHED, "repeatable read"),
    ] {
        admin.batch_execute(flags).await.unwrap();
        for call in [
            format!(
                "windlass.enqueue('a', tenant_id => '{tenant}', dedupe_key => 'd', idempotency_key => 'i', ordering_key => 'o', tags => '{{x}}')"
            ),
            format!("windlass.enqueue_many('a', '{{\"{{}}\"}}', '{tenant}')"),
            format!(
                "windlass.enqueue_routed('{tenant}', pg_catalog.gen_random_uuid(), {lane}, 3::pg_catalog.int2, '{{}}', null)"
            ),
            format!(
                "windlass.enqueue_routed('{tenant}', pg_catalog.gen_random_uuid(), {lane}, 3::pg_catalog.int2, '{{}}', '{{\"source_ref\": \"t\"}}')"
            ),
            format!("windlass.cancel('{tenant}', pg_catalog.gen_random_uuid())"),
            format!("windlass.retry('{tenant}', pg_catalog.gen_random_uuid(), 'me')"),
            format!("windlass.purge('{tenant}', array[pg_catalog.gen_random_uuid()])"),
            "windlass.ensure_tenant('b', 'b', 1)".to_owned(),
            "windlass.define('{\"key\": \"b\"}')".to_owned(),
            "windlass.set_paused('default', false)".to_owned(),
        ] {
            client.batch_execute(&format!("begin isolation level {isolation}")).await.unwrap();
            let answer = client.batch_execute(&format!("select {call}")).await;
            client.batch_execute(if answer.is_ok() { "commit" } else { "rollback" }).await.unwrap();
            match answer {
                // Purging needs a new snapshot for each statement.
                Err(error) if isolation != "read committed" && call.starts_with("windlass.purge(") => {
                    assert_eq!(error.code().unwrap().code(), "WL021");
                }
                answer => answer.unwrap_or_else(|error| panic!("{call}: {error:?}")),
            }
        }
    }
    let jobs: i64 = admin.query_one("select count(*) from windlass.job", &[]).await.unwrap().get(0);
    assert_eq!(jobs, 13, "they went into the real table; the dedupe key kept three of sixteen out");
    drop(client);
    role.drop().await;
}

async fn hijacks(client: &Client, statement: &str) -> bool {
    let answer = client.batch_execute(statement).await;
    answer
        .is_err_and(|error| error.as_db_error().is_some_and(|error| error.message().starts_with("hijacked")))
}

const SHADOWED_TYPES: [(&str, &str); 6] = [
    ("bigint", "integer"),
    ("uuid", "uuid"),
    ("text", "text"),
    ("integer", "integer"),
    ("timestamptz", "timestamptz"),
    ("jsonb", "jsonb"),
];

const SHADOWS: &str = "
    create function shadow.clock_timestamp() returns timestamptz language plpgsql as $$ begin raise exception 'hijacked as %', current_user; end $$;
    create function shadow.now() returns timestamptz language plpgsql as $$ begin raise exception 'hijacked as %', current_user; end $$;
    create function shadow.pg_notify(text, text) returns void language plpgsql as $$ begin raise exception 'hijacked as %', current_user; end $$;
    create function shadow.current_setting(text) returns text language plpgsql as $$ begin raise exception 'hijacked as %', current_user; end $$;
    create function shadow.current_setting(text, boolean) returns text language plpgsql as $$ begin raise exception 'hijacked as %', current_user; end $$;
    create function shadow.nextval(regclass) returns bigint language plpgsql as $$ begin raise exception 'hijacked as %', current_user; end $$;
    create function shadow.length(text) returns integer language plpgsql as $$ begin raise exception 'hijacked as %', current_user; end $$;
    create function shadow.pg_sequence_last_value(regclass) returns bigint language plpgsql as $$ begin raise exception 'hijacked as %', current_user; end $$;
    create function shadow.set_config(text, text, boolean) returns text language plpgsql as $$ begin raise exception 'hijacked as %', current_user; end $$;
    create function shadow.statement_timestamp() returns timestamptz language plpgsql as $$ begin raise exception 'hijacked as %', current_user; end $$;
    create function shadow.octet_length(text) returns integer language plpgsql as $$ begin raise exception 'hijacked as %', current_user; end $$;
    create temp table job (like windlass.job);
    create temp table line (like windlass.line);
    create temp table live (tenant_id uuid, job_id uuid, attempt integer, token uuid);
    create temp table waiting (worker integer);
    create temp table tenants (id uuid, status text)";
