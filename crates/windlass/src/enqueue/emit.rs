//! Saying that something happened. An event is written in the caller's own transaction; the triggers that match it start
//! their jobs soon after the commit, each exactly once.

use crate::error::Result;
use crate::model::event::{Emitted, NewEvent};
use crate::queue::Queue;
use crate::store;

/// Emits in the caller's own transaction (or on a bare client): it happened if and only if that commits.
pub async fn emit<C: tokio_postgres::GenericClient + Sync>(client: &C, event: &NewEvent) -> Result<Emitted> {
    store::event::emit_on(client, event, event.checked()?).await
}

impl Queue {
    /// Emits one event and answers once it is durable.
    pub async fn emit(&self, event: &NewEvent) -> Result<Emitted> {
        store::event::emit_of(self.database(), event, event.checked()?).await
    }
}
