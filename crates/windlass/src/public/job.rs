//! What describes a job: its options, its states, and what is read of it.
//!
//! ```
//! use std::time::Duration;
//! use windlass::job::{Backoff, IfUnmet, State, Unique};
//! use windlass::{Definition, NewJob};
//!
//! let definition = Definition::new("report.build")
//!     .backoff(Backoff::exponential(Duration::from_secs(10), Duration::from_secs(600)))
//!     .uniqueness(Unique::Active);
//! assert_eq!(definition.key(), "report.build");
//!
//! let first = NewJob::new("report.build").dedupe_key("report 7");
//! let second = NewJob::new("report.send").if_unmet(IfUnmet::Cancel);
//! # let _ = (first, second);
//! assert!(State::DeadLetter.is_terminal());
//! ```

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
