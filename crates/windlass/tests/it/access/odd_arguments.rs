//! Every function, as every role that may call it, with one of its arguments missing, empty, too long or twice: it works, or it refuses
//! the call with an error that docs/sql.md lists and that names the argument. A refusal by a table names a column, if anything.

use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;
use windlass_testing::{Login, TestQueue};

use super::calls::functions;
use super::stock::stock;
use super::{GROUPS, create_jobs_in_every_table};

/// These act for the current tenant only.
const BOUND: [&str; 3] = ["windlass_app", "windlass_reader", "windlass_server"];

/// What is wrong with the answer to a call, if anything. Nothing of the call stays.
async fn fault(client: &Client, current: Option<Uuid>, statements: &str) -> Option<String> {
    let current = current.map(|tenant| tenant.to_string()).unwrap_or_default();
    let call = format!("begin; set local windlass.tenant_id = '{current}'; {statements}");
    let answer = client.simple_query(&call).await;
    client.batch_execute("rollback").await.unwrap();
    let Err(error) = answer else { return None };
    let Some(error) = error.as_db_error() else { return Some(error.to_string()) };
    let code = error.code().code();
    let names_it =
        !matches!(code, "WL007" | "WL018") || error.column().is_some_and(|column| !column.is_empty());
    let is_documented = (code.starts_with("WL") || code.starts_with("22")) && names_it;
    (!is_documented).then(|| format!("{code} {}", error.message()))
}

/// Other values in the place of this one, as literals of the same type.
pub(super) fn odd_values(kind: &str, usual: &str) -> Vec<String> {
    let mut odd = vec![format!("null::{kind}")];
    let mut add = |literals: &[&str]| odd.extend(literals.iter().map(|one| format!("{one}::{kind}")));
    if let Some(element) = kind.strip_suffix("[]") {
        add(&["'{}'", &format!("array[null]::{element}[]")]);
        if let Some(one) = usual.strip_prefix("array[").and_then(|rest| rest.strip_suffix(']')) {
            add(&[&format!("array[{one}, {one}]")]);
        }
        return odd;
    }
    match kind {
        "text" => add(&["''", "repeat('x', 100000)"]),
        "bytea" => add(&["''"]),
        "json" | "jsonb" => add(&["'{}'", "'[]'", "'null'", "'1'"]),
        "uuid" => add(&["'00000000-0000-0000-0000-000000000000'"]),
        "smallint" => add(&["0", "(-1)", "32767"]),
        "integer" => add(&["0", "(-1)", "2147483647"]),
        "bigint" => add(&["0", "(-1)", "9223372036854775807"]),
        "real" | "double precision" => add(&["'nan'", "'infinity'", "(-1)"]),
        "timestamp with time zone" => add(&["'infinity'", "'-infinity'"]),
        "interval" => add(&["'1000000 days'"]),
        _ => {}
    }
    // With one field of the object at a time.
    let object = usual.strip_prefix('\'').and_then(|text| text.rsplit_once("'::")).map(|(text, _)| text);
    if let Some(Value::Object(fields)) = object.and_then(|text| serde_json::from_str(text).ok()) {
        for name in fields.keys() {
            for value in [json!(null), json!(""), json!(-5), json!(true), json!({}), json!([null])] {
                let mut changed = fields.clone();
                changed.insert(name.clone(), value);
                odd.push(format!("'{}'::{kind}", Value::Object(changed)));
            }
            let mut less = fields.clone();
            less.remove(name);
            odd.push(format!("'{}'::{kind}", Value::Object(less)));
        }
    }
    odd
}

#[tokio::test(flavor = "multi_thread")]
async fn every_function_names_the_argument_that_it_refuses() {
    let queue = TestQueue::create().await;
    let admin = queue.client().await;
    let tenant = queue.tenant("own").await;
    create_jobs_in_every_table(&queue, tenant).await;
    let about = stock(&queue, tenant, "known-to-its-own-tenant").await;
    let functions = functions(&admin).await;
    let (mut calls, mut faults) = (0, Vec::new());
    for group in GROUPS {
        let role = Login::create(&queue, group).await;
        let client = role.client().await;
        client.batch_execute("set search_path = pg_catalog").await.unwrap();
        let current = BOUND.contains(&group).then_some(tenant);
        for function in &functions {
            if !function.is_granted_to(&admin, group).await {
                continue;
            }
            let usual = format!("select from {}", function.call(&about));
            // It calls a function that this role may not call.
            if fault(&client, current, &usual).await.is_some_and(|fault| fault.starts_with("42501")) {
                continue;
            }
            let mut statements = vec![usual.clone(), format!("{usual}; {usual}")];
            statements.extend(function.odd_calls(&about).iter().map(|call| format!("select from {call}")));
            for statement in statements {
                calls += 1;
                if let Some(fault) = fault(&client, current, &statement).await {
                    let statement: String = statement.chars().take(300).collect();
                    faults.push(format!("{group}: {fault}: {statement}"));
                }
            }
        }
        drop(client);
        role.drop().await;
    }
    assert!(calls > 5000, "{calls} calls");
    assert!(faults.is_empty(), "{} of {calls} calls:\n{}", faults.len(), faults.join("\n"));
}
