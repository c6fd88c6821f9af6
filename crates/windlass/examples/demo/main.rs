//! A queue at work: a Postgres of its own, two tenants, a worker, a producer, and a live view of their jobs.
//!
//! How it stops: on ctrl-C, SIGTERM or after `--seconds`, the producer ends first, then the worker lets its runs finish,
//! then a summary says what was done and what is left for the next time. A second ctrl-C skips the waiting.

mod figures;
mod jobs;
mod lines;
mod options;
mod producer;
mod screen;

use std::error::Error;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;
use windlass::embedded::{self, Postgres};
use windlass::{Queue, Settings, Worker};

use figures::{Figures, Tenant};
use options::{Choice, Options};
use screen::Screen;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

const DATA_DIR: &str = ".dev/postgres";
const LOG_FILE: &str = ".dev/demo.log";
const REPAINT: Duration = Duration::from_millis(250);
const SLOTS: usize = 24;

#[tokio::main]
async fn main() -> Result {
    let options = match options::read(std::env::args().skip(1)) {
        Ok(Choice::Run(options)) => options,
        Ok(Choice::Help) => return Ok(io::stdout().write_all(options::HELP.as_bytes())?),
        Err(mistake) => {
            writeln!(io::stderr(), "demo: {mistake}; see --help")?;
            std::process::exit(2);
        }
    };
    let is_live = io::stdout().is_terminal() && !options.plain;
    log(is_live)?;
    let mut signals = Signals::new()?;

    let (url, postgres) = database().await?;
    let settings = Settings::new(&url)?;
    windlass::migrate(&settings).await?;
    let queue = Queue::connect(settings).await?;
    let tenants = vec![
        Tenant { id: queue.ensure_tenant("acme", "Acme", 1).await?, name: "acme" },
        Tenant { id: queue.ensure_tenant("corner-shop", "Corner Shop", 1).await?, name: "corner-shop" },
    ];

    let waits = jobs::Waits::default();
    let worker = Worker::builder(&queue)
        .handler(jobs::SendEmail { waits: waits.clone() })
        .handler(jobs::ChargeCard)
        .handler(jobs::AwaitTranscript)
        .handler(jobs::RenderVideo)
        .handler(jobs::PublishPost)
        .concurrency(SLOTS)
        .grace(Duration::from_secs(8))
        .start()
        .await?;
    let stop_producing = CancellationToken::new();
    let producer = tokio::spawn(producer::run(queue.clone(), tenants.clone(), stop_producing.clone()));

    let mut figures = Figures::new(queue.clone(), tenants, waits, place(postgres.as_ref()));
    let shown = show(&mut figures, &worker, &options, is_live, &mut signals).await;

    stop_producing.cancel();
    producer.await?;
    writeln!(
        io::stdout(),
        "stopping: letting running jobs finish (ctrl-C again to leave them to the reaper)"
    )?;
    tokio::select! {
        stopped = worker.stop() => stopped?,
        () = signals.next() => {}
    }
    figures.read_counts().await?;
    lines::summary(&figures, &mut io::stdout())?;
    if let Some(postgres) = postgres {
        postgres.stop().await?;
    }
    shown
}

/// Shows the figures until it is time to stop.
async fn show(
    figures: &mut Figures,
    worker: &Worker,
    options: &Options,
    is_live: bool,
    signals: &mut Signals,
) -> Result {
    let mut events = worker.subscribe();
    let ends = options.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut screen = is_live.then(Screen::open).transpose()?;
    let mut repaint = tokio::time::interval(if is_live { REPAINT } else { Duration::from_secs(1) });
    loop {
        tokio::select! {
            () = signals.next() => return Ok(()),
            // A view that lags misses some moves; the counts come from the database and miss nothing.
            Ok(event) = events.recv() => figures.hear(event),
            _ = repaint.tick() => {
                figures.read(worker.running(), SLOTS).await?;
                match &mut screen {
                    Some(screen) => screen.paint(figures)?,
                    None => lines::tick(figures, &mut io::stdout())?,
                }
                if ends.is_some_and(|ends| Instant::now() >= ends) {
                    return Ok(());
                }
            }
        }
    }
}

/// The database of `DATABASE_URL`, or a server of our own beside the source.
async fn database() -> Result<(String, Option<Postgres>)> {
    if let Ok(url) = std::env::var("DATABASE_URL") {
        return Ok((url, None));
    }
    let postgres = Postgres::start(&embedded::Options::new(std::env::current_dir()?.join(DATA_DIR))?).await?;
    Ok((postgres.url(), Some(postgres)))
}

/// Where the database is, in words that hold no password.
fn place(postgres: Option<&Postgres>) -> String {
    postgres.map_or_else(
        || "the Postgres of DATABASE_URL".to_owned(),
        |postgres| format!("Postgres {} in {DATA_DIR}", postgres.major_version()),
    )
}

/// Beside a live view the log goes to a file: lines on the terminal would garble it.
fn log(is_live: bool) -> Result {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("windlass=warn"));
    let log = tracing_subscriber::fmt().with_env_filter(filter);
    if is_live {
        std::fs::create_dir_all(".dev")?;
        log.with_ansi(false).with_writer(File::create(LOG_FILE)?).init();
    } else {
        log.with_writer(io::stderr).init();
    }
    Ok(())
}

/// Ctrl-C and SIGTERM mean the same here.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
