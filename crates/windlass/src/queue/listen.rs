//! One LISTEN connection per process, which wakes its tasks. It only reduces latency: polling finds everything too.
//!
//! It checks itself: after 15 s without a notification it sends one on its own channel, and reconnects if that does not
//! arrive.
//! After every reconnection it wakes all tasks, because notifications in between are lost.
//!
//! Every login can send notifications, so they are hints: none of them is trusted, and those that make this process read
//! more than a lane are damped (see [`super::damp`]).

use std::time::{Duration, Instant};

use tokio::sync::broadcast;
use tokio_postgres::Config;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::damp::Damper;
use crate::error::{Error, Result};
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
    LimitFreed(i32),
    /// A duty of the keeper has something to do.
    Duty(Duty),
    /// Check everything: a notification may have been missed.
    All,
}

/// The content of a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Signal {
    Wake(Wake),
    /// This worker should stop a run.
    Cancel,
}

/// How a worker is notified to stop a run. It is separate from the wake-ups, because a worker without a free slot does not wait
/// for those.
pub(crate) trait Cancels: Send + Sync {
    /// Returns whether this number is that of the worker.
    fn is_own(&self, worker: i32) -> bool;

    fn on_cancel(&self);
}

/// A process without runs.
impl Cancels for () {
    fn is_own(&self, _: i32) -> bool {
        false
    }

    fn on_cancel(&self) {}
}

/// Listens until stopped, reconnecting as often as necessary.
pub(crate) async fn listen(
    config: Config,
    wakes: broadcast::Sender<Wake>,
    cancels: impl Cancels,
    stop: CancellationToken,
) {
    let mut pause = Duration::from_millis(100);
    loop {
        let ended = tokio::select! {
            ended = listen_once(&config, &wakes, &cancels, &mut pause) => ended,
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
    cancels: &impl Cancels,
    pause: &mut Duration,
) -> Result<()> {
    let mut connection = connect::open(config).await?;
    let own = format!("windlass_{}", Uuid::new_v4().simple());
    let channels = format!("listen windlass; listen {own}");
    let listening = connection.client.batch_execute(&channels);
    tokio::time::timeout(ECHO_WITHIN, listening).await.map_err(|_| Error::unanswered())??;
    *pause = Duration::from_millis(100);
    // It is not an error if no task is subscribed: tasks poll, too.
    let _ = wakes.send(Wake::All);
    let mut damper = Damper::new();
    let pass_on = |signal| match signal {
        Signal::Cancel => cancels.on_cancel(),
        Signal::Wake(wake) => {
            let _ = wakes.send(wake);
        }
    };
    loop {
        let due = damper.next_due().map(Into::into);
        let received = tokio::select! {
            received = tokio::time::timeout(CHECK_EVERY, connection.notifications.recv()) => received,
            () = async { tokio::time::sleep_until(due.unwrap_or_else(tokio::time::Instant::now)).await }, if due.is_some() => {
                damper.due(Instant::now()).into_iter().for_each(pass_on);
                continue;
            }
        };
        match received {
            Ok(Some((_, payload))) => {
                let signal = read(&payload, cancels);
                if let Some(signal) = signal.filter(|it| !is_damped(it) || damper.admits(it, Instant::now()))
                {
                    pass_on(signal);
                }
            }
            Ok(None) => return Ok(()),
            Err(_) => {
                let echo = async {
                    // On a hanging connection not even this gets a response.
                    connection.client.batch_execute(&format!("notify {own}")).await?;
                    while let Some((channel, payload)) = connection.notifications.recv().await {
                        if channel == own {
                            return Ok(true);
                        }
                        read(&payload, cancels).into_iter().for_each(pass_on);
                    }
                    Ok::<_, Error>(false)
                };
                let echoed =
                    tokio::time::timeout(ECHO_WITHIN, echo).await.map_err(|_| Error::unanswered())??;
                if !echoed {
                    return Ok(());
                }
            }
        }
    }
}

/// The latency of jobs depends on notifications about a lane or a limit.
fn is_damped(signal: &Signal) -> bool {
    match signal {
        Signal::Wake(Wake::Lane(_) | Wake::LimitFreed(_)) => false,
        Signal::Wake(Wake::Duty(_) | Wake::All) | Signal::Cancel => true,
    }
}

/// Returns what a notification asks this process for.
fn read(payload: &str, cancels: &impl Cancels) -> Option<Signal> {
    if let Some(worker) = payload.strip_prefix("cancel ").and_then(|worker| worker.parse().ok()) {
        return cancels.is_own(worker).then_some(Signal::Cancel);
    }
    Some(Signal::Wake(match payload {
        "schedule" => Wake::Duty(Duty::Schedule),
        "events" => Wake::Duty(Duty::Dispatch),
        "unblock" => Wake::Duty(Duty::Unblock),
        other => match other.strip_prefix("limit ") {
            Some(limit) => limit.parse().map_or(Wake::All, Wake::LimitFreed),
            None => other.parse().map_or(Wake::All, Wake::Lane),
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Worker(i32);

    impl Cancels for Worker {
        fn is_own(&self, worker: i32) -> bool {
            worker == self.0
        }

        fn on_cancel(&self) {}
    }

    /// Otherwise a sender of many numbers could fill the damper, or displace the signals of others.
    #[test]
    fn a_cancel_of_another_worker_is_no_signal() {
        assert_eq!(read("cancel 7", &Worker(7)), Some(Signal::Cancel));
        assert!(
            (0..1000).filter(|worker| *worker != 7).all(|worker| read(
                &format!("cancel {worker}"),
                &Worker(7)
            )
            .is_none())
        );
        assert_eq!(read("cancel 7", &()), None);
    }

    #[test]
    fn a_damped_signal_has_no_number() {
        for payload in [
            "1",
            "limit 1",
            "schedule",
            "events",
            "unblock",
            "cancel 7",
            "cancel all",
            "",
            "limit",
            "99999999999",
        ] {
            let signal = read(payload, &Worker(7)).unwrap();
            assert_eq!(is_damped(&signal), !matches!(payload, "1" | "limit 1"), "{payload}");
        }
    }
}
