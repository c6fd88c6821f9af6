//! The log of a job: text of a stream, at a position.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The origin of a log text.
///
/// ```
/// use windlass::job::LogStream;
///
/// assert_eq!(LogStream::Stderr.as_str(), "stderr");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LogStream {
    /// The standard output of a command.
    Stdout,
    /// The standard error of a command.
    Stderr,
    /// The log of a handler or a pull worker, and messages of the worker itself.
    Log,
}

impl LogStream {
    /// Returns the name used in SQL, JSON and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Log => "log",
        }
    }

    /// The stored number; never reused.
    pub(crate) const fn code(self) -> i16 {
        match self {
            Self::Stdout => 1,
            Self::Stderr => 2,
            Self::Log => 3,
        }
    }

    pub(crate) const fn from_code(code: i16) -> Self {
        match code {
            1 => Self::Stdout,
            2 => Self::Stderr,
            _ => Self::Log,
        }
    }
}

/// A position in the log of a job; the default is before the first chunk. Written as `attempt.chunk`.
///
/// ```
/// use windlass::job::LogPosition;
///
/// let position = LogPosition::new(2, 7);
/// assert_eq!(position.to_string().parse::<LogPosition>().ok(), Some(position));
/// assert!(LogPosition::default() < position);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct LogPosition {
    /// The number of the attempt.
    pub attempt: i32,
    /// The number of the chunk within the attempt.
    pub chunk: i32,
}

impl LogPosition {
    /// A position in the log of one attempt.
    #[must_use]
    pub const fn new(attempt: i32, chunk: i32) -> Self {
        Self { attempt, chunk }
    }
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.attempt, self.chunk)
    }
}

impl FromStr for LogPosition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = |text: &str| text.parse().ok().filter(|number: &i32| *number >= 0);
        text.split_once('.')
            .and_then(|(attempt, chunk)| Some(Self { attempt: read(attempt)?, chunk: read(chunk)? }))
            .ok_or_else(|| Error::refused("position", "must be attempt.chunk, such as 1.17"))
    }
}

/// A piece of the log of one attempt. Without secrets and control characters; not always a complete line.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue, job: uuid::Uuid) -> windlass::Result<()> {
/// use windlass::job::{LogPosition, LogStream};
///
/// let page = queue.read_log(windlass::DEFAULT_TENANT, job, LogPosition::default()).await?;
/// for chunk in page.chunks.iter().filter(|chunk| chunk.stream == LogStream::Stderr) {
///     print!("{} {} {}", chunk.position, chunk.at, chunk.text);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LogChunk {
    /// The position in the log.
    #[serde(serialize_with = "as_text")]
    pub position: LogPosition,
    /// Which stream wrote it.
    pub stream: LogStream,
    /// When it was written.
    pub at: Timestamp,
    /// The text.
    pub text: String,
}

fn as_text<S: serde::Serializer>(position: &LogPosition, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(position)
}

/// The log after a position.
///
/// ```no_run
/// # async fn example(queue: &windlass::Queue, job: uuid::Uuid) -> windlass::Result<()> {
/// use windlass::job::LogPosition;
///
/// let first = queue.read_log(windlass::DEFAULT_TENANT, job, LogPosition::default()).await?;
/// if !first.is_over {
///     let second = queue.read_log(windlass::DEFAULT_TENANT, job, first.next).await?;
///     println!("{} more chunks", second.chunks.len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LogPage {
    /// The chunks, in order.
    pub chunks: Vec<LogChunk>,
    /// The position to continue at.
    pub next: LogPosition,
    /// The job has ended, and there are no more chunks.
    pub is_over: bool,
}
