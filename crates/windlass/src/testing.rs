//! A test kit for applications (feature `testing`).
//!
//! # Run a handler without a database
//!
//! [`run`] calls a handler as a worker does, and returns how the attempt ended and what would happen to the job:
//!
//! ```
//! use windlass::job::State;
//! use windlass::{Context, Done, Failure, Handler, JobArgs, testing};
//!
//! #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
//! struct Resize {
//!     width: u32,
//! }
//!
//! impl JobArgs for Resize {
//!     const KEY: &'static str = "resize";
//! }
//!
//! struct Resizer;
//!
//! impl Handler for Resizer {
//!     type Args = Resize;
//!
//!     async fn run(&self, job: &Context, args: Resize) -> Result<Done, Failure> {
//!         job.progress(50.0, "decoded");
//!         match args.width {
//!             0 => Err(Failure::permanent("no width")),
//!             width => Ok(Done::new().result(&width)),
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let good = testing::run(&Resizer, Resize { width: 640 }).await;
//! assert_eq!(good.state(), State::Succeeded);
//! assert_eq!(good.result::<u32>(), Some(640));
//!
//! let bad = testing::run(&Resizer, Resize { width: 0 }).await;
//! assert_eq!(bad.state(), State::Failed);
//! assert_eq!(bad.error(), Some("no width"));
//! # }
//! ```
//!
//! [`TestAttempt`] sets the number of the attempt, the subject and so on, or cancels the job before the run.
//!
//! # Test with a database
//!
//! [`database`] creates a migrated database and drops it at the end. It uses the server of `DATABASE_URL`, whose login must be allowed
//! to create databases and roles, or else an embedded Postgres that stays running between test runs.
//!
//! ```no_run
//! # use windlass::{Context, Done, Failure, Handler, JobArgs};
//! # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
//! # struct Resize { width: u32 }
//! # impl JobArgs for Resize { const KEY: &'static str = "resize"; }
//! # struct Resizer;
//! # impl Handler for Resizer {
//! #     type Args = Resize;
//! #     async fn run(&self, _: &Context, _: Resize) -> Result<Done, Failure> { Ok(Done::new()) }
//! # }
//! use std::time::Duration;
//! use windlass::job::State;
//! use windlass::{Definition, testing};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let database = testing::database().await?;
//! database.queue().define(&Definition::of::<Resize>()).await?;
//!
//! // What the code under test enqueues, seen from inside its transaction:
//! let mut client = database.client().await?;
//! let tx = client.transaction().await?;
//! windlass::enqueue_in(&tx, &Resize { width: 640 }.job().delay(Duration::from_secs(3600))).await?;
//! testing::assert_enqueued(&tx, |resize: &Resize| resize.width == 640).await;
//! tx.commit().await?;
//!
//! // Run everything that is due, now and in an hour:
//! assert!(database.drain(|worker| worker.handler(Resizer)).await?.is_empty());
//! database.advance(Duration::from_secs(3600)).await?;
//! let ran = database.drain(|worker| worker.handler(Resizer)).await?;
//! assert_eq!(ran[0].state, State::Succeeded);
//! # Ok(())
//! # }
//! ```

mod attempt;
mod database;
mod enqueued;

pub use attempt::{AttemptResult, TestAttempt, run};
pub use database::{DrainedJob, TestClient, TestDatabase, database};
pub use enqueued::{Unfinished, assert_enqueued, assert_not_enqueued, enqueued};

#[doc(hidden)]
pub use crate::setup::throwaway::Throwaway;
