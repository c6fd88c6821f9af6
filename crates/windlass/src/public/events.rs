//! Events: facts that an application emits, and that triggers turn into jobs.
//!
//! ```no_run
//! use windlass::events::{NewEvent, emit_in};
//!
//! # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let tx = client.transaction().await?;
//! tx.execute("update folder set version = version + 1 where id = 7", &[]).await?;
//! emit_in(&tx, &NewEvent::new("folder.updated").payload(&serde_json::json!({ "folder": 7 }))).await?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A trigger for events is created with [`NewTrigger::event`](crate::schedule::NewTrigger::event).

pub use crate::enqueue::emit::emit_in;
pub use crate::model::event::{Emitted, EventFilter, NewEvent};
pub use crate::model::record::{Event, EventTrigger, WouldFire};
