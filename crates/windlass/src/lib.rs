//! A durable, multi-tenant job queue on Postgres.
//!
//! Jobs are enqueued inside your own transaction, claimed by workers under a lease, run by typed handlers, retried with
//! backoff, and remembered with every attempt. Everything lives in the schema `windlass` of a Postgres you already run.
//!
//! Start with [`Queue::connect`], [`enqueue`] and [`Worker::builder`].

pub mod embedded;

mod account;
mod act;
mod audit;
mod blocking;
mod cron;
mod definition;
mod doctor;
mod emit;
mod enqueue;
mod error;
mod filter;
mod follow;
mod insight;
pub mod instant;
pub mod job;
pub mod json;
mod keeper;
mod list;
mod listen;
mod log;
mod manage;
mod migrate;
mod new_job;
mod operator;
mod overview;
mod places;
mod pull;
mod queue;
mod record;
pub mod redact;
mod search;
mod server_version;
#[cfg(any(feature = "sqlx-08", feature = "sqlx-09"))]
mod sqlx;
mod store;
mod telemetry;
mod template;
pub mod text;
mod together;
mod token;
mod trace;
mod trigger;
mod verbs;
#[cfg(feature = "http-jobs")]
pub mod webhook;
mod why;
pub mod worker;

pub use account::{Invitation, InvitedTo, NewAccount, PasswordReset, ResetOf};
pub use act::{Acting, Actor, Looking, Reach};
pub use audit::{Act, AuditFault, AuditHead};
pub use cron::{ClockChange, Cron, DueRun, Schedule};
pub use definition::Definition;
pub use doctor::{Finding, Severity, examine};
pub use emit::{Emitted, NewEvent, emit};
pub use enqueue::enqueue;
pub use error::{Error, Result};
pub use filter::Filter;
pub use follow::LogFollower;
pub use insight::{Activity, DEAD_LETTERS_SEEN, DeadLetter, ErrorGroup, Run};
pub use job::backoff::Backoff;
pub use job::settle::{OnLost, OnTimeout};
pub use job::state::{AttemptOutcome, State};
pub use job::unique::Unique;
pub use keeper::{Duty, Keeper, KeeperSettings, Round};
pub use log::{LogChunk, LogPage, LogPosition, LogStream};
pub use manage::{
    Account, AuditEntry, AuditQuery, Fields, Member, Membership, NewSession, SessionOf, SignedIn, Tenant,
    WorkerRecord,
};
pub use migrate::{Migrated, NEWEST_SCHEMA, OLDEST_SCHEMA, migrate, print_sql};
pub use new_job::{Enqueued, IfUnmet, NewJob, Source};
pub use operator::{Canceled, EventFilter, HoldOn};
pub use overview::{Overview, Summary};
pub use pull::{Beat, Beaten, Claim, Held, Introduction, Pull, Puller, Registered, RemoteJob};
pub use queue::Queue;
pub use record::{
    Attempt, CapableWorker, Counts, Event, EventTrigger, Fire, FireOutcome, Job, LegalHold, Page, PurgeWait,
    RetentionProgress, RetentionRule, Trouble, WouldFire,
};
#[cfg(feature = "sqlx-08")]
pub use sqlx::sqlx08;
#[cfg(feature = "sqlx-09")]
pub use sqlx::sqlx09;
pub use store::database::Settings;
#[doc(hidden)]
pub use store::statements;
pub use telemetry::{METRICS, Transition};
pub use token::{KnownToken, NewToken, Token};
pub use trace::Trace;
pub use trigger::{Misfire, NewTrigger, Overlap, Trigger, TriggerType};
pub use verbs::{Bulk, CheckedJob, Placed};
pub use why::{Reason, Why};
#[cfg(feature = "http-jobs")]
pub use worker::http::{HttpEndpoint, Lookup, SecretText};
pub use worker::{BatchHandler, Completion, Context, Done, Failure, Fence, Handler, Worker, WorkerBuilder};

/// The tenant of applications that have only one.
pub const DEFAULT_TENANT: uuid::Uuid = uuid::Uuid::from_u128(0x0000_0000_0000_7000_8000_0000_0000_0001);

/// Stands for the installation itself where a tenant is asked for: its own tokens, its own acts in the audit trail.
pub const INSTALLATION: uuid::Uuid = uuid::Uuid::nil();

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
