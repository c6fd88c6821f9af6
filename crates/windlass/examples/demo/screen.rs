//! The live view: repaints the whole terminal from the figures, and gives the terminal back when dropped.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use rustix::termios::tcgetwinsize;
use windlass::{AttemptOutcome, Job, State, Transition};

use crate::LOG_FILE;
use crate::figures::{Figures, Row};

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";
const CYAN: &str = "\x1b[36m";

/// The columns of the table: heading, heading where there is little room, state.
const COLUMNS: [(&str, &str, State); 8] = [
    ("queued", "queue", State::Queued),
    ("running", "run", State::Running),
    ("scheduled", "sched", State::Scheduled),
    ("blocked", "block", State::Blocked),
    ("succeeded", "done", State::Succeeded),
    ("failed", "fail", State::Failed),
    ("dead", "dead", State::DeadLetter),
    ("canceled", "cancel", State::Canceled),
];
/// What the whole table needs; below it, the columns are narrower and the last one goes.
const WIDE: usize = 124;
/// Below this height only the tenants' totals are shown.
const TALL: usize = 30;

pub(crate) struct Screen {
    out: io::Stdout,
}

impl Screen {
    pub(crate) fn open() -> io::Result<Self> {
        let mut out = io::stdout();
        out.write_all(ENTER.as_bytes())?;
        out.flush()?;
        Ok(Self { out })
    }

    pub(crate) fn paint(&mut self, figures: &Figures) -> io::Result<()> {
        let (width, height) = self.size();
        let mut lines = head(figures, width);
        lines.extend(table(figures, width >= WIDE, height >= TALL));
        let left = height.saturating_sub(lines.len() + 2);
        lines.extend(running(figures, left / 2));
        let left = height.saturating_sub(lines.len() + 1);
        lines.extend(recent(figures, left));
        lines.truncate(height);

        // Home, then every line with its rest cleared, then whatever is below: no flicker and nothing stale.
        let mut frame = String::from("\x1b[H");
        for (position, line) in lines.iter().enumerate() {
            if position > 0 {
                frame.push_str("\r\n");
            }
            frame.push_str(&cut(line, width));
            frame.push_str("\x1b[0m\x1b[K");
        }
        frame.push_str("\x1b[J");
        self.out.write_all(frame.as_bytes())?;
        self.out.flush()
    }

    fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.out) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => (100, 30),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing can be done for a terminal that does not take this.
        let _ = self.out.write_all(LEAVE.as_bytes());
        let _ = self.out.flush();
    }
}

fn head(figures: &Figures, width: usize) -> Vec<String> {
    let up = figures.started.elapsed().as_secs();
    let (taken, slots) = figures.slots;
    let rates = figures.per_second();
    let bar = meter(taken as f32 / slots.max(1) as f32, 12);
    vec![
        format!(
            "{BOLD}{CYAN}windlass{PLAIN}{BOLD} demo{PLAIN}  {DIM}{:02}:{:02}  ctrl-C stops  {}  log in {LOG_FILE}{PLAIN}",
            up / 60,
            up % 60,
            figures.place
        ),
        String::new(),
        format!(
            "{BOLD}{:>6.0}{PLAIN} finished/s  {BOLD}{:>5.0}{PLAIN} enqueued/s  {BOLD}{:>4.0}{PLAIN} retried/s   slots {CYAN}{bar}{PLAIN} {taken:>2} of {slots}",
            rates.finished, rates.enqueued, rates.retried,
        ),
        format!("{CYAN}{}{PLAIN}", sparkline(&figures.rates, width.saturating_sub(2).min(100))),
        String::new(),
    ]
}

fn table(figures: &Figures, is_wide: bool, is_tall: bool) -> Vec<String> {
    let mut heading = format!("{DIM}{:<11} {:<16}", "tenant", if is_tall { "definition" } else { "" });
    for (long, short, _) in columns(is_wide) {
        let _ = if is_wide { write!(heading, "{long:>10}") } else { write!(heading, "{short:>7}") };
    }
    let _ = write!(heading, "{}{PLAIN}", if is_wide { "  median wait" } else { "" });
    let mut lines = vec![heading];
    let totals = figures.totals();
    for tenant in figures.tenants() {
        if let Some(total) = totals.get(&tenant.id) {
            let wait = figures.median_wait(tenant.id).filter(|_| is_wide).map(spoken).unwrap_or_default();
            let cells = cells(total, is_wide, BOLD);
            lines.push(format!("{BOLD}{:<11} {:<16}{cells}  {wait:>11}{PLAIN}", tenant.name, ""));
        }
        for row in figures.rows_of(tenant.id).filter(|_| is_tall) {
            lines.push(format!("{:<11} {:<16}{}", "", row.definition, cells(row, is_wide, "")));
        }
    }
    lines.push(String::new());
    lines
}

