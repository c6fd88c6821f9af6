//! Collects the output of this worker's runs and writes it for all of them together, a few times a second.
//!
//! Bounded regardless of the amount of output: between two writes a run keeps only its newest text (the log states how
//! much was omitted), a write has at most a megabyte, and the database keeps the newest megabyte of an attempt. It
//! stops with the worker. A run that ends writes its remaining output first, because nothing is accepted after its end.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::model::job::claimed::Fence;
use crate::model::log::LogStream;
use crate::store;
use crate::store::database::Database;
use crate::store::log::NewChunk;
use crate::telemetry;

const EVERY: Duration = Duration::from_millis(250);
/// A run that ends before this writes no chunks if its tails contain everything.
const SHORT: Duration = Duration::from_millis(200);
const CHUNK_BYTES: usize = 8 * 1024;
/// The maximum that one run keeps between two writes.
const PENDING_BYTES: usize = 64 * 1024;
/// The maximum of one write, shared by the runs that have output.
const WRITE_BYTES: usize = 1024 * 1024;
/// The maximum that the database keeps of one attempt.
const KEPT_BYTES: usize = 1024 * 1024;

/// The logs of the runs of one worker.
#[derive(Debug)]
pub(crate) struct LogSink {
    database: Database,
    /// By fence, never by job: two tenants may give their jobs the same id.
    runs: Mutex<HashMap<Fence, RunLog>>,
    is_used: AtomicBool,
    /// One write at a time, so that the chunks of a run arrive in order.
    writing: tokio::sync::Mutex<()>,
}

impl LogSink {
    pub(crate) fn new(database: Database) -> Self {
        Self {
            database,
            runs: Mutex::default(),
            is_used: AtomicBool::new(false),
            writing: tokio::sync::Mutex::new(()),
        }
    }

    /// Appends text that is already clean.
    pub(crate) fn append(&self, fence: &Fence, stream: LogStream, text: &str) {
        if text.is_empty() {
            return;
        }
        self.is_used.store(true, Ordering::Release);
        let mut runs = self.runs.lock();
        runs.entry(*fence).or_insert_with(|| RunLog::new(*fence)).append(stream, text);
    }

    /// Ends the log of a run: writes the remaining output, unless the run was short and its tails contain all of it.
    pub(crate) async fn finish(&self, fence: &Fence, has_tails: bool) {
        if !self.is_used.load(Ordering::Acquire) {
            return;
        }
        // Not during a write: it may contain earlier chunks of this run.
        let entry = self.runs.lock().remove(fence);
        let Some(mut entry) = entry else { return };
        if has_tails && entry.is_in_tails() && entry.began.elapsed() < SHORT {
            return;
        }
        let _turn = self.writing.lock().await;
        let chunks = entry.take(PENDING_BYTES);
        Box::pin(self.write(&chunks)).await; // boxed, because most runs print nothing and would carry this anyway
    }

    /// Writes the output of a run so far, for a run that settles itself: nothing is accepted afterwards.
    pub(crate) async fn flush(&self, fence: &Fence) {
        if !self.is_used.load(Ordering::Acquire) {
            return;
        }
        let _turn = self.writing.lock().await;
        let chunks = match self.runs.lock().get_mut(fence) {
            Some(entry) => entry.take(PENDING_BYTES),
            None => return,
        };
        self.write(&chunks).await;
    }

    /// Returns the logged output of a run that was not written, line by line.
    #[cfg(feature = "testing")]
    pub(crate) fn lines(&self, fence: &Fence) -> Vec<String> {
        let runs = self.runs.lock();
        let text: String =
            runs.get(fence).into_iter().flat_map(|run| &run.pending).map(|(_, text)| text.as_str()).collect();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) async fn run(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
            if !self.is_used.load(Ordering::Acquire) {
                continue;
            }
            let _turn = self.writing.lock().await;
            let chunks = self.gather();
            self.write(&chunks).await;
        }
    }

    fn gather(&self) -> Vec<NewChunk> {
        let mut runs = self.runs.lock();
        let mut talking: Vec<&mut RunLog> = runs
            .values_mut()
            .filter(|entry| !entry.pending.is_empty() && entry.began.elapsed() >= SHORT)
            .collect();
        let share = (WRITE_BYTES / talking.len().max(1)).min(PENDING_BYTES);
        talking.iter_mut().flat_map(|entry| entry.take(share)).collect()
    }

    /// A log that cannot be written is lost; that does not prevent jobs from running.
    async fn write(&self, chunks: &[NewChunk]) {
        if chunks.is_empty() {
            return;
        }
        if let Err(error) = store::log::write(&self.database, chunks).await {
            telemetry::database_error("log", &error);
        }
    }
}

/// The output of one run that was not written, and what the database has of it.
#[derive(Debug)]
struct RunLog {
    fence: Fence,
    began: Instant,
    pending: VecDeque<(LogStream, String)>,
    pending_bytes: usize,
    left_out: u64,
    last_chunk: i32,
    written: VecDeque<(i32, usize)>,
    written_bytes: usize,
}

