//! Calls functions of the database as PostgREST does, which supabase-js talks to: a POST to the name of the function, with the
//! schema in a header and the named arguments in the body.

use std::sync::Arc;

use axum::Json;
use axum::extract::Path;
use axum::http::HeaderMap;
use serde_json::{Map, Value};
use tokio_postgres::Client;
use windlass_testing::TestQueue;

/// Returns its address. It ends with the test.
pub(super) async fn start(queue: &TestQueue) -> String {
    let client = Arc::new(queue.client().await);
    let route = axum::routing::post(
        move |Path(function): Path<String>, headers: HeaderMap, Json(body): Json<Map<String, Value>>| async move {
            assert_eq!(headers["content-profile"], "windlass");
            Json(call(&client, &function, body).await)
        },
    );
    let router = axum::Router::new().route("/rest/v1/rpc/{function}", route);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn call(client: &Client, function: &str, body: Map<String, Value>) -> Value {
    let described = "select string_agg(format('%I %s', a.name, format_type(a.type, null)), ', '),
                            string_agg(format('%1$I => a.%1$I', a.name), ', ')
                       from pg_proc p, unnest(p.proargnames[:p.pronargs], p.proargtypes::oid[]) a (name, type)
                      where p.pronamespace = 'windlass'::regnamespace and p.proname = $1 and a.name = any ($2)";
    let names: Vec<String> = body.keys().cloned().collect();
    let row = client.query_one(described, &[&function, &names]).await.unwrap();
    let (columns, arguments): (String, String) = (row.get(0), row.get(1));
    let called = format!(
        "select coalesce(json_agg(r), '[]')::text
           from json_to_record($1::text::json) a ({columns}), lateral windlass.{function}({arguments}) r"
    );
    let row = client.query_one(&called, &[&Value::Object(body).to_string()]).await.unwrap();
    serde_json::from_str(row.get(0)).unwrap()
}
