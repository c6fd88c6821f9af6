//! The environment of the races: a few connections, and functions that prepare jobs.
//!
//! Acts are statements that return one text. Most rounds force an order: one act is executed but not committed until each of the
//! others has finished or waits for it, so that the losing side of every lock is tested; the rest run freely.

use std::cell::Cell;
use std::env;

use futures_util::future::join_all;
use tokio_postgres::Client;
use uuid::Uuid;
use windlass::DEFAULT_TENANT;
use windlass_testing::TestQueue;

use super::super::check::SOUND;

const RACERS: usize = 4;
const ROUNDS: usize = 16;

pub(super) struct Track {
    _queue: TestQueue,
    racers: Vec<Client>,
    pids: Vec<i32>,
    pub(super) lane: i32,
    worker: Cell<i32>,
}

/// One running attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) job: Uuid,
    attempt: i32,
    token: Uuid,
    worker: i32,
}

impl Track {
    pub(super) async fn create() -> Self {
        let queue = TestQueue::create().await;
        let mut racers = Vec::new();
        for _ in 0..=RACERS {
            racers.push(queue.client().await);
        }
        let mut track = Self { _queue: queue, racers, pids: Vec::new(), lane: 0, worker: Cell::new(0) };
        for racer in &track.racers {
            track.pids.push(racer.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0));
        }
        track.ask(r#"select windlass.define('{"key": "race", "backoff": {}}')::text"#).await;
        let lane = track.ask("select lane::text from windlass.route_of(null, 'race', null, null)").await;
        track.lane = lane.parse().unwrap();
        track
    }

    /// How often a race is run; `PROPTEST_CASES` raises it as it does for the model.
    pub(super) fn rounds(&self) -> usize {
        env::var("PROPTEST_CASES").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS)
    }

    /// An empty queue and a new worker, whose lease is valid.
    pub(super) async fn clear(&self) {
        self.ask(&format!(
            "select windlass.purge('{DEFAULT_TENANT}', array(select id from windlass.job))::text"
        ))
        .await;
        self.ask("with gone as (delete from windlass.dedupe) delete from windlass.ordering returning ''")
            .await;
        let register = format!(
            "select windlass.register_worker('{}', 'host', '', '{{}}', '{{}}', 3600, '{{}}')::text",
            Uuid::new_v4()
        );
        self.worker.set(self.ask(&register).await.parse().unwrap());
    }

    pub(super) async fn enqueue(&self, options: &str) -> Uuid {
        let id = self.ask(&format!("select id::text from windlass.enqueue('race'{options})")).await;
        id.parse().unwrap()
    }

    pub(super) fn worker(&self) -> i32 {
        self.worker.get()
    }

    /// The first queued jobs, claimed by this round's worker.
    pub(super) async fn start(&self, count: usize) -> Vec<Run> {
        let (worker, token) = (self.worker.get(), Uuid::new_v4());
        let claim = format!(
            "select string_agg(job_id || ' ' || attempt, ',') from windlass.claim({worker}, '{token}', array[{}], array[0], array[{count}])",
            self.lane
        );
        let runs = self.ask(&claim).await;
        let runs: Vec<Run> = runs
            .split(',')
            .filter_map(|run| run.split_once(' '))
            .map(|(job, attempt)| Run {
                job: job.parse().unwrap(),
                attempt: attempt.parse().unwrap(),
                token,
                worker,
            })
            .collect();
        assert_eq!(runs.len(), count, "not all enqueued jobs are queued");
        runs
    }

    pub(super) async fn running(&self, options: &str) -> Run {
        self.enqueue(options).await;
        self.start(1).await[0]
    }

    /// The worker's lease expires.
    pub(super) async fn silence(&self) {
        let late = "update windlass.job_workers set lease_expires_at = clock_timestamp() where id = ";
        self.ask(&format!("{late} {} returning ''", self.worker.get())).await;
    }

    pub(super) async fn state(&self, job: Uuid) -> String {
        self.ask(&format!("select windlass.state_of('{DEFAULT_TENANT}', '{job}')")).await
    }

    /// Repairs what the keeper would.
    pub(super) async fn unblock(&self) {
        self.ask("select decided::text from windlass.unblock_all(100)").await;
    }

    /// Runs the acts concurrently and returns their results. Any error is a failure, especially a deadlock.
    pub(super) async fn race(&self, round: usize, acts: &[String]) -> Vec<String> {
        let turns = acts.len() + 1;
        let answers = match (round % turns).checked_sub(1) {
            None => {
                join_all(acts.iter().enumerate().map(|(racer, act)| answer(&self.racers[racer], act))).await
            }
            Some(first) => self.held_by(first, acts).await,
        };
        let wrong = self.racers[RACERS].query(SOUND, &[]).await.unwrap();
        let wrong: Vec<String> = wrong.iter().map(|row| row.get(0)).collect();
        assert!(wrong.is_empty(), "{acts:#?}\nreturned {answers:?} in round {round}, and now {wrong:#?}");
        answers
    }

    /// The first act is executed, the others start, and the first is committed only when each of them has ended or waits.
    async fn held_by(&self, first: usize, acts: &[String]) -> Vec<String> {
        let holder = &self.racers[first];
        holder.batch_execute("begin").await.unwrap();
        let first_answer = answer(holder, &acts[first]).await;
        let finished = Cell::new(0);
        let others = (0..acts.len()).filter(|&racer| racer != first).map(|racer| {
            let finished = &finished;
            async move {
                let answer = answer(&self.racers[racer], &acts[racer]).await;
                finished.set(finished.get() + 1);
                answer
            }
        });
        let commit = async {
            let waiting =
                "select count(*) from pg_stat_activity where pid = any ($1) and wait_event_type = 'Lock'";
            let waiting = self.racers[RACERS].prepare(waiting).await.unwrap();
            loop {
                let row = self.racers[RACERS].query_one(&waiting, &[&self.pids]).await.unwrap();
                if finished.get() + row.get::<_, i64>(0) >= i64::try_from(acts.len()).unwrap() - 1 {
                    break;
                }
            }
            holder.batch_execute("commit").await.unwrap();
        };
        let (mut answers, ()) = tokio::join!(join_all(others), commit);
        answers.insert(first, first_answer);
        answers
    }

    pub(super) async fn ask(&self, query: &str) -> String {
        answer(&self.racers[RACERS], query).await
    }
}

