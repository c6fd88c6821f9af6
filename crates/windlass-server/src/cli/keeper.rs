//! `windlass keeper`.

use clap::Args;
use serde_json::json;
use windlass::{Duty, KeeperSettings, Queue};

use super::Global;
use super::exit::{Exit, Failure};
use super::print;
use super::process::{Beside, Signals};

/// Does the housekeeping of the queue until it is stopped.
///
/// Every worker does it too unless told not to; a process of its own is for installations whose workers only pull over HTTP. As many as
/// you like may run at once: each duty takes only what nobody else holds.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass keeper --database-url postgresql://app@db/app\n  windlass keeper --once reap"
)]
pub struct Keeper {
    /// Does one duty once, says what it did, and ends: promote, reap, expire, unblock, fold, prune, partition, …
    #[arg(long, value_name = "DUTY")]
    once: Option<String>,
}

impl Keeper {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let configuration = global.load(&[])?.configuration;
        crate::logs::start(&configuration.logs);
        let mut signals = Signals::new()?;
        let queue = Queue::connect_as(global.database(&configuration)?, &["windlass_keeper"]).await?;
        if let Some(name) = &self.once {
            return once(global, &queue, name).await;
        }
        let mut beside = Beside::start(&configuration, &queue).await?;
        beside.keep(&queue);
        print::note("keeping house; ctrl-C ends it");
        signals.next().await;
        beside.stop().await;
        Ok(Exit::Success)
    }
}

async fn once(global: &Global, queue: &Queue, name: &str) -> Result<Exit, Failure> {
    let Some(duty) = Duty::ALL.into_iter().find(|duty| duty.as_str() == name) else {
        let known: Vec<&str> = Duty::ALL.iter().map(|duty| duty.as_str()).collect();
        return Err(Failure::usage(format!("--once {name}: must be one of {}", known.join(", "))));
    };
    let round = windlass::Keeper::new(queue.clone(), KeeperSettings::default()).run_once(duty).await?;
    if global.json {
        print::json(&json!({"duty": name, "moved": round.moved, "is_full": round.is_full}))?;
    } else {
        print::line(format!(
            "{name}: moved {}{}",
            round.moved,
            if round.is_full { ", and there may be more" } else { "" }
        ))?;
    }
    Ok(Exit::Success)
}
