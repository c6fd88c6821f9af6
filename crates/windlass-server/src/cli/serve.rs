//! `windlass serve`.

use std::time::Duration;

use clap::Args;

use super::Global;
use super::exit::{Exit, Failure};
use super::print;
use super::process::{self, Background, Signals};

/// Serve the HTTP API and the web UI.
///
/// It needs a migrated database (or --migrate) and has no state of its own: several servers can run behind one address. It
/// runs no jobs: start `windlass worker`, or embed a worker in your application.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass serve --database-url postgresql://app@db/app --listen 0.0.0.0:8080\n  \
    windlass serve --config /etc/windlass.toml --with-keeper"
)]
pub(crate) struct Serve {
    /// The address to listen on, such as 0.0.0.0:8080; port 0 chooses a free port
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,

    /// Install or upgrade the database schema first
    #[arg(long)]
    migrate: bool,

    /// Run the keeper in this process too
    #[arg(long, alias = "keep")]
    with_keeper: bool,
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
        let listener = process::bind(&configuration).await?;
        let mut background = Background::start(&configuration, app.queue()).await?;
        if self.with_keeper {
            background.run_keeper(app.queue());
        }
        let running = process::serve(app, &configuration, listener)?;
        print::line(format!("ready: {}", process::address(&configuration, running.address())))?;
        signals.next().await;
        tracing::info!("stopping: waiting for requests to finish");
        tokio::select! {
            () = running.stop(Duration::from_secs(configuration.http.stop_seconds)) => {}
            () = signals.next() => return Ok(Exit::Interrupted),
        }
        background.stop().await;
        Ok(Exit::Success)
    }
}
