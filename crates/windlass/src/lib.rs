//! A durable, multi-tenant job queue on Postgres, as a library that applications embed.
//!
//! Jobs are enqueued inside your own transaction, claimed by workers under a lease, run by typed handlers, retried with backoff, and
//! recorded with every attempt. Everything is stored in the schema `windlass` of a Postgres database that you already run. There is
//! no other service to operate.
//!
//! # A complete program
//!
//! ```no_run
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use windlass::{Context, Done, Failure, Handler, JobArgs, Queue, Settings, Worker};
//!
//! /// The payload of one kind of job. Its definition is named by the key.
//! #[derive(Serialize, Deserialize, JsonSchema)]
//! struct Resize {
//!     image: i64,
//!     width: u32,
//! }
//!
//! impl JobArgs for Resize {
//!     const KEY: &'static str = "resize";
//! }
//!
//! /// The code that runs these jobs. Its fields are shared by all runs.
//! struct Resizer;
//!
//! impl Handler for Resizer {
//!     type Args = Resize;
//!
//!     async fn run(&self, job: &Context, args: Resize) -> Result<Done, Failure> {
//!         job.progress(50.0, "decoded");
//!         Ok(Done::new().result(&serde_json::json!({ "image": args.image })))
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let settings = Settings::new("postgresql://localhost/app")?;
//!     windlass::migrate(&settings).await?;
//!     let queue = Queue::connect(settings).await?;
//!
//!     // Starting the worker registers the definition `resize`.
//!     let worker = Worker::builder(&queue).handler(Resizer).start().await?;
//!
//!     // Durable when this returns.
//!     queue.enqueue(Resize { image: 7, width: 640 }).await?;
//!
//!     tokio::signal::ctrl_c().await?;
//!     worker.stop().await?;
//!     Ok(())
//! }
//! ```
//!
//! In a transaction of yours, the job exists if and only if the transaction commits:
//!
//! ```no_run
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Serialize, Deserialize, schemars::JsonSchema)]
//! # struct Resize { image: i64, width: u32 }
//! # impl windlass::JobArgs for Resize { const KEY: &'static str = "resize"; }
//! # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let tx = client.transaction().await?;
//! let row = tx.query_one("insert into image default values returning id", &[]).await?;
//! windlass::enqueue_in(&tx, &Resize { image: row.get(0), width: 640 }).await?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Concepts
//!
//! - A **definition** is a kind of job: a key, the JSON Schema of its payload, and policies such as the backoff. A payload type names
//!   its definition with [`JobArgs::KEY`]; [`Handler::definition`] sets the policies.
//! - A **job** is a payload and a state. It is `queued`, runs under a lease, and ends as `succeeded`, `failed`, `dead_letter` or
//!   `canceled` ([`job::State`]).
//! - An **attempt** is one run of a job. A failed attempt is retried after a delay until the attempts are exhausted. A worker that
//!   stops sending heartbeats loses its lease, and another worker runs the job again: a job runs **at least once**, and
//!   [`Context::complete_in`] makes its effects in the same database happen exactly once.
//! - A **tenant** owns jobs and cannot see those of others. An application with one tenant never names it ([`DEFAULT_TENANT`]).
//! - The **keeper** does the maintenance. Every worker runs one.
//!
//! # Where to find what
//!
//! | to | see |
//! |---|---|
//! | connect, enqueue, cancel, list | [`Queue`], [`NewJob`], [`enqueue_in`] |
//! | choose a priority, a start time, a key | the builder that [`JobArgs::job`] returns: [`NewJob`] |
//! | run jobs | [`Handler`], [`BatchHandler`], [`Worker`], [`worker`] |
//! | run jobs in processes of other languages, over a transport of your own | [`pull`] |
//! | sign the calls of HTTP jobs, and verify signed hooks | `webhook`, with the feature `http-jobs` |
//! | run the maintenance without a worker | [`keeper`] |
//! | read states, attempts and logs | [`job`] |
//! | run jobs on a schedule or an event | [`schedule`], [`events`] |
//! | keep, delete or hold old jobs | [`retention`] |
//! | hide secrets | [`redact`] |
//! | manage tenants, read reports and the audit trail | [`admin`] |
//! | migrate, examine, start a private Postgres | [`migrate`], [`setup`] |
//! | test your handlers | `testing`, with the feature of that name |
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `commands` | handlers that are programs (`worker::WorkerFile`) |
//! | `http-jobs` | handlers that are HTTP endpoints, and signed webhooks |
//! | `sqlx-08`, `sqlx-09` | `enqueue_in` and `complete_in` for transactions of sqlx 0.8 and 0.9 |
//! | `testing` | the test kit for applications |

