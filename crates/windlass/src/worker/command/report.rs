//! The reports of a command: JSON lines on a separate descriptor.
//!
//! `{"progress": {"percent": 50, "message": "half"}}`, `{"result": …}`, `{"artifact": …}`, `{"snooze_seconds": 60}`,
//! `{"next": [{"definition_key": "…", "payload": {…}}]}`. A line may contain several of them; the last value counts,
//! and every `next` adds jobs. Invalid progress is noted in the log. Any other invalid report fails the attempt: a
//! result or a next job that is silently lost is worse.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::attempt::done::Done;
use crate::attempt::done::MAX_NEXT;
use crate::model::new_job::NewJob;
use crate::text::json::{self, JsonLimits};

/// The maximum length of a line.
const LINE_BYTES: usize = 1024 * 1024 + 4096;

#[derive(Debug, Default)]
pub(crate) struct Reports {
    unfinished: Vec<u8>,
    lines: usize,
    result: Option<String>,
    artifact: Option<String>,
    snooze: Option<Duration>,
    next: Vec<NewJob>,
    problem: Option<String>,
}

/// The part of a line that is processed immediately.
#[derive(Debug, PartialEq)]
pub(crate) enum ReportEvent {
    Progress { percent: f32, message: String },
    Invalid(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportLine<'a> {
    #[serde(borrow)]
    progress: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    artifact: Option<&'a RawValue>,
    snooze_seconds: Option<f64>,
    #[serde(default, borrow)]
    next: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct ProgressLine {
    percent: f32,
    #[serde(default)]
    message: String,
}

impl Reports {
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<ReportEvent> {
        let mut events = Vec::new();
        self.unfinished.extend_from_slice(bytes);
        while let Some(end) = self.unfinished.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unfinished.drain(..=end).collect();
            events.extend(self.line(&line));
        }
        if self.unfinished.len() > LINE_BYTES {
            self.unfinished.clear();
            self.fail(&format!("is longer than {LINE_BYTES} bytes"));
        }
        events
    }

    pub(crate) fn finish(mut self) -> (Vec<ReportEvent>, Result<Done, String>) {
        let rest = std::mem::take(&mut self.unfinished);
        let events = self.line(&rest).into_iter().collect();
        if let Some(problem) = self.problem {
            return (events, Err(problem));
        }
        let done = Done {
            result: self.result,
            artifact: self.artifact,
            next: self.next,
            snooze: self.snooze,
            ..Done::default()
        };
        (events, Ok(done))
    }

    fn line(&mut self, line: &[u8]) -> Option<ReportEvent> {
        if line.trim_ascii().is_empty() {
            return None;
        }
        self.lines += 1;
        let read = std::str::from_utf8(line)
            .map_err(|error| error.to_string())
            .and_then(|line| serde_json::from_str::<ReportLine<'_>>(line).map_err(|error| error.to_string()));
        let line = match read {
            Ok(line) => line,
            Err(error) => {
                self.fail(&error);
                return None;
            }
        };
        for (kept, given, what) in
            [(&mut self.result, line.result, "result"), (&mut self.artifact, line.artifact, "artifact")]
        {
            let Some(given) = given else { continue };
            match json::check(given.get(), &JsonLimits::default()) {
                Ok(()) => *kept = Some(given.get().to_owned()),
                Err(refused) => {
                    self.problem.get_or_insert(format!(
                        "report line {}: {what}{}: {}",
                        self.lines, refused.pointer, refused.problem
                    ));
                }
            }
        }
        if let Some(seconds) = line.snooze_seconds {
            match Duration::try_from_secs_f64(seconds) {
                Ok(delay) => self.snooze = Some(delay),
                Err(_) => self.fail("snooze_seconds must be a number of seconds from 0"),
            }
        }
        for next in line.next {
            match read_job(next.get()) {
                Ok(job) if self.next.len() < MAX_NEXT => self.next.push(job),
                Ok(_) => self.fail(&format!("has more than {MAX_NEXT} next jobs")),
                Err(error) => self.fail(&error),
            }
        }
        let progress = line.progress?;
        Some(match serde_json::from_str::<ProgressLine>(progress.get()) {
            Ok(progress) => ReportEvent::Progress { percent: progress.percent, message: progress.message },
            Err(error) => ReportEvent::Invalid(format!("report line {}: progress: {error}", self.lines)),
        })
    }

    fn fail(&mut self, problem: &str) {
        self.problem.get_or_insert(format!("report line {}: {problem}", self.lines));
    }
}

fn read_job(text: &str) -> Result<NewJob, String> {
    let job = NewJob::from_json(text).map_err(|error| format!("next: {error}"))?;
    job.check().and_then(|()| job.payload_text().map(drop)).map_err(|error| format!("next: {error}"))?;
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed_however_they_are_split() {
        let text = b"{\"progress\":{\"percent\":50,\"message\":\"half\"}}\n\n{\"result\":{\"n\":1},\"artifact\":\"s3://x\"}\n\
            {\"snooze_seconds\":1.5}\n{\"next\":[{\"definition_key\":\"b\",\"payload\":{}}]}";
        for size in 1..text.len() {
            let mut reports = Reports::default();
            let mut events: Vec<ReportEvent> =
                text.chunks(size).flat_map(|piece| reports.push(piece)).collect();
            let (rest, done) = reports.finish();
            events.extend(rest);
            assert_eq!(events, [ReportEvent::Progress { percent: 50.0, message: "half".to_owned() }]);
            let done = done.unwrap();
            assert_eq!(
                (done.result.as_deref(), done.artifact.as_deref()),
                (Some("{\"n\":1}"), Some("\"s3://x\""))
            );
            assert_eq!((done.snooze, done.next.len()), (Some(Duration::from_millis(1500)), 1));
        }
    }

    #[test]
    fn invalid_lines_are_always_reported() {
        for bad in [
            "nonsense",
            "{\"reslut\":1}",
            "{\"snooze_seconds\":-1}",
            "{\"next\":[{\"payload\":{}}]}",
            "{\"result\":\"\\u0000\"}",
            "\u{feff}{}",
        ] {
            let mut reports = Reports::default();
            reports.push(format!("{bad}\n").as_bytes());
            assert!(reports.finish().1.unwrap_err().starts_with("report line 1"), "{bad}");
        }
        let mut reports = Reports::default();
        let events = reports.push(b"{\"progress\":{\"percent\":\"much\"}}\n");
        assert!(matches!(&events[..], [ReportEvent::Invalid(_)]));
        assert!(reports.finish().1.is_ok());
    }
}
