//! Returns a connection to the pool, or closes it, when its user is dropped: a request is dropped when its client disconnects.
//!
//! To open a connection costs far more than the statement of a request, so a client that sends requests and disconnects
//! at once must not make the server replace its connections. A statement that ends soon is therefore awaited, by a task
//! that holds the connection and the tenant's share of it. There are never more such tasks than connections. Each ends
//! after a second at the latest, and nothing waits for it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use deadpool_postgres::Object;
use futures_util::FutureExt;
use parking_lot::MutexGuard;
use tokio::runtime::Handle;
use tokio_postgres::Statement as NamedStatement;
use tokio_postgres::types::Type;

use super::{Session, Statement};
use crate::error::Result;
use crate::store::shares::Share;

/// How long to wait for the end of a statement. After that the connection is closed, and the server ends the statement at
/// its own limit.
const PATIENCE: Duration = Duration::from_secs(1);

/// A connection whose last statement has not ended. It is closed unless that ends in time.
struct AbandonedStatement {
    client: Option<Object>,
    is_open: bool,
    preparing: Option<(&'static str, &'static [Type])>,
    _share: Option<Share>,
}

impl AbandonedStatement {
    /// Waits for the statement, and returns the connection to the pool.
    async fn end(mut self) {
        let Some(client) = &self.client else { return };
        let ending = async {
            // The server processes statements in order. The responses to the earlier ones are discarded.
            client.batch_execute(if self.is_open { "rollback" } else { "" }).await?;
            // The server has a name for it that nobody here knows. Prepared again, it is in the cache: so no more than one
            // such name of each statement is left on a connection.
            if let Some((text, types)) = self.preparing {
                client.prepare_typed_cached(text, types).await?;
            }
            Ok::<_, tokio_postgres::Error>(())
        };
        if let Ok(Ok(())) = tokio::time::timeout(PATIENCE, ending).await {
            drop(self.client.take());
        }
    }
}

impl Drop for AbandonedStatement {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

impl Session {
    /// The statement by its name on this connection.
    pub(super) async fn named(&self, statement: &Statement) -> Result<NamedStatement> {
        *self.preparing() = Some((statement.text, statement.types));
        let named = self.object().prepare_typed_cached(statement.text, statement.types).await;
        *self.preparing() = None;
        Ok(named?)
    }

    fn preparing(&self) -> MutexGuard<'_, Option<(&'static str, &'static [Type])>> {
        self.preparing.lock()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let is_silent = self.is_silent.load(Ordering::Relaxed);
        if !is_silent && !self.is_asking.load(Ordering::Relaxed) {
            if self.is_open {
                // Sent with the first poll and not awaited: the server processes statements in order.
                let _ = self.client().batch_execute("rollback").now_or_never();
            }
            return;
        }
        let preparing = self.preparing().take();
        let unfinished = AbandonedStatement {
            client: self.client.take(),
            is_open: self.is_open,
            preparing,
            _share: self.share.take(),
        };
        match Handle::try_current() {
            Ok(runtime) if !is_silent => drop(runtime.spawn(unfinished.end())),
            _ => drop(unfinished),
        }
    }
}
