//! The lock order of decision 0020: calls on many jobs that share jobs, rows and keys wait for each other and never
//! deadlock. The clients call the functions directly, because the library retries after a deadlock.

mod pairs;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error};
use uuid::Uuid;
use windlass::{DEFAULT_TENANT, Definition};
use windlass_testing::TestQueue;

/// The calls of one client in a race. They choose from the jobs that existed when it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    /// Jobs with keys of all kinds.
    EnqueueMany,
    /// Jobs that wait for the jobs of the race, under the dedupe keys of those.
    EnqueueBehind,
    CancelMany,
    RetryMany,
    Retry,
    Purge,
}

const CALLS: usize = 8;
const JOBS_OF_A_CALL: usize = 24;

impl Verb {
    async fn call(self, client: &Client, random: &mut StdRng, jobs: &[Uuid]) -> Result<(), Error> {
        let chosen: Vec<Uuid> = jobs.choose_multiple(random, JOBS_OF_A_CALL).copied().collect();
        match self {
            Self::EnqueueMany => enqueue_many(client, random, None).await,
            Self::EnqueueBehind => enqueue_many(client, random, Some(&chosen)).await,
            Self::CancelMany => query(client, "select windlass.cancel_many($1, $2, '{}')", &chosen).await,
            Self::RetryMany => {
                query(client, "select windlass.retry_many($1, $2, '{}', 'tester')", &chosen).await
            }
            Self::Retry => {
                query(client, "select windlass.retry($1, ($2::uuid[])[1], 'tester')", &chosen).await
            }
            Self::Purge => {
                query(client, "select windlass.purge($1, $2)", &chosen[..JOBS_OF_A_CALL / 4]).await
            }
        }
    }
}

async fn query(client: &Client, call: &str, jobs: &[Uuid]) -> Result<(), Error> {
    let params: [&(dyn ToSql + Sync); 2] = [&DEFAULT_TENANT, &jobs];
    client.execute(call, &params).await.map(|_| ())
}

async fn enqueue_many(client: &Client, random: &mut StdRng, needs: Option<&[Uuid]>) -> Result<(), Error> {
    let each: Vec<Value> = (0..JOBS_OF_A_CALL)
        .map(|_| {
            // Most keys are new: a job whose key is held takes no further locks.
            let shared = needs.is_some() || random.random_ratio(1, 4);
            let dedupe_key = match shared {
                true => format!("d{}", random.random_range(0..40)),
                false => format!("d{}", random.random::<u64>()),
            };
            match needs.and_then(|needs| needs.choose(random)) {
                Some(need) => json!({"dedupe_key": dedupe_key, "depends_on": [need]}),
                None => json!({
                    "dedupe_key": dedupe_key,
                    "ordering_key": format!("o{}", random.random_range(0..20)),
                    "idempotency_key": format!("i{}", random.random::<u64>()),
                }),
            }
        })
        .collect();
    let payloads = vec![json!({}); each.len()];
    let call = "select windlass.enqueue_many('a', $1, null, '{}', $2)";
    client.execute(call, &[&payloads, &each]).await.map(|_| ())
}

/// Lets each of these clients make its calls at the same time as the others, and requires that none is the victim of a
/// deadlock. A refusal is no deadlock: a purged job cannot be waited for. But a verb that is always refused proves nothing.
async fn race(queue: &TestQueue, seed: u64, jobs: &[Uuid], verbs: &[Verb]) {
    let mut clients = JoinSet::new();
    for (number, &verb) in verbs.iter().enumerate() {
        let client = queue.client().await;
        let jobs = jobs.to_vec();
        clients.spawn(async move {
            let mut random = StdRng::seed_from_u64(seed * 100 + number as u64);
            let (mut deadlocks, mut done) = (0, 0);
            for _ in 0..CALLS {
                match verb.call(&client, &mut random, &jobs).await {
                    Ok(()) => done += 1,
                    Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => deadlocks += 1,
                    Err(error) if error.code().is_some_and(|code| code.code().starts_with("WL")) => (),
                    Err(error) => panic!("{verb:?}: {error:?}"),
                }
            }
            (verb, deadlocks, done)
        });
    }
    let clients = clients.join_all().await;
    let victims: Vec<_> = clients.iter().filter(|(_, deadlocks, _)| *deadlocks > 0).collect();
    assert!(victims.is_empty(), "deadlocks with seed {seed}: {victims:?}");
    for verb in verbs {
        let done: usize = clients.iter().filter(|(of, ..)| of == verb).map(|(.., done)| done).sum();
        assert!(done > 0, "with seed {seed}, no call of {verb:?} was accepted");
    }
}

