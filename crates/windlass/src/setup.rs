//! Preparing and examining a database: the embedded Postgres, migrations and the doctor.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use windlass::Settings;
//! use windlass::setup::embedded::{Options, Postgres};
//! use windlass::setup::{Severity, examine};
//!
//! let postgres = Postgres::start(&Options::new("/var/tmp/my-queue")?).await?;
//! let settings = Settings::new(&postgres.url())?;
//! windlass::migrate(&settings).await?;
//! let findings = examine(&settings).await?;
//! assert!(findings.iter().all(|finding| finding.severity != Severity::Danger));
//! # Ok(())
//! # }
//! ```

pub(crate) mod doctor;
pub mod embedded;
pub(crate) mod migrate;
#[cfg(feature = "testing")]
pub(crate) mod throwaway;

pub use crate::model::doctor::{Finding, Severity};
pub use crate::store::supported::{NEWEST_SCHEMA, OLDEST_SCHEMA};
pub use doctor::examine;
pub use migrate::{Migrated, PendingSetup, pending, print_roles_sql, print_sql, print_sql_from};
