//! `windlass top`.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::Global;
use super::client::{Client, list_of};
use super::exit::{Exit, Failure};
use super::number::number;
use super::print::{self, Show, at};
use super::process::Signals;
use super::summary;

/// Show queues, running jobs and workers, live.
///
/// Refreshes the screen until ctrl-C is pressed. Running jobs are shown if a tenant is given.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass top\n  windlass top --tenant acme --every 5")]
pub(crate) struct Top {
    /// The refresh interval in seconds, from 1 to 3600
    #[arg(long, default_value_t = 2, value_name = "SECONDS", value_parser = number::<1, 3600>)]
    every: u64,

    /// Print once and exit
    #[arg(long)]
    once: bool,
}

/// The alternate screen of the terminal; leaving it restores the previous content.
struct Screen;

impl Screen {
    fn open() -> io::Result<Self> {
        io::stdout().write_all(b"\x1b[?1049h\x1b[?25l")?;
        Ok(Self)
    }

    fn clear(&self) -> io::Result<()> {
        io::stdout().write_all(b"\x1b[H\x1b[2J")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The program is ending; a failure cannot be reported.
        let _ = io::stdout().write_all(b"\x1b[?25h\x1b[?1049l");
        let _ = io::stdout().flush();
    }
}

impl Top {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let client = global.client().await?;
        let is_for_all = global.tenant.is_none();
        if self.once || global.json || !io::stdout().is_terminal() {
            let snapshot = fetch(&client, is_for_all).await?;
            if global.json {
                print::json(&snapshot)?;
            } else {
                draw(&snapshot)?;
            }
            return Ok(Exit::Success);
        }
        let mut signals = Signals::new()?;
        let screen = Screen::open()?;
        loop {
            let snapshot = fetch(&client, is_for_all).await?;
            screen.clear()?;
            draw(&snapshot)?;
            tokio::select! {
                () = signals.next() => return Ok(Exit::Success),
                () = tokio::time::sleep(Duration::from_secs(self.every)) => {}
            }
        }
    }
}

async fn fetch(client: &Client, is_for_all: bool) -> Result<Value, Failure> {
    let summary = client.get(summary::path(is_for_all), &[]).await?;
    // A credential of a tenant sees its jobs and no workers; a super-admin without --tenant sees everything except jobs.
    let running = match is_for_all {
        true => Vec::new(),
        false => list_of(
            &client.get("/api/v1/jobs", &[("status", "running".into()), ("limit", "20".into())]).await?,
        ),
    };
    let workers =
        client.get("/api/v1/admin/workers", &[]).await.map(|page| list_of(&page)).unwrap_or_default();
    let alive: Vec<Value> = workers.into_iter().filter(|worker| at(worker, "stopped_at").is_null()).collect();
    Ok(json!({"summary": summary, "running": running, "workers": alive}))
}

fn draw(snapshot: &Value) -> Result<(), Failure> {
    summary::show(at(snapshot, "summary"))?;
    let rows = |key: &str| at(snapshot, key).as_array().cloned().unwrap_or_default();
    if !rows("running").is_empty() {
        print::line("")?;
        let columns = [
            ("RUNNING", Show::Plain("id")),
            ("DEFINITION", Show::Cut("definition_key", 60)),
            ("SINCE", Show::Age("last_started_at")),
            (
                "PROGRESS",
                Show::With(|job| {
                    at(job, "progress_percent")
                        .as_f64()
                        .map(|done| format!("{done:.0} %"))
                        .unwrap_or_default()
                }),
            ),
            ("MESSAGE", Show::Cut("progress_message", 40)),
        ];
        print::table(&rows("running"), &columns, "")?;
    }
    if !rows("workers").is_empty() {
        print::line("")?;
        super::workers::show(&rows("workers"))?;
    }
    Ok(())
}
