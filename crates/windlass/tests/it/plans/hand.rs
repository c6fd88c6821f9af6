//! The watched functions, called by hand.

use std::collections::BTreeMap;

use tokio_postgres::Client;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

pub(super) struct Claimed {
    pub(super) job: Uuid,
    attempt: i32,
    /// The lane and the number of its block.
    block: (i32, i64),
    position: i16,
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
    let query = "select job_id, attempt, lane, block, at_position from windlass.claim($1, $2, $3, $4, $5)";
    let rows = client.query(query, &[&worker, &TOKEN, &lanes, &from, &counts]).await.unwrap();
    let claimed = |row: &tokio_postgres::Row| Claimed {
        job: row.get(0),
        attempt: row.get(1),
        block: (row.get(2), row.get(3)),
        position: row.get(4),
    };
    let mut taken: Vec<Claimed> = rows.iter().map(claimed).collect();
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

/// The same for plain successes by their places, as a worker does it. Returns how many did not end.
pub(super) async fn settle_plain(client: &Client, taken: &[Claimed]) -> usize {
    let mut blocks: BTreeMap<(i32, i64), Vec<i16>> = BTreeMap::new();
    for claimed in taken {
        blocks.entry(claimed.block).or_default().push(claimed.position);
    }
    let (lanes, numbers): (Vec<i32>, Vec<i64>) = blocks.keys().copied().unzip();
    let (tenants, tokens) = (vec![windlass::DEFAULT_TENANT; lanes.len()], vec![TOKEN; lanes.len()]);
    let attempts = vec![taken[0].attempt; lanes.len()];
    let counts: Vec<i32> = blocks.values().map(|positions| i32::try_from(positions.len()).unwrap()).collect();
    let positions: Vec<i16> = blocks.into_values().flatten().collect();
    let ran = vec![1; positions.len()];
    let query = "select missed from windlass.settle_plain($1, $2, $3, $4, $5, $6, $7, $8)";
    let params: [&(dyn ToSql + Sync); 8] =
        [&tenants, &lanes, &numbers, &attempts, &tokens, &counts, &positions, &ran];
    let row = client.query_one(query, &params).await.unwrap();
    row.get::<_, Option<Vec<i32>>>(0).unwrap_or_default().len()
}

pub(super) async fn single<T: for<'a> tokio_postgres::types::FromSql<'a>>(client: &Client, query: &str) -> T {
    client.query_one(query, &[]).await.unwrap().get(0)
}
