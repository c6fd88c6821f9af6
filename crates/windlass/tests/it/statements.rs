//! The contract between the library and the schema: every statement prepares as declared, and no function is unused.

use tokio_postgres::types::Type;
use windlass_testing::TestQueue;

#[tokio::test]
async fn every_statement_prepares_with_the_types_it_declares() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    for (text, declared) in windlass::internals::statements() {
        let inferred = client.prepare(text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
        assert_eq!(names(inferred.params()), names(declared), "{text}");
        client.prepare_typed(text, declared).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
    }
}

fn names(types: &[Type]) -> Vec<&str> {
    types.iter().map(Type::name).collect()
}

/// A function that an operator or another build has replaced. Another try returns the same.
#[tokio::test]
async fn a_function_without_a_row_is_not_an_unreachable_database() {
    let queue = TestQueue::create().await;
    let replace = "drop function windlass.cancel(uuid, uuid);
        create function windlass.cancel(tenant uuid, job uuid) returns setof text language sql as 'select ''canceled'' where false'";
    queue.client().await.batch_execute(replace).await.unwrap();
    let error = queue.cancel(windlass::DEFAULT_TENANT, uuid::Uuid::nil()).await.unwrap_err();
    assert!(matches!(error, windlass::Error::UnexpectedResult { .. }), "{error}");
    assert!(!error.is_transient());
}

/// Another function, a view, a default, the installation or a statement of ours calls it, or it is documented in `docs/sql.md`.
#[tokio::test]
async fn every_function_is_called_or_public() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    // Some roles have our schema on their path, and then its names are returned unqualified.
    client.batch_execute("set search_path = pg_catalog").await.unwrap();
    let query = "select p.proname::text, pg_get_functiondef(p.oid) from pg_proc p where p.pronamespace = 'windlass'::regnamespace";
    let functions: Vec<(String, String)> = client
        .query(query, &[])
        .await
        .unwrap()
        .iter()
        .map(|row| (row.get(0), without_comments(row.get(1))))
        .collect();
    assert!(functions.len() > 40, "found only {}", functions.len());

    let query = "select pg_get_viewdef(c.oid) from pg_class c where c.relnamespace = 'windlass'::regnamespace and c.relkind = 'v'";
    let views: Vec<String> = client.query(query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    let policies: Vec<String> = client
        .query("select qual from pg_policies where schemaname = 'windlass' and qual is not null", &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    let triggers: Vec<String> = client
        .query("select pg_get_triggerdef(t.oid) from pg_trigger t where not t.tgisinternal", &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    let checks: Vec<String> = client
        .query("select pg_get_constraintdef(c.oid) from pg_constraint c where c.connamespace = 'windlass'::regnamespace", &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    let promised = include_str!("../../../../docs/sql.md");
    let installed = windlass::setup::print_sql();

    let unused: Vec<&str> = functions
        .iter()
        .filter(|(name, _)| {
            let call = format!("windlass.{name}(");
            let by_sql = functions.iter().any(|(other, body)| other != name && body.contains(&call));
            let mut catalog = views.iter().chain(&policies).chain(&triggers).chain(&checks);
            let by_catalog = catalog.any(|text| text.contains(&call));
            let by_rust = windlass::internals::statements().iter().any(|(text, _)| text.contains(&call));
            let by_install =
                ["select", "perform", "or"].iter().any(|verb| installed.contains(&format!("{verb} {call}")));
            !by_sql && !by_catalog && !by_rust && !by_install && !promised.contains(&call)
        })
        .map(|(name, _)| name.as_str())
        .collect();
    assert!(unused.is_empty(), "no statement calls {unused:?}, and they are not documented in docs/sql.md");
}

/// A name in a comment is not a call.
fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split("--").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}
