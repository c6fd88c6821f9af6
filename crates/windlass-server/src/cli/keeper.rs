//! `windlass keeper`.

use clap::Args;
use serde_json::json;
use windlass::Queue;
use windlass::keeper::{Duty, KeeperSettings};

use super::Global;
use super::exit::{Exit, Failure};
use super::print;
use super::process::{Background, Signals};

/// Run the keeper: promote due jobs, recover lost ones, fire schedules, delete old data.
///
/// Every `windlass worker` runs the keeper too, unless started with --no-keeper; a separate keeper is needed if all workers pull
/// over HTTP. Several keepers can run at the same time: each duty skips what another one is working on.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass keeper --database-url postgresql://app@db/app\n  windlass keeper --once reap"
)]
pub(crate) struct Keeper {
    /// Run one duty once, report what it did, and exit; an unknown name lists the duties
    #[arg(long, value_name = "DUTY", value_parser = duty)]
    once: Option<Duty>,
}

impl Keeper {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, Failure> {
        let configuration = global.load(&[])?.configuration;
        crate::logs::start(&configuration.logs);
        let mut signals = Signals::new()?;
        let queue = Queue::connect_as(global.database(&configuration)?, &["windlass_keeper"]).await?;
        if let Some(duty) = self.once {
            return once(global, &queue, duty).await;
        }
        let mut background = Background::start(&configuration, &queue).await?;
        background.run_keeper(&queue);
        print::note("keeper running; press ctrl-C to stop");
        signals.next().await;
        background.stop().await;
        Ok(Exit::Success)
    }
}

fn duty(name: &str) -> Result<Duty, String> {
    Duty::ALL.into_iter().find(|duty| duty.as_str() == name).ok_or_else(|| {
        let known: Vec<&str> = Duty::ALL.iter().map(|duty| duty.as_str()).collect();
        format!("must be one of {}", known.join(", "))
    })
}

async fn once(global: &Global, queue: &Queue, duty: Duty) -> Result<Exit, Failure> {
    let name = duty.as_str();
    let round =
        windlass::keeper::Keeper::new(queue.clone(), KeeperSettings::default()).run_once(duty).await?;
    if global.json {
        print::json(&json!({"duty": name, "moved": round.moved, "is_full": round.is_full}))?;
    } else {
        print::line(format!(
            "{name}: {} changed{}",
            round.moved,
            if round.is_full { ", and there may be more" } else { "" }
        ))?;
    }
    Ok(Exit::Success)
}
