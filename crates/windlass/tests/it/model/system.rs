//! The real queue, driven through the functions that the engine calls, on a connection for each worker and one for everything
//! else. Returns each operation's result in the format of the reference.

use std::cell::RefCell;
use std::collections::HashMap;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};
use uuid::Uuid;
use windlass::internals::settle::{Budget, Outcome};
use windlass_testing::TestQueue;

use super::check::{LOOK, SOUND, expected};
use super::definition::DEFINITIONS;
use super::operation::{Ending, Operation, Request, TICK};
use super::reference::{LANES, Reference, TENANTS, WORKERS, chained, tenant_of};
use super::words::{budget, column, detail, id_of, if_unmet, key, needs_of, number_of, seconds};

/// One database for all cases, emptied between them: that takes a tenth of the time of a clone.
pub(super) struct System {
    runtime: Runtime,
    clients: Vec<Client>,
    tenants: Vec<Uuid>,
    lanes: Vec<i32>,
    prepared: RefCell<HashMap<(usize, &'static str), Statement>>,
    _queue: TestQueue,
}

/// The workers of one case and the jobs that they hold.
pub(super) struct Case {
    workers: Vec<i32>,
    generations: [u32; WORKERS],
    budgets: Vec<Budget>,
    jobs: usize,
}

const EVERYBODY: usize = WORKERS;

impl System {
    pub(super) fn create() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (queue, clients, tenants) = runtime.block_on(async {
            let queue = TestQueue::create().await;
            let mut clients = Vec::new();
            for _ in 0..=WORKERS {
                clients.push(queue.client().await);
            }
            let tenants = vec![queue.tenant("first").await, queue.tenant("second").await];
            (queue, clients, tenants)
        });
        let mut system = Self {
            runtime,
            clients,
            tenants,
            lanes: Vec::new(),
            prepared: RefCell::default(),
            _queue: queue,
        };
        for definition in &DEFINITIONS {
            let wanted = json!({
                "key": definition.key, "max_attempts": definition.max_attempts, "max_lost": definition.max_lost,
                "max_snoozes": definition.max_snoozes, "backoff": definition.backoff(),
                "on_timeout": definition.on_timeout, "on_lost": definition.on_lost,
                "start_deadline_seconds": definition.start_deadline.map(seconds),
            });
            system.ask(EVERYBODY, "select windlass.define($1)", &[&wanted]).unwrap();
        }
        for lane in 0..LANES {
            let (tenant, definition) = (&system.tenants[lane / TENANTS], DEFINITIONS[lane % TENANTS].key);
            let query = "select lane from windlass.route_of($1, $2, null, null)";
            let row = system.ask(EVERYBODY, query, &[tenant, &definition]).unwrap();
            system.lanes.push(row[0].get(0));
        }
        system
    }

    pub(super) fn begin(&self) -> Case {
        let tables = "job line live deferred blocked dependency ordering dedupe idempotency expiry progress cancel_request \
                      history tally total job_workers";
        let empty: String = tables.split(' ').map(|table| format!("delete from windlass.{table};")).collect();
        self.runtime.block_on(self.clients[EVERYBODY].batch_execute(&empty)).unwrap();
        let workers = (0..WORKERS).map(|worker| self.register(worker, 0)).collect();
        Case { workers, generations: [0; WORKERS], budgets: Vec::new(), jobs: 0 }
    }

    fn register(&self, worker: usize, generation: u32) -> i32 {
        let name = format!("{worker}.{generation}");
        let query = "select windlass.register_worker($1, 'host', '', '{}', '{}', 3600, '{}')";
        self.ask(worker, query, &[&name]).unwrap()[0].get(0)
    }

    /// The complete state, in the format of `check`.
    pub(super) fn look(&self, case: &Case) -> Vec<String> {
        let rows = self.ask(EVERYBODY, LOOK, &[&self.tenants, &case.workers, &self.lanes]).unwrap();
        let wrong = self.ask(EVERYBODY, SOUND, &[]).unwrap();
        let mut lines: Vec<String> = rows.iter().chain(&wrong).map(|row| row.get(0)).collect();
        lines.sort_unstable();
        lines
    }