#![deny(missing_docs)]

mod error;

mod text;

mod model;

mod telemetry;

mod store;

mod blocking;
mod queue;

mod enqueue;

mod attempt;
mod lane;

pub mod keeper;
pub mod pull;
#[cfg(feature = "http-jobs")]
pub mod webhook;
pub mod worker;

mod control;
pub mod setup;
#[cfg(feature = "testing")]
pub mod testing;

pub use attempt::done::{Done, Failure};
pub use enqueue::enqueue_in;
pub use error::{Error, Result};
pub use model::definition::Definition;
pub use model::new_job::{JobArgs, NewJob};
pub use model::tenant::DEFAULT_TENANT;
pub use queue::Queue;
pub use setup::migrate::migrate;
pub use store::database::Settings;
#[doc(inline)]
pub use worker::Worker;
pub use worker::context::Context;
pub use worker::handler::{BatchHandler, Handler};

#[cfg(feature = "sqlx-08")]
pub use worker::sqlx::sqlx08;
#[cfg(feature = "sqlx-09")]
pub use worker::sqlx::sqlx09;

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

/// Compiles the examples of the getting started page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/getting-started.md")]
mod getting_started {}

/// Compiles the examples of the page on retention.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/retention.md")]
mod retention_page {}

/// Compiles the examples of the guides.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/retries.md")]
mod retries_page {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/uniqueness.md")]
mod uniqueness_page {}

/// Compiles the examples of the page on testing.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/testing.md")]
mod testing_page {}

/// Operating a queue: tenants, reports and the audit trail.
///
/// [`Queue`](crate::Queue) has the operations that an application calls directly, such as [`Queue::cancel`](crate::Queue::cancel),
/// [`Queue::retry`](crate::Queue::retry) and [`Queue::ensure_tenant`](crate::Queue::ensure_tenant). A program that acts for people
/// opens a transaction instead: [`Queue::read`](crate::Queue::read) to read, [`Queue::act`](crate::Queue::act) to change something
/// and to record it in the audit trail. Both are restricted to a [`Reach`].
///
/// ```no_run
/// # async fn example() -> windlass::Result<()> {
/// use windlass::admin::Reach;
///
/// let queue = windlass::Queue::connect_to("postgresql://localhost/app").await?;
/// let reading = queue.read(Reach::Tenant(windlass::DEFAULT_TENANT)).await?;
/// for counts in reading.counts().await? {
///     println!("{}: {} queued, {} dead letters", counts.definition_key, counts.queued, counts.dead_letter);
/// }
/// reading.end().await?;
/// # Ok(())
/// # }
/// ```
pub mod admin {
    pub use crate::control::admin::Fields;
    pub use crate::control::jobs::{Bulk, BulkCursor, BulkPage};
    pub use crate::control::transaction::{Acting, Reading};
    pub use crate::model::account::Member;
    pub use crate::model::actor::{Actor, Reach};
    pub use crate::model::audit::{Action, AuditEntry, AuditFault, AuditHead, AuditQuery};
    pub use crate::model::overview::{Overview, Summary};
    pub use crate::model::record::{CapableWorker, Problem, WorkerRecord};
    pub use crate::model::report::{Activity, DEAD_LETTERS_SEEN, ErrorGroup, Run};
    pub use crate::model::tenant::{INSTALLATION, Tenant};
}

/// Events: facts that an application emits, and that triggers turn into jobs.
///
/// ```no_run
/// use windlass::events::{NewEvent, emit_in};
///
/// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let tx = client.transaction().await?;
/// tx.execute("update folder set version = version + 1 where id = 7", &[]).await?;
/// emit_in(&tx, &NewEvent::new("folder.updated").payload(&serde_json::json!({ "folder": 7 }))).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// A trigger for events is created with [`NewTrigger::event`](crate::schedule::NewTrigger::event).
pub mod events {
    pub use crate::enqueue::emit::emit_in;
    pub use crate::model::event::{Emitted, EventFilter, NewEvent};
    pub use crate::model::record::{Event, EventTrigger, WouldFire};
}

/// For windlass-server and the tests of this repository only. Exempt from semantic versioning: any release may change
/// or remove it.
#[doc(hidden)]
pub mod internals {
    pub use crate::control::jobs::{CheckedJob, Placed};
    pub use crate::lane::fair;
    pub use crate::model::account::{
        Account, Invitation, InvitedTo, LinkCreator, Membership, NewAccount, NewSession, OpenReset,
        PasswordReset, ResetOf, SessionOf, SignedIn,
    };
    pub use crate::model::definition::{Policies, RANGES};
    pub use crate::model::instant;
    pub use crate::model::job::{settle, state};
    pub use crate::model::report::headline;
    pub use crate::model::token::{KnownToken, NewToken, Token};
    pub use crate::queue::slots::{SlotGuard, Slots};
    pub use crate::setup::migrate::catalog_lines;
    pub use crate::store::permits::{Permit, Permits};
    pub use crate::store::statements;
    pub use crate::telemetry::METRICS;

