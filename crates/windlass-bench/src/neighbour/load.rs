//! The loading tenant as a process of its own, with the lowest priority.
//!
//! The callers of a real installation run on other machines. Here they get only the processor time that the server, Postgres and the
//! measured tenant leave, so that the figures show what the load does to windlass and not what its generator does to the machine. A
//! thread with a low priority is not enough: Linux divides the processors among sessions first (`autogroup`), and each backend of
//! Postgres is a session. So a measured tenant that shared its session with the load would share its small part of the machine too.

use std::collections::BTreeMap;
use std::process::Stdio;

use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::worst::{Answers, Caller};
use crate::Result;

/// The first argument of the process; it is not meant for people.
pub(crate) const COMMAND: &str = "neighbour-load";

/// What the process needs to know: the first line of its standard input. The end of that input stops it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) callers: usize,
    pub(super) address: String,
    pub(super) token: String,
}

pub(super) struct Load {
    child: Child,
    input: ChildStdin,
}

impl Load {
    pub(super) async fn start(orders: &Orders) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut input = child.stdin.take().ok_or("the load has no input")?;
        input.write_all(format!("{}\n", serde_json::to_string(orders)?).as_bytes()).await?;
        Ok(Self { child, input })
    }

    /// Waits for the callers to stop and returns the counts.
    pub(super) async fn end(self) -> Result<BTreeMap<String, u64>> {
        drop(self.input);
        let output = self.child.wait_with_output().await?;
        if !output.status.success() {
            return Err(format!("the load failed: {}", output.status).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// The process itself.
pub(crate) async fn run() -> Result<()> {
    yield_the_processor();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let orders: Orders = serde_json::from_str(&line)?;
    let stop = CancellationToken::new();
    let mut callers: JoinSet<Result<Answers>> = JoinSet::new();
    for number in 0..orders.callers {
        callers.spawn(Caller::new(number, &orders).run(stop.clone()));
    }
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
    stop.cancel();
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    while let Some(ended) = callers.join_next().await {
        for ((kind, status), count) in ended?? {
            *all.entry(format!("{kind} {status}")).or_insert(0) += count;
        }
    }
    println!("{}", serde_json::to_string(&all)?);
    Ok(())
}

/// If something is refused, the figures are worse, never better.
fn yield_the_processor() {
    let _ = rustix::process::setsid();
    let _ = std::fs::write("/proc/self/autogroup", "19");
    let _ = rustix::process::setpriority_process(None, 19);
}
