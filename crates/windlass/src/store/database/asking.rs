//! Sends a statement and reads its result, completely or up to a number of bytes.

use std::sync::atomic::Ordering;
use std::time::Instant;

use futures_util::StreamExt as _;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, RowStream};

use super::transaction::begin_within;
use super::{CONFLICT_TRIES, Session, Statement, conflict_pause};
use crate::error::{Error, Result};
use crate::store::isolation;
use crate::telemetry;

/// The rows of a result that were read.
pub(crate) struct Rows {
    pub(crate) rows: Vec<Row>,
    /// There were more, which were discarded.
    pub(crate) is_cut: bool,
}

impl Session {
    /// Runs one statement, in the open transaction or in a separate one. In a separate one it is sent again if a pooler
    /// lost its name, and a few times after a deadlock: the server has rolled it back completely then.
    pub(crate) async fn query(
        &self,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        Ok(self.query_up_to(usize::MAX, statement, params).await?.rows)
    }

    /// The same, but keeps rows only up to a number of bytes: at least one, and at most one more than fits. The others
    /// are received and discarded. A caller that requests few rows at a time discards few.
    pub(crate) async fn query_up_to(
        &self,
        bytes: usize,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Rows> {
        let mut tries = 0;
        loop {
            let result = self.query_patiently(bytes, statement, params).await;
            let Err(error) = &result else { return result };
            if error.is_lost_statement() {
                self.prepared.store(false, Ordering::Relaxed);
            } else if !error.is_conflict() {
                return result;
            }
            tries += 1;
            if self.is_open || tries > CONFLICT_TRIES {
                return result;
            }
            conflict_pause().await;
        }
    }

    async fn query_patiently(
        &self,
        bytes: usize,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Rows> {
        // If this future is dropped meanwhile, it stays set, and the connection returns to the pool only after the response.
        self.is_asking.store(true, Ordering::Relaxed);
        let asking = self.query_once(bytes, statement, params);
        let result = match self.patience {
            None => asking.await,
            Some(patience) => match tokio::time::timeout(patience, asking).await {
                Ok(result) => result,
                Err(_) => {
                    self.give_up().await;
                    Err(Error::unanswered())
                }
            },
        };
        self.is_asking.store(false, Ordering::Relaxed);
        result
    }

    async fn query_once(
        &self,
        bytes: usize,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Rows> {
        let started = Instant::now();
        let result = self.send(bytes, statement, params).await;
        telemetry::database_time(statement.text, started.elapsed());
        result
    }

    async fn send(
        &self,
        bytes: usize,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Rows> {
        let limit = self.pooled_limit.filter(|_| !self.is_direct());
        if !self.is_open && (self.has_unusual_defaults || limit.is_some()) {
            let begin = limit.map_or_else(|| isolation::BEGIN.to_owned(), begin_within);
            return self.exchange(&begin, bytes, statement, params).await;
        }
        let result = if self.prepared.load(Ordering::Relaxed) {
            let prepared = self.named(statement).await?;
            self.object().query_raw(&prepared, params.iter().copied()).await?
        } else {
            let typed = params.iter().copied().zip(statement.types.iter().cloned());
            self.client().query_typed_raw(statement.text, typed).await?
        };
        take(result, bytes).await
    }
}

/// Reads the rows of a result up to a number of bytes.
pub(super) async fn take(result: RowStream, most: usize) -> Result<Rows> {
    let mut result = std::pin::pin!(result);
    let (mut rows, mut bytes) = (Vec::new(), 0_usize);
    while let Some(row) = result.next().await {
        let row = row?;
        if bytes >= most {
            return Ok(Rows { rows, is_cut: true });
        }
        bytes = bytes.saturating_add(row.raw_size_bytes());
        rows.push(row);
    }
    Ok(Rows { rows, is_cut: false })
}
