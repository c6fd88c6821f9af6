//! A durable, multi-tenant job queue on Postgres.
//!
//! Jobs are enqueued inside your own transaction, claimed by workers under a lease, run by typed handlers, retried with
//! backoff, and remembered with every attempt. Everything lives in the schema `windlass` of a Postgres you already run.
//!
//! Start with [`Queue::connect`], [`enqueue`] and [`Worker::builder`].

mod error;

pub mod text;

mod model;

mod telemetry;

mod store;

mod blocking;
mod listen;
mod queue;

mod enqueue;

mod attempt;
mod lane;

mod keeper;
mod pull;
#[cfg(feature = "http-jobs")]
pub mod webhook;
pub mod worker;

mod control;
mod setup;

pub use attempt::done::{Done, Failure};
pub use control::admin::Fields;
pub use control::application::Canceled;
pub use control::jobs::{Bulk, CheckedJob, Placed};
pub use control::logs::LogFollower;
pub use control::retention::HoldOn;
pub use control::transaction::{Acting, Looking};
pub use enqueue::emit::emit;
pub use enqueue::enqueue;
#[cfg(feature = "sqlx-08")]
pub use enqueue::sqlx::sqlx08;
#[cfg(feature = "sqlx-09")]
pub use enqueue::sqlx::sqlx09;
pub use error::{Error, Result};
pub use keeper::{Keeper, KeeperSettings, Round};
pub use model::account::{
    Account, Invitation, InvitedTo, Member, Membership, NewAccount, NewSession, PasswordReset, ResetOf,
    SessionOf, SignedIn,
};
pub use model::actor::{Actor, Reach};
pub use model::audit::{Action, AuditEntry, AuditFault, AuditHead, AuditQuery};
pub use model::cron::{ClockChange, Cron, DueRun, Schedule};
pub use model::definition::Definition;
pub use model::doctor::{Finding, Severity};
pub use model::duty::Duty;
pub use model::event::{Emitted, EventFilter, NewEvent};
pub use model::filter::Filter;
pub use model::job::backoff::Backoff;
pub use model::job::settle::{OnLost, OnTimeout};
pub use model::job::state::{AttemptOutcome, State};
pub use model::job::unique::Unique;
pub use model::log::{LogChunk, LogPage, LogPosition, LogStream};
pub use model::new_job::{Enqueued, IfUnmet, NewJob, Source};
pub use model::overview::{Overview, Summary};
pub use model::record::{
    Attempt, CapableWorker, Counts, Event, EventTrigger, Fire, FireOutcome, Job, LegalHold, Page, PurgeWait,
    RetentionProgress, RetentionRule, Trouble, WorkerRecord, WouldFire,
};
pub use model::report::{Activity, DEAD_LETTERS_SEEN, DeadLetter, ErrorGroup, Run};
pub use model::tenant::{DEFAULT_TENANT, INSTALLATION, Tenant};
pub use model::token::{KnownToken, NewToken, Token};
pub use model::trace::Trace;
pub use model::trigger::{Misfire, NewTrigger, Overlap, Trigger, TriggerType};
pub use model::why::{Reason, Why};
pub use model::{instant, job};
pub use pull::{Beat, Beaten, Claim, Held, Introduction, Pull, PulledJob, Puller, Registered};
pub use queue::Queue;
#[doc(hidden)]
pub use queue::slots::{SlotGuard, Slots};
pub use setup::doctor::examine;
pub use setup::embedded;
pub use setup::migrate::{Migrated, migrate, print_sql};
pub use store::database::Settings;
#[doc(hidden)]
pub use store::permits::{Permit, Permits};
#[doc(hidden)]
pub use store::statements;
pub use store::supported::{NEWEST_SCHEMA, OLDEST_SCHEMA};
pub use telemetry::{METRICS, Transition};
pub use text::{json, redact};
#[cfg(feature = "http-jobs")]
pub use worker::http::{HttpEndpoint, Lookup, SecretText};
pub use worker::{BatchHandler, Completion, Context, Fence, Handler, Worker, WorkerBuilder};

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

/// So do those of the first page that people read.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/getting-started.md")]
mod getting_started {}

/// And this one's.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/retention.md")]
mod retention {}
