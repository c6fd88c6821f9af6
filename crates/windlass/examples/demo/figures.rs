//! What the view shows, read a few times a second: counts, rates, running jobs, and the moves the worker told of.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use uuid::Uuid;
use windlass::{AttemptOutcome, Counts, Filter, Job, Queue, State, Transition};

use crate::Result;
use crate::jobs::{SEND_EMAIL, Waits};

const RECENT: usize = 60;
const RUNNING: u16 = 30;
const RATES: usize = 120;
const RATE_WINDOW: Duration = Duration::from_secs(3);

#[derive(Debug, Clone)]
pub(crate) struct Tenant {
    pub(crate) id: Uuid,
    pub(crate) name: &'static str,
}

/// One line of the table: a tenant's jobs of one definition, or all of them.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) tenant: Uuid,
    pub(crate) definition: String,
    counts: HashMap<State, i64>,
}

impl Row {
    fn of(counts: &Counts) -> Self {
        Self {
            tenant: counts.tenant_id,
            definition: counts.definition_key.clone(),
            counts: State::ALL.into_iter().map(|state| (state, counts.of(state))).collect(),
        }
    }

    pub(crate) fn count(&self, state: State) -> i64 {
        self.counts.get(&state).copied().unwrap_or(0)
    }

    pub(crate) fn finished(&self) -> i64 {
        State::ALL.into_iter().filter(|state| state.is_terminal()).map(|state| self.count(state)).sum()
    }
}

/// A moment's totals, from which rates are taken.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    finished: i64,
    enqueued: i64,
    retried: u64,
}

pub(crate) struct Figures {
    queue: Queue,
    tenants: Vec<Tenant>,
    waits: Waits,
    samples: VecDeque<Sample>,
    retried: u64,
    pub(crate) place: String,
    pub(crate) started: Instant,
    pub(crate) slots: (usize, usize),
    pub(crate) rows: Vec<Row>,
    pub(crate) running: Vec<Job>,
    /// Newest first, with how long after the start it was heard.
    pub(crate) recent: VecDeque<(Duration, Transition)>,
    /// Finished per second, oldest first.
    pub(crate) rates: VecDeque<f64>,
    last_rate: Instant,
}

impl Figures {
    pub(crate) fn new(queue: Queue, tenants: Vec<Tenant>, waits: Waits, place: String) -> Self {
        Self {
            queue,
            tenants,
            waits,
            samples: VecDeque::new(),
            retried: 0,
            place,
            started: Instant::now(),
            slots: (0, 0),
            rows: Vec::new(),
            running: Vec::new(),
            recent: VecDeque::new(),
            rates: VecDeque::new(),
            last_rate: Instant::now(),
        }
    }

    pub(crate) fn tenants(&self) -> &[Tenant] {
        &self.tenants
    }

    pub(crate) fn tenant_name(&self, id: Uuid) -> &'static str {
        self.tenants.iter().find(|tenant| tenant.id == id).map_or("another", |tenant| tenant.name)
    }

    pub(crate) fn rows_of(&self, tenant: Uuid) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.tenant == tenant)
    }

    pub(crate) fn median_wait(&self, tenant: Uuid) -> Option<Duration> {
        self.waits.median(tenant)
    }

    pub(crate) fn hear(&mut self, event: Transition) {
        // Hundreds a second would push everything else off the screen; the counts have them.
        let is_plain = event.to == State::Succeeded && &*event.definition_key == SEND_EMAIL;
        if event.to == State::Running || is_plain {
            return;
        }
        if event.outcome == Some(AttemptOutcome::Failed) && event.to == State::Scheduled {
            self.retried += 1;
        }
        self.recent.push_front((self.started.elapsed(), event));
        self.recent.truncate(RECENT);
    }

    pub(crate) async fn read(&mut self, taken: usize, slots: usize) -> Result {
        self.slots = (taken, slots);
        self.read_counts().await?;
        self.read_running().await?;
        let now = Sample {
            at: Instant::now(),
            finished: self.rows.iter().map(Row::finished).sum(),
            enqueued: self.rows.iter().map(|row| row.counts.values().sum::<i64>()).sum(),
            retried: self.retried,
        };
        self.samples.push_back(now);
        while self.samples.len() > 2 && now.at - self.samples[1].at > RATE_WINDOW {
            self.samples.pop_front();
        }
        if self.last_rate.elapsed() >= Duration::from_millis(950) {
            self.last_rate = now.at;
            self.rates.push_back(self.per_second().finished);
            while self.rates.len() > RATES {
                self.rates.pop_front();
            }
        }
        Ok(())
    }

    pub(crate) async fn read_counts(&mut self) -> Result {
        self.rows = self.queue.counts(None).await?.iter().map(Row::of).collect();
        Ok(())
    }

    /// Those that say how far they are come first: they are the ones worth watching.
    async fn read_running(&mut self) -> Result {
        self.running.clear();
        for tenant in &self.tenants {
            let running = Filter::new(tenant.id).state(State::Running).limit(RUNNING);
            self.running.extend(self.queue.list(&running).await?.jobs);
        }
        self.running.sort_by_key(|job| (job.progress_percent.is_none(), job.id));
        Ok(())
    }

    pub(crate) fn per_second(&self) -> Rates {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return Rates::default();
        };
        let seconds = (last.at - first.at).as_secs_f64();
        if seconds < 0.1 {
            return Rates::default();
        }
        Rates {
            finished: (last.finished - first.finished).max(0) as f64 / seconds,
            enqueued: (last.enqueued - first.enqueued).max(0) as f64 / seconds,
            retried: last.retried.saturating_sub(first.retried) as f64 / seconds,
        }
    }

    /// Per tenant, the sums over its definitions.
    pub(crate) fn totals(&self) -> HashMap<Uuid, Row> {
        let mut totals: HashMap<Uuid, Row> = HashMap::new();
        for row in &self.rows {
            let total = totals.entry(row.tenant).or_insert_with(|| Row {
                tenant: row.tenant,
                definition: String::new(),
                counts: HashMap::new(),
            });
            for (state, count) in &row.counts {
                *total.counts.entry(*state).or_default() += count;
            }
        }
        totals
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rates {
    pub(crate) finished: f64,
    pub(crate) enqueued: f64,
    pub(crate) retried: f64,
}
