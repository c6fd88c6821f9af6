//! What the sessions of the server do, sampled fifty times a second: they run, or wait for something that Postgres names.
//!
//! How it stops: `stop` cancels the task, which returns what it has seen.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use crate::Result;

const STATES: &str = "select coalesce(a.wait_event_type || ':' || a.wait_event, 'running'), count(*)
   from pg_stat_activity a
  where a.datname = current_database() and a.backend_type = 'client backend' and a.state = 'active' and a.pid <> pg_backend_pid()
  group by 1";
const EVERY: Duration = Duration::from_millis(20);

/// Locks or the log limit a step if at least this share of the active sessions wait for them …
const MANY: f64 = 0.25;
/// … and otherwise the processors, if the machine is this busy.
const BUSY: f64 = 0.85;

pub(super) struct Waits {
    stop: CancellationToken,
    sampling: JoinHandle<Result<BTreeMap<String, u64>>>,
}

impl Waits {
    pub(super) fn sample(client: Client) -> Self {
        let stop = CancellationToken::new();
        Self { sampling: tokio::spawn(sample(client, stop.clone())), stop }
    }

    pub(super) async fn stop(self) -> Result<States> {
        self.stop.cancel();
        Ok(States(self.sampling.await??))
    }
}

async fn sample(client: Client, stop: CancellationToken) -> Result<BTreeMap<String, u64>> {
    let query = client.prepare(STATES).await?;
    let mut states = BTreeMap::new();
    loop {
        for row in client.query(&query, &[]).await? {
            *states.entry(row.get(0)).or_default() += row.get::<_, i64>(1).unsigned_abs();
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(states),
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// How often each state was seen.
pub(super) struct States(BTreeMap<String, u64>);

impl States {
    fn share(&self, is_counted: impl Fn(&str) -> bool) -> f64 {
        let all: u64 = self.0.values().sum();
        let counted: u64 = self.0.iter().filter(|(state, _)| is_counted(state)).map(|(_, count)| count).sum();
        counted as f64 / all.max(1) as f64
    }

    /// The most frequent states with their shares.
    pub(super) fn most(&self) -> Vec<(String, f64)> {
        let mut shares: Vec<(String, f64)> =
            self.0.keys().map(|state| (state.clone(), self.share(|other| other == state))).collect();
        shares.sort_by(|one, other| other.1.total_cmp(&one.1));
        shares.truncate(4);
        shares
    }

    /// `busy`: the share of the machine in use.
    pub(super) fn limit(&self, busy: f64) -> &'static str {
        let is_wal = |state: &str| state.contains(":WAL");
        let is_lock =
            |state: &str| !is_wal(state) && (state.starts_with("Lock:") || state.starts_with("LWLock:"));
        if self.share(is_wal) >= MANY {
            "WAL"
        } else if self.share(is_lock) >= MANY {
            "locks"
        } else if busy >= BUSY {
            "processors"
        } else {
            "clients"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::States;

    fn states(all: &[(&str, u64)]) -> States {
        States(all.iter().map(|(state, count)| ((*state).to_owned(), *count)).collect())
    }

    #[test]
    fn waits_for_the_log_and_for_locks_differ() {
        let wal = [("running", 60), ("IO:WALSync", 20), ("LWLock:WALWrite", 20)];
        assert_eq!(states(&wal).limit(0.9), "WAL");
        let locks = [("running", 60), ("Lock:transactionid", 20), ("LWLock:BufferContent", 20)];
        assert_eq!(states(&locks).limit(0.9), "locks");
        assert_eq!(states(&[("running", 60), ("IO:WALSync", 10)]).limit(0.9), "processors");
        assert_eq!(states(&[]).limit(0.1), "clients");
    }

    #[test]
    fn the_most_frequent_states_come_first() {
        let most = states(&[("a", 1), ("b", 3), ("c", 2), ("d", 2), ("e", 2)]).most();
        assert_eq!(most.len(), 4);
        assert_eq!(most[0], ("b".to_owned(), 0.3));
    }
}
