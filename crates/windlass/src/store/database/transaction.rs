//! Transactions of one statement, and how long a statement of the engine's own may take. A backend goes on with a statement whose
//! client has gone, so giving up on our side is not enough: the server is told beforehand, or asked to stop.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio_postgres::types::ToSql;
use tokio_postgres::{NoTls, Row};

use super::asking::{Rows, take};
use super::{CONFLICT_TRIES, Session, Statement, conflict_pause, tls};
use crate::error::{Error, Result};
use crate::store::isolation;
use crate::telemetry;

/// How long we wait beyond the server's own limit, and for a request to stop to arrive.
const GRACE: Duration = Duration::from_secs(5);

/// Begins a transaction whose statements the server gives up after this time.
pub(super) fn begin_within(limit: Duration) -> String {
    format!("{}; set local statement_timeout = {}", isolation::BEGIN, limit.as_millis())
}

impl Session {
    /// A transaction of one statement.
    pub(crate) async fn transact(
        &self,
        begin: &str,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        Ok(self.exchange(begin, usize::MAX, statement, params).await?.rows)
    }

    /// The same; rows are taken only until they have so many bytes. If it is dropped half-way, so is the connection.
    pub(super) async fn exchange(
        &self,
        begin: &str,
        bytes: usize,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Rows> {
        let begin = &isolation::completed(begin, self.has_unusual_defaults);
        self.is_asking.store(true, Ordering::Relaxed);
        let answer = if self.is_direct() {
            self.exchange_named(begin, bytes, statement, params).await
        } else {
            self.exchange_unnamed(begin, bytes, statement, params).await
        };
        self.is_asking.store(false, Ordering::Relaxed);
        answer
    }

    /// Sent whole before its first answer is waited for: what follows a refused statement is refused too, and its commit is a rollback.
    async fn exchange_named(
        &self,
        begin: &str,
        bytes: usize,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Rows> {
        // Named first: otherwise the commit could overtake a statement that is still being named.
        let named = self.object().prepare_typed_cached(statement.text, statement.types).await?;
        let client = self.client();
        let (begun, answer, committed) = tokio::join!(
            client.batch_execute(begin),
            async { take(client.query_raw(&named, params.iter().copied()).await?, bytes).await },
            client.batch_execute("commit"),
        );
        begun?;
        let rows = answer?;
        committed?;
        Ok(rows)
    }

    /// The same without a name, which a pooler would lose.
    async fn exchange_unnamed(
        &self,
        begin: &str,
        bytes: usize,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Rows> {
        let client = self.client();
        let typed: Vec<_> = params.iter().copied().zip(statement.types.iter().cloned()).collect();
        let (begun, answer, committed) = tokio::join!(
            client.batch_execute(begin),
            async { take(client.query_typed_raw(statement.text, typed).await?, bytes).await },
            client.batch_execute("commit"),
        );
        begun?;
        let rows = answer?;
        committed?;
        Ok(rows)
    }

    /// One statement in a transaction of its own, which the server gives up after this time. The limit is set for that transaction
    /// alone, so it also holds behind a pooler and is not left on the connection. (As a function's own setting it would do nothing:
    /// the server starts the clock before the function begins.) It costs two short statements, sent together with this one. For claims,
    /// heartbeats and endings that is too much: their limit is one of the connection (see `Database::for_engine`).
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
            let answer = tokio::time::timeout(limit + GRACE, self.transact(&begin, statement, params)).await;
            telemetry::database_time(statement.text, started.elapsed());
            let Ok(answer) = answer else {
                self.give_up().await;
                return Err(Error::unanswered());
            };
            match &answer {
                Err(error) if error.is_lost_statement() => self.prepared.store(false, Ordering::Relaxed),
                Err(error) if error.is_conflict() => {}
                _ => return answer,
            }
            tries += 1;
            if tries > CONFLICT_TRIES {
                return answer;
            }
            conflict_pause().await;
        }
    }

    /// Asks the server to stop what this connection has under way, and never uses the connection again. Whether it came in time is not
    /// known: the statement may have taken effect.
    pub(super) async fn give_up(&self) {
        self.is_silent.store(true, Ordering::Relaxed);
        let token = self.client().cancel_token();
        let asked = async {
            match tls() {
                Ok(tls) if !self.is_plain => token.cancel_query(tls).await,
                _ => token.cancel_query(NoTls).await,
            }
        };
        // If even this is not answered, the server's own limit is what is left.
        let _ = tokio::time::timeout(GRACE, asked).await;
    }
}
