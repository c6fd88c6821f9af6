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
mod listen;
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
mod public;
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

#[doc(hidden)]
pub use public::internals;
pub use public::{admin, events, job, redact, retention, schedule};

#[cfg(feature = "sqlx-08")]
pub use worker::sqlx::sqlx08;
#[cfg(feature = "sqlx-09")]
pub use worker::sqlx::sqlx09;

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
mod retention_page {}

/// And those of the guides.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/retries.md")]
mod retries_page {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/uniqueness.md")]
mod uniqueness_page {}

/// And those of the page on tests.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/testing.md")]
mod testing_page {}
