//! `windlass serve`.

use std::time::Duration;

use clap::Args;

use super::Global;
use super::exit::{Exit, Failure};
use super::print;
use super::process::{self, Beside, Signals};

/// Serves the API and the pages until it is stopped.
///
/// It needs a migrated database and keeps nothing itself: run as many as you like behind one address. Jobs are run by
/// `windlass worker`, or by applications that embed a worker.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass serve --database-url postgresql://app@db/app --listen 0.0.0.0:8080\n  \
    windlass serve --config /etc/windlass.toml --migrate --keep"
)]
pub struct Serve {
    /// Where to serve, such as 0.0.0.0:8080; port 0 takes a free one
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,

    /// Migrates the database first
    #[arg(long)]
    migrate: bool,

    /// Does the keeper's housekeeping in this process, too
    #[arg(long)]
    keep: bool,
}

impl Serve {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let configuration = global.load(&[("http.listen", "--listen", self.listen.clone())])?.configuration;
        crate::logs::start(&configuration.logs);
        let mut signals = Signals::new()?;
        let settings = global.database(&configuration)?;
        if self.migrate {
            windlass::migrate(&settings).await?;
        }
        let app = process::app(&configuration, settings).await?;
        let mut beside = Beside::start(&configuration, app.queue()).await?;
        if self.keep {
            beside.keep(app.queue());
        }
        let running = process::serve(app, &configuration).await?;
        print::line(format!("ready: {}", process::address(&configuration, running.address())))?;
        signals.next().await;
        tracing::info!("stopping: letting requests finish");
        tokio::select! {
            () = running.stop(Duration::from_secs(configuration.http.stop_seconds)) => {}
            () = signals.next() => return Ok(Exit::Interrupted),
        }
        beside.stop().await;
        Ok(Exit::Success)
    }
}
