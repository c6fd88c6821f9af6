//! Emitting events. An event is written in the caller's own transaction; the matching triggers enqueue their jobs soon
//! after the commit, each exactly once.

use crate::error::Result;
use crate::model::event::{Emitted, NewEvent};
use crate::queue::Queue;
use crate::store;

/// Emits in the caller's own transaction (or on a bare client): the event exists if and only if the transaction
/// commits.
///
/// ```no_run
/// # async fn example(client: &mut tokio_postgres::Client, new_id: i64) -> Result<(), Box<dyn std::error::Error>> {
/// use windlass::events::{NewEvent, emit_in};
///
/// let tx = client.transaction().await?;
/// tx.execute("insert into image (id) values ($1)", &[&new_id]).await?;
/// emit_in(&tx, &NewEvent::new("image.uploaded").payload(&serde_json::json!({ "image": new_id }))).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
pub async fn emit_in<C: tokio_postgres::GenericClient + Sync>(
    client: &C,
    event: &NewEvent,
) -> Result<Emitted> {
    store::event::emit_on(client, event, event.checked()?).await
}

impl Queue {
    /// Emits one event and returns once it is durable.
    ///
    /// ```no_run
    /// # async fn example(queue: &windlass::Queue) -> windlass::Result<()> {
    /// use windlass::events::NewEvent;
    ///
    /// queue.emit(&NewEvent::new("folder.updated").payload(&serde_json::json!({ "folder": 7 }))).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn emit(&self, event: &NewEvent) -> Result<Emitted> {
        store::event::emit_of(self.database(), event, event.checked()?).await
    }
}