/// A queue with these jobs of the definition `a`, each with the options of `each(n)`, in the order of their ids.
async fn queue_with(jobs: usize, each: impl Fn(usize) -> Value) -> (TestQueue, Client, Vec<Uuid>) {
    let queue = TestQueue::create().await;
    queue.define(&Definition::new("a")).await.unwrap();
    let client = queue.client().await;
    let ids = enqueue(&client, (0..jobs).map(each).collect()).await;
    (queue, client, ids)
}

async fn enqueue(client: &Client, each: Vec<Value>) -> Vec<Uuid> {
    let payloads = vec![json!({}); each.len()];
    let call = "select id from windlass.enqueue_many('a', $1, null, '{}', $2) order by ord";
    client.query(call, &[&payloads, &each]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn cancel(client: &Client, jobs: &[Uuid]) {
    query(client, "select windlass.cancel_many($1, $2, '{}')", jobs).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_jobs_with_several_keys_do_not_deadlock() {
    let (queue, _, _) = queue_with(0, |_| json!({})).await;
    race(&queue, 1, &[], &[Verb::EnqueueMany; 4]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_of_many_jobs_do_not_deadlock_with_each_other_and_with_enqueues() {
    let key = |n: usize| json!({"ordering_key": format!("o{}", n % 20), "dedupe_key": format!("d{}", n % 40), "if_unmet": "run"});
    let (queue, client, mut jobs) = queue_with(40, key).await;
    for seed in 2..5 {
        cancel(&client, &jobs).await;
        race(&queue, seed, &jobs, &[Verb::RetryMany, Verb::RetryMany, Verb::Retry, Verb::EnqueueMany]).await;
        jobs.extend(enqueue(&client, (0..40).map(key).collect()).await);
        jobs.sort();
        jobs.dedup();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancels_of_many_jobs_that_share_queue_rows_do_not_deadlock() {
    for seed in 5..8 {
        let (queue, client, _) = queue_with(2, |n| json!({"queue": format!("q{n}")})).await;
        let jobs = share_rows(&client).await;
        race(&queue, seed, &jobs, &[Verb::CancelMany; 4]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancels_and_purges_of_many_jobs_do_not_deadlock() {
    for seed in 8..11 {
        let (queue, client, _) = queue_with(2, |n| json!({"queue": format!("q{n}")})).await;
        let jobs = share_rows(&client).await;
        race(&queue, seed, &jobs, &[Verb::CancelMany, Verb::CancelMany, Verb::Purge, Verb::Purge]).await;
    }
}

/// Enqueues 512 jobs in eight rows of the line, in two lanes: neighbors by id are in different rows.
async fn share_rows(client: &Client) -> Vec<Uuid> {
    let lanes: Vec<i32> = client
        .query("select id from windlass.lane order by id desc", &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    let mut jobs: Vec<Uuid> = Vec::new();
    for row in
        client.query("select windlass.uuid7() from generate_series(1, 512) order by 1", &[]).await.unwrap()
    {
        jobs.push(row.get(0));
    }
    for part in 0..8 {
        let row: Vec<Uuid> = jobs.iter().skip(part).step_by(8).copied().collect();
        let payloads = vec![json!({}); row.len()];
        let call = "select windlass.enqueue_alike($1, $2, 3::smallint, $3, array(select p::json from unnest($4::jsonb[]) p))";
        let params: [&(dyn ToSql + Sync); 4] = [&DEFAULT_TENANT, &lanes[part % lanes.len()], &row, &payloads];
        client.execute(call, &params).await.unwrap();
    }
    jobs
}

#[tokio::test(flavor = "multi_thread")]
async fn cancels_and_purges_of_jobs_that_wait_for_each_other_do_not_deadlock() {
    for seed in 11..14 {
        let (queue, client, needed) = queue_with(48, |_| json!({})).await;
        let waiting =
            (0..96).map(|n| json!({"depends_on": [needed[n * 7 % 48], needed[n * 5 % 48]]})).collect();
        let mut jobs = enqueue(&client, waiting).await;
        jobs.extend(needed);
        race(&queue, seed, &jobs, &[Verb::CancelMany, Verb::CancelMany, Verb::CancelMany, Verb::Purge]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_and_purges_of_jobs_of_one_ordering_key_do_not_deadlock() {
    for seed in 14..17 {
        let (queue, client, jobs) =
            queue_with(60, |n| json!({"ordering_key": format!("o{}", n % 3), "if_unmet": "run"})).await;
        cancel(&client, &jobs).await;
        race(&queue, seed, &jobs, &[Verb::RetryMany, Verb::RetryMany, Verb::Purge, Verb::Purge]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_that_wait_for_jobs_do_not_deadlock_with_a_purge_of_those() {
    for seed in 17..20 {
        // So many that some are left to wait for while others are purged.
        let (queue, _, jobs) = queue_with(400, |n| json!({"dedupe_key": format!("d{n}")})).await;
        race(&queue, seed, &jobs, &[Verb::EnqueueBehind, Verb::EnqueueBehind, Verb::Purge, Verb::Purge])
            .await;
    }
}
