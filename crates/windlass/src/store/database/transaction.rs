//! Transactions of one statement, and the time limits of the engine's own statements. A backend continues with a
//! statement whose client has disconnected, so abandoning it on the client is not enough: the server gets a limit in
//! advance, or a cancel request.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio_postgres::types::ToSql;
use tokio_postgres::{NoTls, Row};

use super::asking::{Rows, take};
use super::{CONFLICT_TRIES, Session, Statement, conflict_pause, tls};
use crate::error::{Error, Result};
use crate::store::isolation;
use crate::telemetry;

/// How long to wait beyond the server's own limit, and for a cancel request to arrive.
const GRACE: Duration = Duration::from_secs(5);

/// Returns the text that starts a transaction whose statements the server cancels after this time.
pub(super) fn begin_within(limit: Duration) -> String {
    format!("{}; set local statement_timeout = {}", isolation::BEGIN, limit.as_millis())
}

impl Session {
    /// Runs a transaction of one statement.
    pub(crate) async fn transact(
        &self,
        begin: &str,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        Ok(self.exchange(begin, usize::MAX, statement, params).await?.rows)
    }

    /// The same, but keeps rows only up to a number of bytes. If the future is dropped before it completes, so is the
    /// connection.
    pub(super) async fn exchange(
        &self,
        begin: &str,
        bytes: usize,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Rows> {
        let begin = &isolation::completed(begin, self.has_unusual_defaults);
        self.is_asking.store(true, Ordering::Relaxed);
        let result = if self.is_direct() {
            self.exchange_named(begin, bytes, statement, params).await
        } else {
            self.exchange_unnamed(begin, bytes, statement, params).await
        };
        self.is_asking.store(false, Ordering::Relaxed);
        result
    }

    /// Sends everything before it awaits the first response: statements after a failed one fail too, and the commit is
    /// a rollback.
    async fn exchange_named(
        &self,
        begin: &str,
        bytes: usize,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Rows> {
        // Prepared first: otherwise the commit could overtake a statement that is still being prepared.
        let named = self.named(statement).await?;
        let client = self.client();
        let (begun, result, committed) = tokio::join!(
            client.batch_execute(begin),
            async { take(client.query_raw(&named, params.iter().copied()).await?, bytes).await },
            client.batch_execute("commit"),
        );
        begun?;
        let rows = result?;
        committed?;
        Ok(rows)
    }

    /// The same without a prepared statement, which a pooler would lose.
    async fn exchange_unnamed(
        &self,
        begin: &str,
        bytes: usize,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Rows> {
        let client = self.client();
        let typed: Vec<_> = params.iter().copied().zip(statement.types.iter().cloned()).collect();
        let (begun, result, committed) = tokio::join!(
            client.batch_execute(begin),
            async { take(client.query_typed_raw(statement.text, typed).await?, bytes).await },
            client.batch_execute("commit"),
        );
        begun?;
        let rows = result?;
        committed?;
        Ok(rows)
    }

    /// Runs one statement in a separate transaction, which the server cancels after this time. The limit is set only
    /// for that transaction, so it also works behind a pooler and is not left on the connection. (As a setting of a
    /// function it would have no effect: the server starts the clock before the function.) It costs two short
    /// statements, sent together with this one. For claims, heartbeats and settlements that is too much: their limit is
    /// an option of the connection (see `Database::for_engine`).
    pub(crate) async fn query_within(
        &mut self,
        limit: Duration,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        let begin = begin_within(limit);
        let mut tries = 0;
        loop {
            let started = Instant::now();
            let result = tokio::time::timeout(limit + GRACE, self.transact(&begin, statement, params)).await;
            telemetry::database_time(statement.text, started.elapsed());
            let Ok(result) = result else {
                self.give_up().await;
                return Err(Error::unanswered());
            };
            match &result {
                Err(error) if error.is_lost_statement() => self.prepared.store(false, Ordering::Relaxed),
                Err(error) if error.is_conflict() => {}
                _ => return result,
            }
            tries += 1;
            if tries > CONFLICT_TRIES {
                return result;
            }
            conflict_pause().await;
        }
    }

    /// Sends a cancel request for the running statement of this connection, and never uses the connection again. It is
    /// not known whether the request arrived in time: the statement may have taken effect.
    pub(super) async fn give_up(&self) {
        self.is_silent.store(true, Ordering::Relaxed);
        let token = self.client().cancel_token();
        let request = async {
            match (!self.is_plain).then(tls) {
                Some(Ok(tls)) => token.cancel_query(tls).await,
                _ => token.cancel_query(NoTls).await,
            }
        };
        // If this gets no response either, only the server's own limit remains.
        let _ = tokio::time::timeout(GRACE, request).await;
    }
}
