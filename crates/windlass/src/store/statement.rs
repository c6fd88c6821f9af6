//! One SQL statement of the store.

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::error::Result;

/// A statement and the types of its parameters, so that it can be sent without a request for its types.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) text: &'static str,
    pub(crate) types: &'static [Type],
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