impl RunLog {
    fn new(fence: Fence) -> Self {
        Self {
            fence,
            began: Instant::now(),
            pending: VecDeque::new(),
            pending_bytes: 0,
            left_out: 0,
            last_chunk: 0,
            written: VecDeque::new(),
            written_bytes: 0,
        }
    }

    /// Nothing is written yet, and all pending output is in the tails too; log lines are not.
    fn is_in_tails(&self) -> bool {
        self.last_chunk == 0 && self.pending.iter().all(|(stream, _)| *stream != LogStream::Log)
    }

    fn append(&mut self, stream: LogStream, mut text: &str) {
        if text.len() > PENDING_BYTES {
            let from = (text.len() - PENDING_BYTES..).find(|&at| text.is_char_boundary(at)).unwrap_or(0);
            self.left_out += from as u64;
            text = &text[from..];
        }
        while !text.is_empty() {
            let room = match self.pending.back_mut() {
                Some((last, chunk)) if *last == stream && chunk.len() < CHUNK_BYTES => {
                    CHUNK_BYTES - chunk.len()
                }
                _ => {
                    self.pending.push_back((stream, String::new()));
                    CHUNK_BYTES
                }
            };
            let end = if text.len() <= room {
                text.len()
            } else {
                (1..=room).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(4.min(text.len()))
            };
            if let Some((_, chunk)) = self.pending.back_mut() {
                chunk.push_str(&text[..end]);
            }
            self.pending_bytes += end;
            text = &text[end..];
        }
        self.shrink(PENDING_BYTES);
    }

    fn shrink(&mut self, most: usize) {
        while self.pending_bytes > most
            && let Some((_, dropped)) = self.pending.pop_front()
        {
            self.pending_bytes -= dropped.len();
            self.left_out += dropped.len() as u64;
        }
    }

    /// Takes all pending output, at most `most`, as chunks to write.
    fn take(&mut self, most: usize) -> Vec<NewChunk> {
        self.shrink(most.max(CHUNK_BYTES));
        let mut texts = Vec::with_capacity(self.pending.len() + 1);
        if self.left_out > 0 {
            texts
                .push((LogStream::Log, format!("…[{} bytes omitted]\n", std::mem::take(&mut self.left_out))));
        }
        texts.extend(self.pending.drain(..));
        self.pending_bytes = 0;
        let numbered: Vec<(i32, LogStream, String)> = texts
            .into_iter()
            .map(|(stream, text)| {
                self.last_chunk += 1;
                self.written.push_back((self.last_chunk, text.len()));
                self.written_bytes += text.len();
                (self.last_chunk, stream, text)
            })
            .collect();
        while self.written_bytes > KEPT_BYTES
            && let Some((_, bytes)) = self.written.pop_front()
        {
            self.written_bytes -= bytes;
        }
        let keep_from = self.written.front().map_or(1, |(chunk, _)| *chunk);
        let fence = self.fence;
        numbered
            .into_iter()
            .map(|(chunk, stream, text)| NewChunk { fence, chunk, stream, text, keep_from })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn entry() -> RunLog {
        RunLog::new(Fence { tenant: Uuid::nil(), job: Uuid::nil(), attempt: 1, token: Uuid::nil() })
    }

    #[test]
    fn output_is_in_order_and_cut_between_characters() {
        let mut entry = entry();
        entry.append(LogStream::Stdout, &"é".repeat(6000));
        entry.append(LogStream::Stderr, "oh");
        entry.append(LogStream::Stdout, "more");
        let chunks = entry.take(PENDING_BYTES);
        assert!(chunks.iter().all(|chunk| chunk.text.len() <= CHUNK_BYTES));
        let numbers: Vec<i32> = chunks.iter().map(|chunk| chunk.chunk).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        let text: String = chunks.iter().map(|chunk| chunk.text.as_str()).collect();
        assert_eq!(text, "é".repeat(6000) + "ohmore");
        assert!(entry.take(PENDING_BYTES).is_empty());
    }

    #[test]
    fn a_flood_keeps_its_end_and_reports_how_much_is_missing() {
        let mut entry = entry();
        for _ in 0..1000 {
            entry.append(LogStream::Stdout, &"x".repeat(10_000));
            assert!(entry.pending_bytes <= PENDING_BYTES);
        }
        let chunks = entry.take(PENDING_BYTES);
        let kept: usize = chunks[1..].iter().map(|chunk| chunk.text.len()).sum();
        assert_eq!(chunks[0].text, format!("…[{} bytes omitted]\n", 10_000_000 - kept));
        for _ in 0..100 {
            entry.append(LogStream::Stdout, &"x".repeat(60_000));
            assert!(entry.take(PENDING_BYTES).iter().all(|chunk| chunk.keep_from <= chunk.chunk));
        }
        assert!(entry.written_bytes <= KEPT_BYTES && entry.written.front().unwrap().0 > 1);
    }
}
