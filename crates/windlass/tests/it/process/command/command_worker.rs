//! A worker process that runs the commands of a file, for the tests to kill and freeze.
//!
//! Arguments: the database's URL, the file, the lease in milliseconds. How it stops: gracefully on the first SIGTERM, at once on
//! the second.

use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use windlass::keeper::KeeperSettings;
use windlass::worker::WorkerFile;
use windlass::{Queue, Settings, Worker};

fn main() -> Result<(), Box<dyn Error>> {
    windlass::worker::run_shim_if_requested();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(work())
}

async fn work() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let mut next = || arguments.next().ok_or("an argument is missing");
    let (url, file, lease_ms) = (next()?, next()?, next()?);
    let mut terminate = signal(SignalKind::terminate())?;
    let queue = Queue::connect(Settings::new(&url)?).await?;
    let file = WorkerFile::read(Path::new(&file))?;
    let lease = Duration::from_millis(lease_ms.parse()?);
    let keeper =
        KeeperSettings::default().reap(Duration::from_millis(200)).promote(Duration::from_millis(200));
    let worker = Worker::builder(&queue)
        .commands(file.commands)
        .concurrency(file.concurrency.unwrap_or(10))
        .lease(lease)
        .heartbeat(lease / 4)
        .poll_interval(Duration::from_millis(100))
        .grace(file.grace.unwrap_or(Duration::from_secs(10)))
        .keeper(keeper)
        .start()
        .await?;
    writeln!(io::stdout(), "{}", worker.id())?;
    io::stdout().flush()?;
    terminate.recv().await;
    tokio::select! {
        stopped = worker.stop() => stopped?,
        _ = terminate.recv() => {}
    }
    Ok(())
}