    pub(super) fn check(&self, case: &Case, reference: &Reference) {
        let (seen, expected) = (self.look(case), expected(reference));
        let only = |these: &[String], those: &[String]| -> Vec<String> {
            these.iter().filter(|line| !those.contains(line)).cloned().collect()
        };
        assert!(
            seen == expected,
            "the queue differs from the model\nfound: {:#?}\nexpected: {:#?}",
            only(&seen, &expected),
            only(&expected, &seen)
        );
    }

    /// Executes it, and compares the result with that of the reference.
    pub(super) fn apply(&self, case: &mut Case, reference: &Reference, operation: &Operation) {
        let answer = match operation {
            Operation::Enqueue(request) => self.enqueue(case.jobs, request),
            Operation::Claim { worker, is_late, most } => {
                self.claim(case, reference, (*worker, *is_late), most)
            }
            Operation::GiveUp { worker } => {
                let query = "select '' || left(windlass.unclaim($1, gen_random_uuid(), $2, $3)::text, 0)";
                let ended = reference.epochs[*worker] - 1;
                self.word(query, &[&case.workers[*worker], &self.lanes, &ended])
            }
            Operation::Settle { run, is_forged, ending } => {
                self.settle(case, reference, *run, *is_forged, ending)
            }
            Operation::CompleteAll { worker } => self.complete_all(case, *worker),
            Operation::Heartbeat { worker } => self.heartbeat(case, *worker),
            Operation::Silence { worker } => {
                let late =
                    "update windlass.job_workers set lease_expires_at = clock_timestamp() where id = $1";
                self.ask(EVERYBODY, late, &[&case.workers[*worker]]).map(|_| String::new())
            }
            Operation::Reap => self.reap(),
            Operation::Restart { worker } => {
                let generation = reference.workers[*worker].0;
                if case.generations[*worker] != generation {
                    case.generations[*worker] = generation;
                    case.workers[*worker] = self.register(*worker, generation);
                }
                Ok(String::new())
            }
            Operation::Pass { ticks } => self.pass(*ticks),
            Operation::Promote => {
                self.word("select 'promoted ' || promoted from windlass.promote(1000)", &[])
            }
            Operation::Expire => {
                self.word("select 'looked at ' || processed from windlass.expire(1000)", &[])
            }
            Operation::Cancel { job } => {
                self.word("select windlass.cancel($1, $2)", &[&self.tenant(*job), &id_of(*job)])
            }
            Operation::Retry { job } => self.retry(*job),
            Operation::Purge { job, keeps_promises } => self.purge(*job, *keeps_promises),
            Operation::Fold => self.word("select '' || left(windlass.fold_tallies(1000)::text, 0)", &[]),
            Operation::UnblockAll => {
                self.word("select 'missed ' || decided from windlass.unblock_all(1000)", &[])
            }
        };
        case.jobs = reference.jobs.len();
        let answer = answer.unwrap_or_else(|error| match error.code() {
            Some(code) if code.code().starts_with("WL") => format!("refused {}", code.code()),
            _ => panic!("{operation:?}: {error:?}"),
        });
        assert_eq!(answer, reference.answer, "the result of {operation:?}");
    }
    fn enqueue(&self, job: usize, request: &Request) -> Result<String, Error> {
        let query = "select id, status, is_duplicate from windlass.enqueue($1, tenant_id => $2, delay => $3 * interval '1 hour', \
                     dedupe_key => $4, uniqueness => $5, idempotency_key => $6, ordering_key => $7, depends_on => $8, if_unmet => $9, \
                     deadline => clock_timestamp() + $10 * interval '1 hour', max_attempts => $11, job_id => $12)";
        let needs = needs_of(job, request);
        let rows = self.ask(
            EVERYBODY,
            query,
            &[
                &DEFINITIONS[request.definition].key,
                &self.tenant(job),
                &request.delay.map(|ticks| ticks as f64),
                &request.dedupe.map(|(name, _)| key(name)),
                &request.dedupe.map(|(_, unique)| json!(unique)),
                &request.idempotency.map(key),
                &request.ordering.map(key),
                &needs,
                &request.if_unmet.map(if_unmet),
                &request.deadline.map(|ticks| ticks as f64),
                &request.max_attempts.map(i32::from),
                &id_of(job),
            ],
        )?;
        let (id, state): (Uuid, Option<String>) = (rows[0].get(0), rows[0].get(1));
        let answer = if rows[0].get(2) { "duplicate" } else { "enqueued" };
        Ok(format!("{answer} {} {}", number_of(id, job), state.unwrap_or_else(|| "gone".to_owned())))
    }

