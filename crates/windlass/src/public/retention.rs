//! How long finished jobs and events are kept, and what prevents their deletion.
//!
//! ```no_run
//! # async fn example() -> windlass::Result<()> {
//! use windlass::retention::HoldOn;
//!
//! let queue = windlass::Queue::connect_to("postgresql://localhost/app").await?;
//! let customer = HoldOn::Subject { kind: "customer".to_owned(), id: "7".to_owned() };
//! let hold = queue.hold(windlass::DEFAULT_TENANT, &customer, "lawsuit 12", "legal").await?;
//! queue.release(windlass::DEFAULT_TENANT, hold, "legal").await?;
//! # Ok(())
//! # }
//! ```

pub use crate::control::retention::HoldOn;
pub use crate::model::record::{LegalHold, PurgeWait, RetentionProgress, RetentionRule};
