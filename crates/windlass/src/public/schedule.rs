//! Schedules and the other triggers: rules that enqueue jobs by themselves.
//!
//! ```
//! use windlass::schedule::{Misfire, NewTrigger, Overlap, Schedule};
//!
//! let nightly = NewTrigger::schedule("nightly cleanup", "30 2 * * *", "cleanup")
//!     .timezone("Europe/Berlin")
//!     .misfire(Misfire::FireOnce)
//!     .overlap(Overlap::Skip);
//! assert_eq!(nightly.cron_expr.as_deref(), Some("30 2 * * *"));
//! ```
//!
//! [`Queue::create_trigger`](crate::Queue::create_trigger) stores it, and the keeper fires it.

pub use crate::model::cron::{ClockChange, Cron, DueRun, Schedule};
pub use crate::model::record::{Fire, FireOutcome};
pub use crate::model::trigger::{Misfire, NewTrigger, Overlap, Trigger, TriggerType};
