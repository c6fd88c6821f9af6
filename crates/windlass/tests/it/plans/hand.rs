//! The watched functions, called by hand.

use tokio_postgres::Client;
use uuid::Uuid;

pub(super) struct Claimed {
    pub(super) job: Uuid,
    attempt: i32,
}

const TOKEN: Uuid = Uuid::from_u128(7);

pub(super) async fn register(client: &Client) -> i32 {
    let name = Uuid::new_v4().to_string();
    let query = "select windlass.register_worker($1, 'here', '', '{}', '{a,b,c}', 30, '{}')";
    client.query_one(query, &[&name]).await.unwrap().get(0)
}

pub(super) async fn lanes(client: &Client) -> Vec<i32> {
    let rows = client.query("select lane from windlass.active_lanes('{a,b,c}', null)", &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

pub(super) async fn claim(client: &Client, worker: i32, lanes: &[i32], each: i32) -> Vec<Claimed> {
    let (from, counts) = (vec![0_i64; lanes.len()], vec![each; lanes.len()]);
    let query = "select job_id, attempt from windlass.claim($1, $2, $3, $4, $5)";
    let rows = client.query(query, &[&worker, &TOKEN, &lanes, &from, &counts]).await.unwrap();
    let mut taken: Vec<Claimed> =
        rows.iter().map(|row| Claimed { job: row.get(0), attempt: row.get(1) }).collect();
    taken.sort_unstable_by_key(|claimed| claimed.job);
    taken
}

pub(super) async fn settle(client: &Client, taken: &[Claimed], detail: Option<&str>) -> usize {
    let tenants = vec![windlass::DEFAULT_TENANT; taken.len()];
    let jobs: Vec<Uuid> = taken.iter().map(|claimed| claimed.job).collect();
    let attempts: Vec<i32> = taken.iter().map(|claimed| claimed.attempt).collect();
    let tokens = vec![TOKEN; taken.len()];
    let ran = vec![Some(1); taken.len()];
    let details: Vec<Option<serde_json::Value>> =
        taken.iter().map(|_| detail.map(|detail| serde_json::from_str(detail).unwrap())).collect();
    let query = "select settled from windlass.settle($1, $2, $3, $4, $5, $6)";
    let row = client.query_one(query, &[&tenants, &jobs, &attempts, &tokens, &ran, &details]).await.unwrap();
    row.get::<_, Option<Vec<i32>>>(0).unwrap_or_default().len()
}

pub(super) async fn single<T: for<'a> tokio_postgres::types::FromSql<'a>>(client: &Client, query: &str) -> T {
    client.query_one(query, &[]).await.unwrap().get(0)
}
