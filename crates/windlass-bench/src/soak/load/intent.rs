//! One enqueue that a caller intends: what it contains, by the random numbers of the caller, and its form for each way in.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, RngCore};
use serde_json::{Map, Value, json};
use uuid::Uuid;
use windlass::NewJob;
use windlass::job::{IfUnmet, Unique};

use crate::soak::Site;
use crate::soak::ledger::Fact;
use crate::soak::work::{Act, BRIEF, COMMAND, EFFECT, HTTP, LIMITED, PULL, Payload, WORK};
use crate::soak::work::{FOREVER, WINDOW, WINDOW_SECONDS};

#[derive(Debug, Clone)]
pub(super) struct Intent {
    pub(super) number: u64,
    pub(super) tenant: Uuid,
    pub(super) definition: &'static str,
    pub(super) payload: Payload,
    priority: Option<i32>,
    delay: Option<Duration>,
    pub(super) dedupe_key: Option<String>,
    /// Instead of while the job is active.
    unique: Option<Unique>,
    pub(super) ordering_key: Option<String>,
    pub(super) depends_on: Vec<Uuid>,
    if_unmet: &'static str,
    deadline: Option<Timestamp>,
    /// Of the request; only HTTP repeats requests.
    pub(super) idempotency_key: Option<String>,
}

/// Writes the intents of one caller.
pub(super) struct Author {
    number: u64,
    pub(super) random: StdRng,
    pub(super) site: Arc<Site>,
    pub(super) tenants: [Uuid; 3],
}

impl Author {
    pub(super) fn new(number: u64, random: StdRng, site: Arc<Site>, tenants: [Uuid; 3]) -> Self {
        Self { number, random, site, tenants }
    }

    pub(super) fn chance(&mut self, share: f64) -> bool {
        self.random.random_bool(share)
    }

    pub(super) fn uuid(&mut self) -> Uuid {
        Uuid::from_u64_pair(self.random.next_u64(), self.random.next_u64())
    }

    /// Any of the features.
    pub(super) fn intent(&mut self) -> Intent {
        let mut intent = self.plain();
        match self.random.random_range(0..100) {
            0..10 => {
                intent.ordering_key =
                    Some(format!("order {} {}", self.number, self.random.random_range(0..3)));
                intent.definition = WORK;
                // A job that failed holds back its key until somebody retries it.
                if intent.payload.act == Act::FailForever {
                    intent.payload.act = Act::FailOnce;
                }
            }
            10..18 => intent.dedupe_key = Some(format!("key {}", self.random.random_range(0..10))),
            18..20 => {
                intent.dedupe_key = Some(format!("{FOREVER} {}", self.random.random_range(0..200)));
                intent.unique = Some(Unique::Forever);
            }
            20..22 => {
                intent.dedupe_key = Some(format!("{WINDOW} {}", self.random.random_range(0..5)));
                intent.unique = Some(Unique::Window(Duration::from_secs(WINDOW_SECONDS)));
            }
            22..29 => {
                intent.depends_on = self.site.recent.some_of(intent.tenant, 2, &mut self.random);
                let index = self.random.random_range(0..3);
                intent.if_unmet = ["cancel", "run", "wait"][index];
            }
            29..37 => intent.delay = Some(Duration::from_millis(self.random.random_range(1000..3000))),
            37..42 => {
                let seconds = self.random.random_range(2..30);
                intent.deadline = Some(Timestamp::now() + SignedDuration::from_secs(seconds));
            }
            42..50 => intent.priority = Some(self.random.random_range(0..4) * 50),
            50..53 => {
                intent.payload.children = self.random.random_range(1..4);
                intent.definition = if self.chance(0.5) { WORK } else { PULL };
            }
            _ => {}
        }
        intent
    }

    /// Only a definition and its payload: what a batch contains.
    pub(super) fn plain(&mut self) -> Intent {
        let (definition, ms) = match self.random.random_range(0..100) {
            0..66 => (WORK, self.random.random_range(0..20)),
            66..72 => (LIMITED, self.random.random_range(5..40)),
            72..80 => (EFFECT, self.random.random_range(0..20)),
            80..86 => (BRIEF, 1),
            86..88 => (COMMAND, self.random.random_range(0..300)),
            88..94 => (HTTP, self.random.random_range(0..100)),
            _ => (PULL, self.random.random_range(0..100)),
        };
        // Long runs are more likely to be hit by a fault.
        let ms = if self.chance(0.08) { self.random.random_range(300..3000) } else { ms };
        let act = match self.random.random_range(0..100) {
            0..85 => Act::Succeed,
            85..91 => Act::FailOnce,
            91..93 => Act::FailForever,
            93..98 => Act::SnoozeOnce,
            _ => Act::Panic,
        };
        let tenant = self.tenants[[0, 0, 0, 0, 1, 1, 1, 1, 1, 2][self.random.random_range(0..10)]];
        let number = self.site.next_intent();
        Intent {
            number,
            tenant,
            definition,
            payload: Payload { n: number, ms, act, children: 0 },
            priority: None,
            delay: None,
            dedupe_key: None,
            unique: None,
            ordering_key: None,
            depends_on: Vec::new(),
            if_unmet: "cancel",
            deadline: None,
            idempotency_key: None,
        }
    }