    fn claim(
        &self,
        case: &mut Case,
        reference: &Reference,
        (worker, is_late): (usize, bool),
        most: &[usize; LANES],
    ) -> Result<String, Error> {
        let counts: Vec<i32> = most.iter().map(|&most| i32::try_from(most).unwrap()).collect();
        let (token, after) = (Uuid::from_u128(reference.claims), vec![0i64; LANES]);
        let query = "select tenant_id, job_id, attempt, failures, lost, snoozes, max_attempts, deadline_ms \
                     from windlass.claim($1, $2, $3, $4, $5, $6)";
        let epoch = (reference.epochs[worker] - i32::from(is_late)).max(0);
        let params: [&(dyn ToSql + Sync); 6] =
            [&case.workers[worker], &token, &self.lanes, &after, &counts, &epoch];
        let rows = self.ask(worker, query, &params)?;
        let mut answer = "claimed".to_owned();
        for row in &rows {
            answer += &format!(" {}#{}", self.number(row), row.get::<_, i32>(2));
            case.budgets.push(budget(row, 2, false));
        }
        Ok(answer)
    }

    fn settle(
        &self,
        case: &Case,
        reference: &Reference,
        run: usize,
        is_forged: bool,
        ending: &Ending,
    ) -> Result<String, Error> {
        let Some(budget) = case.budgets.get(run) else {
            panic!("the reference claimed what the queue did not")
        };
        let run = &reference.runs[run];
        let since = TICK * u32::try_from(reference.now - run.claimed_at).unwrap();
        let remaining = budget.remaining.map(|remaining| remaining.saturating_sub(since));
        let definition = &DEFINITIONS[reference.jobs[run.job].request.definition];
        let decided = definition.decide(&Budget { remaining, ..*budget }, ending.outcome());
        let mut detail = detail(&decided);
        if let Ending::Chain(next) = ending {
            let next_job = chained(run.job, case.jobs);
            detail["chain"] = json!([{
                "definition_key": DEFINITIONS[next.definition].key, "job_id": id_of(next_job),
                "delay": next.delay.map(|ticks| format!("{ticks} hours")), "max_attempts": next.max_attempts,
                "dedupe_key": next.dedupe.map(|(name, _)| key(name)), "uniqueness": next.dedupe.map(|(_, unique)| unique),
                "idempotency_key": next.idempotency.map(key), "ordering_key": next.ordering.map(key),
                "depends_on": needs_of(next_job, next), "if_unmet": next.if_unmet.map(if_unmet),
            }]);
        }
        let is_plain = matches!(ending, Ending::Plain(Outcome::Succeeded));
        let token = Uuid::from_u128(if is_forged { u128::MAX } else { run.token });
        let rows = self.ask(
            0,
            "select cardinality(settled), cardinality(overruled) from windlass.settle(array[$1::uuid], array[$2::uuid], array[$3::integer], array[$4::uuid], array[1], array[$5::jsonb])",
            &[&self.tenant(run.job), &id_of(run.job), &run.attempt, &token, &(!is_plain).then_some(detail)],
        )?;
        let counted = (rows[0].get::<_, Option<i32>>(0), rows[0].get::<_, Option<i32>>(1));
        Ok(match counted {
            (Some(1), None) => "settled",
            (Some(1), Some(1)) => "overruled",
            _ => "lease lost",
        }
        .to_owned())
    }

