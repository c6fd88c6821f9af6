//! Arguments that every function refuses: arrays that are no lists, and durations without an end.

use serde_json::json;
use windlass_testing::TestQueue;

use crate::support::{Hand, count};

/// A call of a function with one of its arrays in the place of `%s`, and null for everything else.
const CALLS: &str = r#"
    select p.proname::text, a.name, format_type(t.typelem, null), (
             select format('select count(*) from windlass.%I(%s)', p.proname, string_agg(format('%I => %s', b.name,
                      case b.ord when a.ord then '%s' else format('null::%s', format_type(b.type, null)) end), ', '))
               from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]), p.proargnames, p.proargmodes)
                 with ordinality b (type, name, mode, ord)
              where b.type is not null and coalesce(b.mode, 'i') in ('i', 'b'))
      from pg_proc p
     cross join lateral unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]), p.proargnames, p.proargmodes)
       with ordinality a (type, name, mode, ord)
      join pg_type t on t.oid = a.type and t.typcategory = 'A'
     where p.pronamespace = 'windlass'::regnamespace and coalesce(a.mode, 'i') in ('i', 'b')
       and exists (select from aclexplode(p.proacl) g where g.grantee <> p.proowner)
     order by 1, 2"#;

/// Functions that anybody but the owner can execute. An array that is counted from 0 or 2, or that has two dimensions,
/// would apply what it contains to other elements than the caller intended.
#[tokio::test]
async fn an_array_that_is_no_list_is_refused_by_every_function() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let calls = client.query(CALLS, &[]).await.unwrap();
    assert!(calls.len() > 100, "{} arrays found", calls.len());
    let mut accepted = Vec::new();
    for row in calls {
        let (function, argument, element, call): (&str, &str, &str, &str) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        for shape in ["array[1], array[0]", "array[1], array[2]", "array[1, 1]"] {
            let call = call.replace("%s", &format!("array_fill(null::{element}, {shape})"));
            let refusal = client.query_one(&call, &[]).await.map(|_| ());
            let refusal = refusal.map_err(|error| error.as_db_error().unwrap().clone());
            let is_refused = refusal.as_ref().is_err_and(|error| {
                error.code().code() == "WL007" && error.message().contains("lower bound 1")
            });
            if !is_refused {
                accepted.push(format!("{function}({argument} => array_fill(…, {shape})): {refusal:?}"));
            }
        }
    }
    assert!(accepted.is_empty(), "{}", accepted.join("\n"));
}

/// A call of a function with one of its durations in the place of `%s`, and null for everything else. `ran_ms` is a measurement: nothing
/// lasts as long as it says.
const DURATIONS: &str = r#"
    select p.proname::text, a.name, t.typcategory = 'A', (
             select format('select count(*) from windlass.%I(%s)', p.proname, string_agg(format('%I => %s', b.name,
                      case b.ord when a.ord then '%s' else format('null::%s', format_type(b.type, null)) end), ', '))
               from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]), p.proargnames, p.proargmodes)
                 with ordinality b (type, name, mode, ord)
              where b.type is not null and coalesce(b.mode, 'i') in ('i', 'b'))
      from pg_proc p
     cross join lateral unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]), p.proargnames, p.proargmodes)
       with ordinality a (type, name, mode, ord)
      join pg_type t on t.oid = a.type and t.oid in ('integer'::regtype, 'integer[]'::regtype, 'bigint'::regtype, 'bigint[]'::regtype)
     where p.pronamespace = 'windlass'::regnamespace and coalesce(a.mode, 'i') in ('i', 'b')
       and a.name ~ '(lease|seconds|_ms$)' and a.name <> 'ran_ms'
       and exists (select from aclexplode(p.proacl) g where g.grantee <> p.proowner)
     order by 1, 2"#;

/// What a login leaves behind, such as a lease, would last for decades after its roles were revoked.
#[tokio::test]
async fn a_duration_without_end_is_refused_by_every_function() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let calls = client.query(DURATIONS, &[]).await.unwrap();
    assert!(calls.len() > 15, "{} durations found", calls.len());
    let mut accepted = Vec::new();
    for row in calls {
        let (function, argument, is_array, call): (&str, &str, bool, &str) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        for number in ["2147483647", "-1"] {
            let given = if is_array { format!("array[{number}]") } else { number.to_owned() };
            let refusal = client.query_one(&call.replace("%s", &given), &[]).await.map(|_| ());
            let refusal = refusal.map_err(|error| error.as_db_error().unwrap().clone());
            let is_refused = refusal
                .as_ref()
                .is_err_and(|error| error.code().code() == "WL007" && error.column() == Some(argument));
            if !is_refused {
                accepted.push(format!("{function}({argument} => {given}): {refusal:?}"));
            }
        }
    }
    assert!(accepted.is_empty(), "{}", accepted.join("\n"));
}

/// The first count had no position below it, so it was not reduced to the room.
#[tokio::test]
async fn a_claim_with_shifted_arrays_does_not_exceed_a_limit() {
    let queue = TestQueue::create().await;
    let hand = Hand::new(queue.client().await).await;
    hand.define(json!({"key": "held", "max_running": 1})).await;
    for _ in 0..3 {
        hand.enqueue("'held'").await;
    }
    let claim = "select count(*) from windlass.lane n, windlass.claim($1, gen_random_uuid(),
        format('[0:0]={%s}', n.id)::integer[], '[0:0]={0}'::bigint[], '[0:0]={10}'::integer[])";
    let refused = hand.client.query_one(claim, &[&hand.worker]).await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "WL007", "{refused:?}");
    assert_eq!(count(&hand.client, "select count(*) from windlass.live").await, 0);
    assert_eq!(hand.claim_all().await.len(), 1);
}
