//! The defaults of the database that our transactions must not inherit. Limits and locks rest on read committed, and names in our
//! statements mean those of `pg_catalog`; a database or a role may have other defaults.
//!
//! A SET at the start of a connection is lost behind a transaction pooler, and so is an option of the connection. So each transaction
//! says what it needs. For a statement by itself that would cost two more messages, so it is done only where a new connection
//! finds that the defaults are not the usual ones.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deadpool_postgres::{Hook, HookError};

/// Begins every transaction of ours that may write.
pub(crate) const BEGIN: &str = "begin isolation level read committed";

/// Said in addition where the defaults are unusual.
const PLAIN_NAMES: &str = "; set local search_path = pg_catalog";

/// The words that begin a transaction, with what is needed in addition.
pub(crate) fn completed(begin: &str, is_unusual: bool) -> Cow<'_, str> {
    if is_unusual { Cow::Owned(format!("{begin}{PLAIN_NAMES}")) } else { Cow::Borrowed(begin) }
}

/// Asked once for each connection. `pg_catalog` is searched first unless the search path names it later.
const IS_UNUSUAL: &str = "select pg_catalog.current_setting('default_transaction_isolation') operator(pg_catalog.<>) 'read committed' \
    or pg_catalog.strpos(pg_catalog.current_setting('search_path'), 'pg_catalog') operator(pg_catalog.>) 1";

/// Looks at each new connection, and remembers for the pool if one has unusual defaults.
pub(super) fn look(is_unusual: Arc<AtomicBool>) -> Hook {
    Hook::async_fn(move |client, _| {
        let is_unusual = is_unusual.clone();
        Box::pin(async move {
            let rows = client.query_typed(IS_UNUSUAL, &[]).await.map_err(HookError::Backend)?;
            if rows.first().is_some_and(|row| row.get(0)) {
                is_unusual.store(true, Ordering::Relaxed);
            }
            Ok(())
        })
    })
}
