//! The lock of the process that migrates: one at a time. It holds a lock on `windlass.migrating` in a second session, because there are
//! several migration transactions, and some migrations run outside of one (`-- no-transaction`). The lock is SHARE
//! UPDATE EXCLUSIVE: a role that can only read cannot hold a conflicting lock, whereas every login can acquire an
//! advisory lock. Nothing else uses that table: a login without a privilege can queue for a lock on any table (CREATE RULE
//! locks before it checks), and if the first session used the same table, it would wait for that login, and the login for
//! the second session. The lock is polled, because CREATE INDEX CONCURRENTLY may wait for a session that waits for a lock. The
//! very first step creates that table, so it runs before the lock, in one transaction: if two processes create the same
//! schema, one fails, and checks again.

use std::time::{Duration, Instant};

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::{ALREADY_THERE, AS_OWNER};
use crate::error::{Error, Result};

/// The session is idle while another one works, and must not be terminated for that.
const LOCK: &str = "begin isolation level read committed; set local idle_in_transaction_session_timeout = 0;
    lock table windlass.migrating in share update exclusive mode nowait";
/// The migration that creates it runs under the lock.
const LOCKED_TABLE: &str = "create table if not exists windlass.migrating ()";
const LOCK_PATIENCE: Duration = Duration::from_secs(120);
/// Any other lock on that table is not that of a migration.
const FOREIGN_LOCK: &str = "select exists (select from pg_catalog.pg_locks l
    join pg_catalog.pg_database d on d.oid = l.database and d.datname = current_database()
   where l.relation = 'windlass.migrating'::regclass and l.granted and l.mode <> 'ShareUpdateExclusiveLock')";
const FOREIGN_LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// Returns when no other process migrates, with the lock, which the session holds until its transaction ends.
pub(super) async fn hold(client: &Client) -> Result<()> {
    let started = Instant::now();
    let mut foreign_since = None;
    client.batch_execute(AS_OWNER).await?;
    loop {
        match client.batch_execute(LOCK).await {
            Ok(()) => return Ok(()),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                client.batch_execute("rollback").await?;
                if !client.query_one(FOREIGN_LOCK, &[]).await?.get::<_, bool>(0) {
                    foreign_since = None;
                } else if foreign_since.get_or_insert_with(Instant::now).elapsed() > FOREIGN_LOCK_PATIENCE {
                    return Err(Error::MigrationBlocked { by: blocker(client).await? });
                }
            }
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => {
                client.batch_execute("rollback").await?;
                match client.batch_execute(LOCKED_TABLE).await {
                    // Another process has just created it.
                    Err(error) if error.code().is_some_and(|code| ALREADY_THERE.contains(code)) => {}
                    created => created?,
                }
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        if started.elapsed() > LOCK_PATIENCE {
            return Err(Error::MigrationLock { seconds: LOCK_PATIENCE.as_secs() });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The session that has held a lock on one of our tables for the longest time, first those whose lock nobody else can share. The login
/// may see more of it than the owner role.
pub(in crate::setup) async fn blocker(client: &Client) -> Result<String> {
    client.batch_execute("reset role").await?;
    let query = "select format('process %s of %s (%s), in a transaction since %s: %s', a.pid, a.usename,
            coalesce(nullif(a.application_name, ''), 'unnamed'), a.xact_start, left(a.query, 200))
        from pg_catalog.pg_locks l
        join pg_catalog.pg_class c on c.oid = l.relation and c.relnamespace = 'windlass'::regnamespace
        join pg_catalog.pg_stat_activity a on a.pid = l.pid and a.datname = current_database()
       where l.granted and l.pid <> pg_backend_pid() order by l.mode = 'AccessExclusiveLock' desc, a.xact_start limit 1";
    let row = client.query_opt(query, &[]).await?;
    Ok(row.map_or_else(|| "a process that has since ended".to_owned(), |row| row.get(0)))
}
