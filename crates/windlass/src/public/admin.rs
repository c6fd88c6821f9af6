//! Operating a queue: tenants, reports and the audit trail.
//!
//! [`Queue`](crate::Queue) has the operations that an application calls directly, such as [`Queue::cancel`](crate::Queue::cancel),
//! [`Queue::retry`](crate::Queue::retry) and [`Queue::ensure_tenant`](crate::Queue::ensure_tenant). A program that acts for people
//! opens a transaction instead: [`Queue::look`](crate::Queue::look) to read, [`Queue::act`](crate::Queue::act) to change something
//! and to record it in the audit trail. Both are restricted to a [`Reach`].
//!
//! ```no_run
//! # async fn example() -> windlass::Result<()> {
//! use windlass::admin::Reach;
//!
//! let queue = windlass::Queue::connect_to("postgresql://localhost/app").await?;
//! let looking = queue.look(Reach::Tenant(windlass::DEFAULT_TENANT)).await?;
//! for counts in looking.counts().await? {
//!     println!("{}: {} queued, {} dead letters", counts.definition_key, counts.queued, counts.dead_letter);
//! }
//! looking.end().await?;
//! # Ok(())
//! # }
//! ```

pub use crate::control::admin::Fields;
pub use crate::control::jobs::Bulk;
pub use crate::control::transaction::{Acting, Looking};
pub use crate::model::account::Member;
pub use crate::model::actor::{Actor, Reach};
pub use crate::model::audit::{Action, AuditEntry, AuditFault, AuditHead, AuditQuery};
pub use crate::model::overview::{Overview, Summary};
pub use crate::model::record::{CapableWorker, Trouble, WorkerRecord};
pub use crate::model::report::{Activity, DEAD_LETTERS_SEEN, DeadLetter, ErrorGroup, Run};
pub use crate::model::tenant::{INSTALLATION, Tenant};