    fn complete_all(&self, case: &Case, worker: usize) -> Result<String, Error> {
        let query = "select 'settled ' || coalesce(cardinality(s.settled), 0) from (
            select array_agg(l.tenant_id) as tenants, array_agg(r.job_id) as jobs, array_agg(l.attempt) as attempts, array_agg(l.token) as tokens
              from windlass.live l, windlass.running_of(l.ids, l.ended) r where l.worker = $1) l
            cross join lateral windlass.settle(l.tenants, l.jobs, l.attempts, l.tokens, null, null) s";
        self.word(query, &[&case.workers[worker]])
    }

    fn heartbeat(&self, case: &Case, worker: usize) -> Result<String, Error> {
        let query = "select t, j from windlass.heartbeat($1, 0) h left join lateral \
                     unnest(h.canceled_tenants, h.canceled_jobs) c (t, j) on true";
        let rows = self.ask(worker, query, &[&case.workers[worker]])?;
        if rows.is_empty() {
            return Ok("lease expired".to_owned());
        }
        let asked = rows.iter().filter(|row| row.get::<_, Option<Uuid>>(0).is_some());
        let mut asked: Vec<usize> = asked.map(|row| self.number(row)).collect();
        asked.sort_unstable();
        Ok(format!("stop {asked:?}"))
    }

    /// The two halves of the keeper's reap, with the reference's random number in between.
    fn reap(&self) -> Result<String, Error> {
        let query = "select tenant_id, job_id, attempt, failures, lost, snoozes, max_attempts, deadline_ms, worker, token, \
                     cancel_requested, definition_key from windlass.lost_jobs(1000) order by tenant_id, job_id";
        let lost = self.ask(EVERYBODY, query, &[])?;
        let details = lost.iter().map(|row| {
            let definition =
                DEFINITIONS.iter().find(|definition| definition.key == row.get::<_, &str>(11)).unwrap();
            detail(&definition.decide(&budget(row, 2, row.get(10)), Outcome::Lost))
        });
        let query = "select 'reaped ' || coalesce(cardinality(settled), 0) from windlass.reap($1, $2, $3, $4, $5, $6)";
        self.word(
            query,
            &[
                &column::<i32>(&lost, 8),
                &column::<Uuid>(&lost, 0),
                &column::<Uuid>(&lost, 1),
                &column::<i32>(&lost, 2),
                &column::<Uuid>(&lost, 9),
                &details.collect::<Vec<Value>>(),
            ],
        )
    }

    /// Time passes by moving every instant back.
    fn pass(&self, ticks: i64) -> Result<String, Error> {
        let columns = "deferred.due_at blocked.scheduled_for job.scheduled_for job.deadline job.start_by dedupe.until expiry.expires_at";
        let shift = columns.split(' ').filter_map(|name| name.split_once('.')).map(|(table, column)| {
            format!("update windlass.{table} set {column} = {column} - interval '{ticks} hours';")
        });
        let shift: String = shift.collect();
        self.runtime.block_on(self.clients[EVERYBODY].batch_execute(&shift))?;
        Ok(String::new())
    }

    fn retry(&self, job: usize) -> Result<String, Error> {
        let query = "select result, holder from windlass.retry($1, $2, 'model')";
        let rows = self.ask(EVERYBODY, query, &[&self.tenant(job), &id_of(job)])?;
        let (answer, holder): (String, Option<Uuid>) = (rows[0].get(0), rows[0].get(1));
        Ok(holder.map_or(answer.clone(), |holder| format!("{answer} {}", number_of(holder, job))))
    }

    fn purge(&self, job: usize, keeps_promises: bool) -> Result<String, Error> {
        let query = "select 'purged ' || windlass.purge($1, array[$2::uuid], $3 and windlass.state_code(windlass.state_of($1, $2)) <= 4)";
        self.word(query, &[&self.tenant(job), &id_of(job), &keeps_promises])
    }

    fn word(&self, query: &'static str, params: &[&(dyn ToSql + Sync)]) -> Result<String, Error> {
        self.ask(EVERYBODY, query, params).map(|rows| rows[0].get(0))
    }

    fn ask(
        &self,
        client: usize,
        query: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let known = self.prepared.borrow().get(&(client, query)).cloned();
        self.runtime.block_on(async {
            let statement = match known {
                Some(statement) => statement,
                None => self.clients[client].prepare(query).await?,
            };
            self.prepared.borrow_mut().insert((client, query), statement.clone());
            self.clients[client].query(&statement, params).await
        })
    }

    fn tenant(&self, job: usize) -> Uuid {
        self.tenants[tenant_of(job)]
    }

    fn number(&self, row: &Row) -> usize {
        let tenant = self.tenants.iter().position(|tenant| *tenant == row.get::<_, Uuid>(0)).unwrap();
        number_of(row.get(1), tenant)
    }
}
