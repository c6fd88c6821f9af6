//! Postgres itself: restarted, killed, killed while it writes a checkpoint, or without space. It is started again by its slot.

use std::fs::{self, File};
use std::io::Write;
use std::time::Duration;

use rustix::process::Signal;

use crate::Result;
use crate::soak::installation::Installation;
use crate::soak::installation::slot::send;

/// A fast shutdown: sessions end, and everything is written.
pub(super) async fn restart(installation: &Installation) -> Result<String> {
    if !installation.postgres.signal(Signal::INT) {
        return Err("Postgres is not running".into());
    }
    back(installation).await?;
    Ok(String::new())
}

pub(super) async fn kill(installation: &Installation) -> Result<String> {
    let killed = kill_all(installation)?;
    back(installation).await?;
    Ok(format!("{killed} processes"))
}

pub(super) async fn crash_in_checkpoint(installation: &Installation, after: Duration) -> Result<String> {
    let client = installation.cluster.client().await?;
    let checkpoint = tokio::spawn(async move { client.batch_execute("checkpoint").await });
    tokio::time::sleep(after).await;
    let was_writing = !checkpoint.is_finished();
    kill_all(installation)?;
    // It fails with the connection.
    let _ = checkpoint.await;
    back(installation).await?;
    Ok(format!(
        "after {after:?}, {}",
        if was_writing { "while it was written" } else { "when it was complete" }
    ))
}

/// A backend that dies by SIGKILL makes the postmaster end all others and recover.
pub(super) async fn kill_backend(installation: &Installation) -> Result<String> {
    let client = installation.cluster.client().await?;
    let query =
        "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()
      order by state = 'active' desc, random() limit 1";
    let pid: i32 = client.query_opt(query, &[]).await?.ok_or("there are no sessions")?.get(0);
    if !send(pid.unsigned_abs(), Signal::KILL) {
        return Err("the session has ended".into());
    }
    back(installation).await?;
    Ok(format!("process {pid}"))
}

/// The postmaster first, so that it cannot clean up, then its children.
fn kill_all(installation: &Installation) -> Result<usize> {
    let postmaster = installation.postgres.pid().ok_or("Postgres is not running")?;
    let children = fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children"))?;
    let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    Ok(std::iter::once(postmaster).chain(children).filter(|pid| send(*pid, Signal::KILL)).count())
}

async fn back(installation: &Installation) -> Result<()> {
    // The old process may still accept connections for a moment.
    tokio::time::sleep(Duration::from_millis(500)).await;
    installation.cluster.ready().await.map(drop)
}

/// A file fills the file system of the data until no byte is left; it is removed after some time.
pub(super) async fn fill_disk(installation: &Installation, lasts: Duration) -> Result<String> {
    if !installation.cluster.is_mounted {
        return Err("a full disk needs a file system of its own, which only root can mount".into());
    }
    let ballast = installation.cluster.data.join("ballast");
    let written = fill(&ballast);
    tokio::time::sleep(lasts).await;
    fs::remove_file(&ballast)?;
    let bytes = written?;
    installation.cluster.ready().await?;
    Ok(format!("{} MB for {lasts:?}", bytes >> 20))
}

/// Until the error is that of a full disk.
fn fill(path: &std::path::Path) -> Result<u64> {
    let mut file = File::create(path)?;
    let (mut block, mut bytes) = (vec![1; 1 << 20], 0);
    loop {
        match file.write(&block) {
            Ok(written) => bytes += written as u64,
            // The last bytes one by one would take long; a page is all that Postgres asks for.
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull && block.len() > 4096 => {
                block.truncate(4096);
            }
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Ok(bytes),
            Err(error) => return Err(error.into()),
        }
    }
}