    /// Makes text, JSON and secrets from outside safe to store and to show.
    pub mod text {
        pub use crate::text::{hex, json, redact, storable, storable_json, tail};
    }
}

/// The types of a job: its options, its states, and its stored form.
///
/// ```
/// use std::time::Duration;
/// use windlass::job::{Backoff, IfUnmet, State, Unique};
/// use windlass::{Definition, NewJob};
///
/// let definition = Definition::new("report.build")
///     .backoff(Backoff::exponential(Duration::from_secs(10), Duration::from_secs(600)))
///     .uniqueness(Unique::Active);
/// assert_eq!(definition.key(), "report.build");
///
/// let first = NewJob::new("report.build").dedupe_key("report 7");
/// let second = NewJob::new("report.send").if_unmet(IfUnmet::Cancel);
/// # let _ = (first, second);
/// assert!(State::DeadLetter.is_terminal());
/// ```
pub mod job {
    pub use crate::control::application::Canceled;
    pub use crate::control::logs::LogFollower;
    pub use crate::model::filter::Filter;
    pub use crate::model::job::backoff::{Backoff, BackoffKind, Invalid};
    pub use crate::model::job::claimed::Fence;
    pub use crate::model::job::settle::{OnLost, OnTimeout};
    pub use crate::model::job::state::{AttemptOutcome, MovedBy, State, UnknownState};
    pub use crate::model::job::unique::Unique;
    pub use crate::model::log::{LogChunk, LogPage, LogPosition, LogStream};
    pub use crate::model::new_job::{AsJob, Enqueued, IfUnmet, Source};
    pub use crate::model::record::{Attempt, Counts, Job, Page};
    pub use crate::model::trace::Trace;
    pub use crate::model::why::{Reason, Why};
}

/// What is redacted in errors, results, logs and payloads.
///
/// ```
/// use windlass::Definition;
/// use windlass::redact::Redaction;
///
/// let redaction = Redaction::new().key("password").expression(r"card-\d+");
/// let definition = Definition::new("charge").redaction(redaction);
/// # let _ = definition;
/// ```
pub mod redact {
    pub use crate::text::redact::{PLACEHOLDER, Redaction, Redactor};
}

/// How long finished jobs and events are kept, and what prevents their deletion.
///
/// ```no_run
/// # async fn example() -> windlass::Result<()> {
/// use windlass::retention::HoldOn;
///
/// let queue = windlass::Queue::connect_to("postgresql://localhost/app").await?;
/// let customer = HoldOn::Subject { kind: "customer".to_owned(), id: "7".to_owned() };
/// let hold = queue.hold(windlass::DEFAULT_TENANT, &customer, "lawsuit 12", "legal").await?;
/// queue.release(windlass::DEFAULT_TENANT, hold, "legal").await?;
/// # Ok(())
/// # }
/// ```
pub mod retention {
    pub use crate::control::retention::HoldOn;
    pub use crate::model::record::{LegalHold, PurgeWait, RetentionProgress, RetentionRule};
}

/// Schedules and other triggers: rules that enqueue jobs automatically.
///
/// ```
/// use windlass::schedule::{Misfire, NewTrigger, Overlap, Schedule};
///
/// let nightly = NewTrigger::schedule("nightly cleanup", "30 2 * * *", "cleanup")
///     .timezone("Europe/Berlin")
///     .misfire(Misfire::FireOnce)
///     .overlap(Overlap::Skip);
/// assert_eq!(nightly.cron_expr.as_deref(), Some("30 2 * * *"));
/// ```
///
/// [`Queue::create_trigger`](crate::Queue::create_trigger) stores it, and the keeper fires it.
pub mod schedule {
    pub use crate::model::cron::{ClockChange, Cron, DueRun, Schedule};
    pub use crate::model::record::{Fire, FireOutcome};
    pub use crate::model::trigger::{Misfire, NewTrigger, Overlap, Trigger, TriggerType};
}