fn cells(row: &Row, is_wide: bool, style: &str) -> String {
    let width = if is_wide { 10 } else { 7 };
    columns(is_wide)
        .iter()
        .map(|(_, _, state)| match row.count(*state) {
            0 => format!("{DIM}{:>width$}{PLAIN}{style}", "·"),
            count => format!("{}{:>width$}{PLAIN}{style}", colour(*state), grouped(count)),
        })
        .collect()
}

fn columns(is_wide: bool) -> &'static [(&'static str, &'static str, State)] {
    if is_wide { &COLUMNS } else { &COLUMNS[..7] }
}

fn running(figures: &Figures, room: usize) -> Vec<String> {
    let mut lines = vec![format!("{DIM}running now{PLAIN}")];
    let most = room.saturating_sub(2).min(figures.running.len());
    lines.extend(figures.running[..most].iter().map(|job| running_line(figures, job)));
    lines.push(String::new());
    lines
}

fn running_line(figures: &Figures, job: &Job) -> String {
    let progress = job.progress_percent.map_or_else(String::new, |percent| {
        format!("{CYAN}{}{PLAIN} {percent:>3.0} %  ", meter(percent / 100.0, 20))
    });
    format!(
        "{:<11} {:<16} {DIM}{}{PLAIN}  attempt {}  {progress}{DIM}{}{PLAIN}",
        figures.tenant_name(job.tenant_id),
        job.definition_key,
        tail(job.id),
        job.attempt_count,
        job.progress_message.as_deref().unwrap_or_default()
    )
}

fn recent(figures: &Figures, room: usize) -> Vec<String> {
    let mut lines = vec![format!("{DIM}what happened, but for e-mails that went through{PLAIN}")];
    for (at, event) in figures.recent.iter().take(room) {
        lines.push(format!(
            "{DIM}{:>7.2} s{PLAIN}  {:<11} {:<16} {DIM}{}{PLAIN}  attempt {}  {}{:<11}{PLAIN} {DIM}{}{PLAIN}",
            at.as_secs_f64(),
            figures.tenant_name(event.tenant_id),
            event.definition_key,
            tail(event.job_id),
            event.attempt_no,
            colour(event.to),
            event.to.as_str(),
            why(event)
        ));
    }
    lines
}

fn why(event: &Transition) -> &'static str {
    match (event.outcome, event.to) {
        (Some(AttemptOutcome::Failed), State::Scheduled) => "failed, will be tried again",
        (Some(AttemptOutcome::Failed), State::DeadLetter) => "failed for the last time",
        (Some(AttemptOutcome::Failed), _) => "failed for good",
        (Some(AttemptOutcome::Snoozed), _) => "not ready yet, asks again later",
        (Some(AttemptOutcome::Timeout), _) => "ran past its time-out",
        (Some(AttemptOutcome::Lost), _) => "its worker fell silent",
        (Some(AttemptOutcome::Released), _) => "given back",
        (Some(AttemptOutcome::Succeeded | AttemptOutcome::Canceled) | None, _) => "",
    }
}

fn colour(state: State) -> &'static str {
    match state {
        State::Succeeded => "\x1b[32m",
        State::Failed | State::DeadLetter => "\x1b[31m",
        State::Scheduled => "\x1b[33m",
        State::Blocked => "\x1b[35m",
        State::Running => CYAN,
        State::Queued | State::Canceled => "",
    }
}

/// The last digits tell UUIDs of one moment apart; the first ones are its time.
fn tail(id: uuid::Uuid) -> String {
    let text = id.simple().to_string();
    format!("…{}", &text[text.len() - 6..])
}

fn meter(share: f32, width: usize) -> String {
    let full = ((share.clamp(0.0, 1.0) * width as f32).round() as usize).min(width);
    format!("{}{}", "█".repeat(full), "░".repeat(width - full))
}

fn sparkline(rates: &std::collections::VecDeque<f64>, width: usize) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = rates.iter().skip(rates.len().saturating_sub(width));
    let most = shown.clone().copied().fold(1.0, f64::max);
    shown.map(|rate| STEPS[((rate / most * 7.0).round() as usize).min(7)]).collect()
}

fn spoken(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

/// `12 345`, so that large counts can be read.
fn grouped(count: i64) -> String {
    let digits = count.abs().to_string();
    let mut text = if count < 0 { String::from("-") } else { String::new() };
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Cuts to the terminal's width without counting the escapes, which take no room.
fn cut(line: &str, width: usize) -> String {
    let (mut text, mut taken, mut in_escape) = (String::with_capacity(line.len()), 0, false);
    for letter in line.chars() {
        if in_escape {
            in_escape = letter != 'm';
        } else if letter == '\x1b' {
            in_escape = true;
        } else if taken == width {
            continue;
        } else {
            taken += 1;
        }
        text.push(letter);
    }
    text
}