async fn answer(client: &Client, act: &str) -> String {
    let rows = client.query(act, &[]).await.unwrap_or_else(|error| panic!("{act}: {error:?}"));
    rows.first().and_then(|row| row.get(0)).unwrap_or_default()
}

impl Run {
    /// 1 if it took effect, `overruled` if a cancel request did, 0 if the lease was lost.
    pub(super) fn settle(&self, detail: &str) -> String {
        settle_all(std::slice::from_ref(self), detail)
    }

    pub(super) fn reap(&self) -> String {
        let Self { job, attempt, token, worker } = self;
        format!(
            "select coalesce(cardinality(settled), 0)::text from windlass.reap(array[{worker}], array['{DEFAULT_TENANT}'::uuid], \
             array['{job}'::uuid], array[{attempt}], array['{token}'::uuid], array['{LOST}'::jsonb])"
        )
    }

    pub(super) fn heartbeat(&self) -> String {
        format!("select count(*)::text from windlass.heartbeat({}, 1)", self.worker)
    }
}

pub(super) const SUCCESS: &str = "null";
pub(super) const RETRY: &str =
    r#"'{"outcome": 2, "next": 7, "delay_ms": 0, "failures": 1, "lost": 0, "snoozes": 0}'"#;
pub(super) const FAILURE: &str = r#"'{"outcome": 2, "next": 2}'"#;
pub(super) const RELEASE: &str = r#"'{"outcome": 7, "next": 5}'"#;
const LOST: &str = r#"{"outcome": 5, "next": 7, "delay_ms": 0, "failures": 1, "lost": 1, "snoozes": 0}"#;

pub(super) fn settle_all(runs: &[Run], detail: &str) -> String {
    let list = |of: &dyn Fn(&Run) -> String| runs.iter().map(of).collect::<Vec<_>>().join(", ");
    format!(
        "select case when overruled is null then coalesce(cardinality(settled), 0)::text else 'overruled' end \
         from windlass.settle(array[{}], array[{}], array[{}], array[{}], null, array_fill({detail}::jsonb, array[{}]))",
        list(&|_| format!("'{DEFAULT_TENANT}'::uuid")),
        list(&|run| format!("'{}'::uuid", run.job)),
        list(&|run| run.attempt.to_string()),
        list(&|run| format!("'{}'::uuid", run.token)),
        runs.len()
    )
}
