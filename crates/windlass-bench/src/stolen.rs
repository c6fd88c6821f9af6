//! The stolen CPU time during a measurement: the time that a virtual machine was ready to run and did not run. It shows whether a
//! low figure is caused by other machines.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;

/// Samples once a second until it is dropped.
#[derive(Debug)]
pub(crate) struct Stolen {
    seconds: Arc<Mutex<Vec<f64>>>,
    sampling: JoinHandle<()>,
}

impl Stolen {
    pub(crate) fn watch() -> Self {
        let seconds = Arc::new(Mutex::new(Vec::new()));
        let sampling = tokio::spawn(sample(seconds.clone()));
        Self { seconds, sampling }
    }
}

async fn sample(seconds: Arc<Mutex<Vec<f64>>>) {
    let mut before = Times::now();
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        seconds.lock().push(Times::share_since(before));
        before = Times::now();
    }
}

impl Drop for Stolen {
    fn drop(&mut self) {
        self.sampling.abort();
    }
}

impl fmt::Display for Stolen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.seconds.lock();
        let mean = seconds.iter().sum::<f64>() / seconds.len().max(1) as f64;
        let most = seconds.iter().copied().fold(0.0, f64::max);
        write!(
            f,
            "CPU time stolen by other machines: {:.1} %, {:.0} % in the worst second",
            mean * 100.0,
            most * 100.0
        )
    }
}

/// In ticks, over all cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Times {
    all: u64,
    stolen: u64,
}

impl Times {
    pub(crate) fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// The share since then; zero if the system does not report it.
    pub(crate) fn share_since(before: Option<Self>) -> f64 {
        let (Some(before), Some(now)) = (before, Self::now()) else { return 0.0 };
        let all = now.all.saturating_sub(before.all).max(1) as f64;
        now.stolen.saturating_sub(before.stolen) as f64 / all
    }

    /// user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in user already.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_ascii_whitespace().take(8).filter_map(|n| n.parse().ok()).collect();
        Some(Self { all: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }
}

/// CPU usage: all ticks, and those that were not idle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Busy {
    all: u64,
    used: u64,
}

impl Busy {
    pub(crate) fn now() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_ascii_whitespace().take(8).filter_map(|n| n.parse().ok()).collect();
        let all: u64 = ticks.iter().sum();
        Some(Self { all, used: all - ticks.get(3)? - ticks.get(4)? })
    }

    /// The share since then, from 0 to 1.
    pub(crate) fn share_since(before: Option<Self>) -> f64 {
        let (Some(before), Some(now)) = (before, Self::now()) else { return 0.0 };
        now.used.saturating_sub(before.used) as f64 / now.all.saturating_sub(before.all).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::Times;

    #[test]
    fn the_eighth_number_is_the_stolen_time() {
        let times = Times::parse("cpu  1 2 3 4 5 6 7 8 100 200\ncpu0 0 0 0 0 0 0 0 0 0 0\n");
        assert_eq!(times, Some(Times { all: 36, stolen: 8 }));
        assert!(Times::now().is_some());
    }
}
