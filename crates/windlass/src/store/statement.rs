//! One SQL statement of the store.

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::error::{Error, Result};

/// A statement and the types of its parameters, so that it can be sent without a request for its types.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) text: &'static str,
    pub(crate) types: &'static [Type],
}

impl Statement {
    /// Returns the row of a statement that always has one. The database was reached, so that the row is missing is no reason to try
    /// again.
    pub(crate) fn row_of(&self, rows: Vec<Row>) -> Result<Row> {
        let missing = || Error::UnexpectedResult { message: format!("no row from `{}`", self.text) };
        rows.into_iter().next().ok_or_else(missing)
    }
}

/// Sends a statement on a connection of the caller, without leaving a prepared statement on it.
pub(crate) async fn query_unnamed<C: tokio_postgres::GenericClient + Sync>(
    client: &C,
    statement: &Statement,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>> {
    let typed: Vec<_> = params.iter().copied().zip(statement.types.iter().cloned()).collect();
    Ok(client.query_typed(statement.text, &typed).await?)
}
