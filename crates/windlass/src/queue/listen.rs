//! One LISTEN connection per process, which wakes its tasks. It only reduces latency: polling finds everything too.
//!
//! It checks itself: every 15 s it sends a notification on its own channel, and reconnects if that does not arrive.
//! After every reconnection it wakes all tasks, because notifications in between are lost.

use std::time::Duration;

use tokio::sync::broadcast;
use tokio_postgres::Config;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::error::Result;
use crate::model::duty::Duty;
use crate::store::connect;
use crate::telemetry;

const CHECK_EVERY: Duration = Duration::from_secs(15);
const ECHO_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wake {
    /// A lane has queued jobs.
    Lane(i32),
    /// A running limit is no longer reached.
    Room(i32),
    /// A duty of the keeper has something to do.
    Duty(Duty),
    /// Check everything: a notification may have been missed.
    All,
}

/// Listens until stopped, reconnecting as often as necessary. `on_cancel` is called with the number of a worker that
/// should stop a run; it is separate from the wake-ups, because a worker without a free slot does not wait for those.
pub(crate) async fn listen(
    config: Config,
    wakes: broadcast::Sender<Wake>,
    on_cancel: impl Fn(i32) + Send + Sync,
    stop: CancellationToken,
) {
    let mut pause = Duration::from_millis(100);
    loop {
        let ended = tokio::select! {
            ended = listen_once(&config, &wakes, &on_cancel, &mut pause) => ended,
            () = stop.cancelled() => return,
        };
        if let Err(error) = ended {
            telemetry::database_error("listener", &error);
        }
        tokio::select! {
            () = tokio::time::sleep(pause.mul_f64(0.5 + rand::random::<f64>())) => {}
            () = stop.cancelled() => return,
        }
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}

/// Listens on one connection, until an error or a missing echo.
async fn listen_once(
    config: &Config,
    wakes: &broadcast::Sender<Wake>,
    on_cancel: &(impl Fn(i32) + Send + Sync),
    pause: &mut Duration,
) -> Result<()> {
    let mut connection = connect::open(config).await?;
    let own = format!("windlass_{}", Uuid::new_v4().simple());
    connection.client.batch_execute(&format!("listen windlass; listen {own}")).await?;
    *pause = Duration::from_millis(100);
    // It is not an error if no task is subscribed: tasks poll, too.
    let _ = wakes.send(Wake::All);
    loop {
        match tokio::time::timeout(CHECK_EVERY, connection.notifications.recv()).await {
            Ok(Some((_, payload))) => wake(wakes, on_cancel, &payload),
            Ok(None) => return Ok(()),
            Err(_) => {
                connection.client.batch_execute(&format!("notify {own}")).await?;
                let echo = async {
                    while let Some((channel, payload)) = connection.notifications.recv().await {
                        if channel == own {
                            return true;
                        }
                        wake(wakes, on_cancel, &payload);
                    }
                    false
                };
                if !matches!(tokio::time::timeout(ECHO_WITHIN, echo).await, Ok(true)) {
                    return Ok(());
                }
            }
        }
    }
}

fn wake(wakes: &broadcast::Sender<Wake>, on_cancel: &impl Fn(i32), payload: &str) {
    if let Some(worker) = payload.strip_prefix("cancel ").and_then(|worker| worker.parse().ok()) {
        on_cancel(worker);
        return;
    }
    let wake = match payload {
        "schedule" => Wake::Duty(Duty::Schedule),
        "events" => Wake::Duty(Duty::Dispatch),
        "unblock" => Wake::Duty(Duty::Unblock),
        other => match other.strip_prefix("room ") {
            Some(room) => room.parse().map_or(Wake::All, Wake::Room),
            None => other.parse().map_or(Wake::All, Wake::Lane),
        },
    };
    let _ = wakes.send(wake);
}