    /// Before the request.
    pub(super) fn note_sent(&self, intent: &Intent, way: &str) {
        let number = intent.number;
        let key = intent.idempotency_key.clone();
        let definition = intent.definition.to_owned();
        let dedupe_key = intent.dedupe_key.clone();
        let sent = Fact::Sent {
            intent: number,
            tenant: intent.tenant,
            definition,
            way: way.to_owned(),
            key,
            dedupe_key,
        };
        self.site.ledger.note(sent);
        if let Some(key) = &intent.ordering_key {
            self.site.ledger.note(Fact::Ordered { intent: number, key: key.clone() });
        }
        if !intent.depends_on.is_empty() {
            self.site.ledger.note(Fact::Depends { intent: number, on: intent.depends_on.clone() });
        }
    }

    pub(super) fn note_acked(&self, intent: &Intent, job: Uuid, is_duplicate: bool) {
        self.site.ledger.note(Fact::Acked { intent: intent.number, job, is_duplicate });
        self.site.recent.add(intent.tenant, job);
        self.site.count_acked(1);
    }

    pub(super) fn note_refused(&self, intent: &Intent, why: &(impl ToString + ?Sized)) {
        self.site.ledger.note(Fact::Refused { intent: intent.number, why: why.to_string() });
    }
}

impl Intent {
    /// For the library.
    pub(super) fn new_job(&self) -> NewJob {
        let mut job = NewJob::new(self.definition).tenant(self.tenant).payload(&self.payload);
        job = self.depends_on.iter().fold(job, |job, on| job.depends_on(*on));
        if !self.depends_on.is_empty() {
            job = job.if_unmet(match self.if_unmet {
                "run" => IfUnmet::Run,
                "wait" => IfUnmet::Wait,
                _ => IfUnmet::Cancel,
            });
        }
        if let Some(priority) = self.priority {
            job = job.priority(priority);
        }
        if let Some(delay) = self.delay {
            job = job.delay(delay);
        }
        if let Some(key) = &self.dedupe_key {
            job = job.dedupe_key(key.clone());
        }
        if let Some(unique) = self.unique {
            job = job.unique(unique);
        }
        if let Some(key) = &self.ordering_key {
            job = job.ordering_key(key.clone());
        }
        if let Some(deadline) = self.deadline {
            job = job.deadline(deadline);
        }
        job
    }

    /// For HTTP: the body of a request.
    pub(super) fn body(&self) -> Value {
        let mut body = self.options();
        body.insert("definition_key".to_owned(), json!(self.definition));
        body.insert("payload".to_owned(), json!(self.payload));
        if let Some(delay) = self.delay {
            body.insert("delay_seconds".to_owned(), json!(delay.as_secs().max(1)));
        }
        Value::Object(body)
    }

    /// For SQL: the named arguments of `windlass.enqueue`.
    pub(super) fn sql_options(&self) -> Value {
        let mut options = self.options();
        if let Some(delay) = self.delay {
            options.insert("delay".to_owned(), json!(format!("{} milliseconds", delay.as_millis())));
        }
        Value::Object(options)
    }

    /// The fields that have the same names in HTTP and in SQL.
    fn options(&self) -> Map<String, Value> {
        let mut options = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                options.insert(name.to_owned(), value);
            }
        };
        set("priority", self.priority.map(Value::from));
        set("dedupe_key", self.dedupe_key.clone().map(Value::from));
        set("uniqueness", self.unique.map(|unique| json!(unique)));
        set("ordering_key", self.ordering_key.clone().map(Value::from));
        let depends = !self.depends_on.is_empty();
        set("depends_on", depends.then(|| json!(self.depends_on)));
        set("if_unmet", depends.then(|| json!(self.if_unmet)));
        set("deadline", self.deadline.map(|at| json!(at.to_string())));
        options
    }
}
