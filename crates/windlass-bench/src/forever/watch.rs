//! Samples the server during a run: the size of the schema and the deleted jobs once a second, and the waits for locks a hundred
//! times a second.
//!
//! How it stops: `stop` cancels both tasks, and each returns what it has seen.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use crate::Result;
use crate::process;

/// The longest current wait for a lock, of sessions that neither keep nor measure.
const WAITS: &str = "select coalesce(max(extract(epoch from clock_timestamp() - l.waitstart)), 0)::float8 * 1000
    from pg_locks l join pg_stat_activity a on a.pid = l.pid
   where not l.granted and a.datname = current_database()
     and a.query !~ 'windlass\\.(retire|maintain_partitions|prune|fold_tallies|promote|expire|unblock_all|seal_audit|sample_activity|purge_deleted)'";

const SIZE: &str = "select (select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint from pg_class c
      where c.relnamespace = 'windlass'::regnamespace and c.relkind = 'r'),
    (select coalesce(sum(m.moved), 0)::bigint from windlass.keeper_mark m where m.duty like 'prune %'),
    (select count(*) from windlass.retiring r where r.step = 'swapped')";

pub(super) struct Watch {
    stop: CancellationToken,
    sizes: JoinHandle<Result<Vec<Sample>>>,
    waits: JoinHandle<Result<f64>>,
    backend: u32,
    cpu_before: f64,
}

/// One second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    bytes: u64,
    pruned: u64,
    /// A partition was replaced in the last second.
    is_retired: bool,
}

#[derive(Debug)]
pub(super) struct Watched {
    samples: Vec<Sample>,
    pub(super) longest_wait_ms: f64,
    pub(super) cpu_seconds: f64,
}

impl Watch {
    pub(super) async fn start(sizes: Client, waits: Client) -> Result<Self> {
        let stop = CancellationToken::new();
        let backend: i32 = sizes.query_one("select pg_backend_pid()", &[]).await?.get(0);
        let backend = backend.unsigned_abs();
        let cpu_before = process::server_cpu_seconds(backend).unwrap_or_default();
        Ok(Self {
            sizes: tokio::spawn(sample_sizes(sizes, stop.clone())),
            waits: tokio::spawn(sample_waits(waits, stop.clone())),
            stop,
            backend,
            cpu_before,
        })
    }

    pub(super) async fn stop(self) -> Result<Watched> {
        let cpu_seconds = process::server_cpu_seconds(self.backend).unwrap_or_default() - self.cpu_before;
        self.stop.cancel();
        Ok(Watched { samples: self.sizes.await??, longest_wait_ms: self.waits.await??, cpu_seconds })
    }
}

async fn sample_sizes(client: Client, stop: CancellationToken) -> Result<Vec<Sample>> {
    let mut samples: Vec<Sample> = Vec::new();
    let mut was_swapped = false;
    loop {
        let row = client.query_one(SIZE, &[]).await?;
        let pruned = row.get::<_, i64>(1).unsigned_abs();
        let before = samples.last().map_or(0, |sample| sample.pruned);
        let is_swapped = row.get::<_, i64>(2) > 0;
        // Between two samples it may have been swapped and dropped: then many jobs were deleted at once.
        let is_retired = !was_swapped && (is_swapped || pruned >= before + 5000);
        was_swapped = is_swapped;
        samples.push(Sample { bytes: row.get::<_, i64>(0).unsigned_abs(), pruned, is_retired });
        tokio::select! {
            () = stop.cancelled() => return Ok(samples),
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
}

async fn sample_waits(client: Client, stop: CancellationToken) -> Result<f64> {
    let mut longest: f64 = 0.0;
    let waits = client.prepare(WAITS).await?;
    loop {
        longest = longest.max(client.query_one(&waits, &[]).await?.get(0));
        tokio::select! {
            () = stop.cancelled() => return Ok(longest),
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
        }
    }
}

impl Watched {
    pub(super) fn pruned(&self) -> u64 {
        self.samples.last().map_or(0, |sample| sample.pruned)
    }

    /// The largest size between the second and the third retirement; zero if there was no second one.
    pub(super) fn bytes_after_second_retirement(&self) -> u64 {
        let mut retired = 0;
        let mut most = 0;
        for sample in &self.samples {
            retired += u64::from(sample.is_retired);
            if retired == 2 {
                most = most.max(sample.bytes);
            }
        }
        most
    }

    pub(super) fn bytes_last(&self, seconds: usize) -> u64 {
        let from = self.samples.len().saturating_sub(seconds.max(1));
        self.samples[from..].iter().map(|sample| sample.bytes).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Sample, Watched};

    #[test]
    fn the_level_is_the_largest_size_after_the_second_retirement() {
        let sample = |bytes, is_retired| Sample { bytes, pruned: bytes, is_retired };
        let samples = vec![
            sample(50, false),
            sample(40, true),
            sample(90, false),
            sample(45, true),
            sample(60, false),
            sample(44, true),
            sample(70, false),
        ];
        let watched = Watched { samples, longest_wait_ms: 0.0, cpu_seconds: 0.0 };
        assert_eq!(watched.bytes_after_second_retirement(), 60);
        assert_eq!((watched.bytes_last(2), watched.bytes_last(1), watched.pruned()), (70, 70, 70));
        let none = Watched { samples: Vec::new(), longest_wait_ms: 0.0, cpu_seconds: 0.0 };
        assert_eq!((none.bytes_after_second_retirement(), none.bytes_last(3)), (0, 0));
    }
}
