//! The defaults of the database that our transactions must not inherit. Limits and locks depend on read committed, and names in our
//! statements mean those of `pg_catalog`. A database or a role may have other defaults, and the usual search path contains `public`,
//! where another role may be able to create a function that is a better match for our arguments than the one of `pg_catalog`.
//!
//! Nor must they inherit the just-in-time compiler. It compiles a plan for each partition that the plan could read, which with hundreds of
//! partitions took minutes for a statement of 20 ms. Our functions that read partitions disable it too.
//!
//! A direct connection gets all of them as options, which costs nothing per statement. A transaction pooler drops or refuses
//! options, so there each transaction starts with what it needs. For a single statement that costs two more messages, unless
//! the login has these defaults itself (`alter role … set search_path = pg_catalog`).

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deadpool_postgres::{Hook, HookError};
use tokio_postgres::Config;

/// Starts each of our read-write transactions.
pub(crate) const BEGIN: &str = "begin isolation level read committed";

/// Sent in addition if the defaults are unusual.
const PLAIN_NAMES: &str = "; set local search_path = pg_catalog";

/// Returns the text that starts a transaction, with the additional settings if needed.
pub(crate) fn completed(begin: &str, is_unusual: bool) -> Cow<'_, str> {
    if is_unusual { Cow::Owned(format!("{begin}{PLAIN_NAMES}")) } else { Cow::Borrowed(begin) }
}

/// For a connection to the server itself. The options of the caller come first, so that they cannot change ours.
pub(super) fn with_options(config: &Config) -> Config {
    let mut config = config.clone();
    let given = config.get_options().unwrap_or_default();
    let options = format!(
        "{given} -c search_path=pg_catalog -c default_transaction_isolation=read\\ committed -c jit=off"
    );
    config.options(options.trim_start());
    config
}

/// Asked once for each connection. Any schema next to `pg_catalog` is too many.
const IS_UNUSUAL: &str = "select pg_catalog.current_setting('default_transaction_isolation') operator(pg_catalog.<>) 'read committed' \
    or pg_catalog.current_setting('search_path') operator(pg_catalog.<>) 'pg_catalog'";

/// Checks each new connection, and records for the pool if one has unusual defaults.
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
