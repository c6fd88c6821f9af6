//! Sends a statement and takes its answer, whole or up to so many bytes.

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

/// The rows of an answer, as far as they were taken.
pub(crate) struct Rows {
    pub(crate) rows: Vec<Row>,
    /// There were more, which were not kept.
    pub(crate) is_cut: bool,
}

impl Session {
    /// One statement, in the transaction that is open or in one of its own. In its own it is sent again when a pooler
    /// lost its name, and a few times when it met another in a deadlock: the server has undone all of it then.
    pub(crate) async fn query(
        &self,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        Ok(self.query_up_to(usize::MAX, statement, params).await?.rows)
    }

    /// The same, but rows are taken only until they have so many bytes: at least one, and at most one more than fits. The others
    /// pass by and are not kept. Who asks for few rows at a time leaves few to pass by.
    pub(crate) async fn query_up_to(
        &self,
        bytes: usize,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Rows> {
        let mut tries = 0;
        loop {
            let answer = self.query_patiently(bytes, statement, params).await;
            let Err(error) = &answer else { return answer };
            if error.is_lost_statement() {
                self.prepared.store(false, Ordering::Relaxed);
            } else if !error.is_conflict() {
                return answer;
            }
            tries += 1;
            if self.is_open || tries > CONFLICT_TRIES {
                return answer;
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
        let Some(patience) = self.patience else {
            self.is_asking.store(true, Ordering::Relaxed);
            let answer = self.query_once(bytes, statement, params).await;
            self.is_asking.store(false, Ordering::Relaxed);
            return answer;
        };
        let answer = tokio::time::timeout(patience, self.query_once(bytes, statement, params)).await;
        if answer.is_err() {
            self.give_up().await;
        }
        answer.unwrap_or_else(|_| Err(Error::unanswered()))
    }

    async fn query_once(
        &self,
        bytes: usize,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Rows> {
        let started = Instant::now();
        let answer = self.send(bytes, statement, params).await;
        telemetry::database_time(statement.text, started.elapsed());
        answer
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
        let answer = if self.prepared.load(Ordering::Relaxed) {
            let prepared = self.object().prepare_typed_cached(statement.text, statement.types).await?;
            self.object().query_raw(&prepared, params.iter().copied()).await?
        } else {
            let typed = params.iter().copied().zip(statement.types.iter().cloned());
            self.client().query_typed_raw(statement.text, typed).await?
        };
        take(answer, bytes).await
    }
}

/// The rows of an answer until they have so many bytes.
pub(super) async fn take(answer: RowStream, most: usize) -> Result<Rows> {
    let mut answer = std::pin::pin!(answer);
    let (mut rows, mut bytes) = (Vec::new(), 0_usize);
    while let Some(row) = answer.next().await {
        let row = row?;
        if bytes >= most {
            return Ok(Rows { rows, is_cut: true });
        }
        bytes = bytes.saturating_add(row.raw_size_bytes());
        rows.push(row);
    }
    Ok(Rows { rows, is_cut: false })
}
