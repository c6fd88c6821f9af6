//! The messages between worker and shim: JSON, each preceded by its length. Descriptors are sent with the first byte of
//! an order. Instants are nanoseconds of the machine's monotonic clock, which both read, so that a delayed message does
//! not extend a lease.

use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// An argv may have a megabyte, and JSON may escape every byte of it.
const MAX_LENGTH: usize = 16 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToShim {
    Run(Box<Order>),
    Lease(LeaseEnd),
    /// Stops the run: by SIGTERM, and by SIGKILL after the grace time.
    Stop,
    /// Kills the run immediately, for this reason.
    Kill(StopCause),
}

/// How long a run may continue without another renewal.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct LeaseEnd {
    pub(crate) stop_at: u64,
    /// A run that has not ended by then is killed.
    pub(crate) kill_at: u64,
}

/// The command to run. Its descriptors are, in this order: stdin if it has one, stdout, stderr, the report if it has
/// one.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// Without one it gets an empty directory under `scratch`, which is deleted afterwards.
    pub(crate) cwd: Option<String>,
    pub(crate) scratch: String,
    pub(crate) user: Option<(u32, u32)>,
    pub(crate) limits: Limits,
    pub(crate) has_stdin: bool,
    pub(crate) has_report: bool,
    pub(crate) grace_ms: u64,
    pub(crate) timeout_at: u64,
    pub(crate) lease: LeaseEnd,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Limits {
    pub(crate) memory: Option<u64>,
    pub(crate) cpu_seconds: Option<u64>,
    pub(crate) processes: Option<u64>,
    pub(crate) open_files: Option<u64>,
    pub(crate) file_size: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromShim {
    Started {
        pid: i32,
    },
    /// It could not be started.
    Refused {
        error: String,
    },
    /// A renewal was received: the shim is responsive.
    Heard,
    Exited(Exited),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Exited {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) max_rss_kb: i64,
    /// Why the shim ended it, if it did.
    pub(crate) why: Option<StopCause>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StopCause {
    Asked,
    Timeout,
    LeaseOver,
    WorkerGone,
    Processes,
    Memory,
    Output,
}

pub(crate) fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = u32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// Takes the first complete message from the received bytes.
pub(crate) fn take<M: DeserializeOwned>(bytes: &mut Vec<u8>) -> io::Result<Option<M>> {
    let Some(length) = bytes.first_chunk::<4>() else { return Ok(None) };
    let end = 4 + u32::from_le_bytes(*length) as usize;
    if end > MAX_LENGTH {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if bytes.len() < end {
        return Ok(None);
    }
    let message = serde_json::from_slice(&bytes[4..end])?;
    bytes.drain(..end);
    Ok(Some(message))
}

/// Returns the time of this machine's monotonic clock.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Returns the time of the same clock at another instant.
pub(crate) fn ns_at(instant: std::time::Instant) -> u64 {
    let now = std::time::Instant::now();
    let ahead = instant.saturating_duration_since(now).as_nanos();
    let behind = now.saturating_duration_since(instant).as_nanos();
    let as_ns = |nanos: u128| u64::try_from(nanos).unwrap_or(u64::MAX / 2);
    now_ns().saturating_add(as_ns(ahead)).saturating_sub(as_ns(behind))
}
