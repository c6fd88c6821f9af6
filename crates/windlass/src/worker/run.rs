//! Runs claimed jobs: from what was claimed to how it went. Nothing a handler does, panics included, keeps a job from
//! getting an answer.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use super::context::Context;
use super::handler::AnyHandler;
use super::running::{Stop, Switch};
use crate::attempt::finish::Finish;
use crate::model::job::settle::{Outcome, Retry};

/// How long a canceled run may take to tidy up before it is dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// Runs the jobs in one call of their handler; answers one finish per job.
pub(crate) async fn run(handler: &dyn AnyHandler, jobs: Vec<Context>, switches: &[Switch]) -> Vec<Finish> {
    let count = jobs.len();
    let deadline = jobs.iter().map(|job| job.deadline).min().unwrap_or_else(Instant::now);
    // The call itself is inside: a handler may panic before it returns its future.
    let call = AssertUnwindSafe(async move { handler.run(jobs).await }).catch_unwind();
    let cut_off = !handler.ends_by_itself();
    tokio::select! {
        biased;
        finishes = call => match finishes {
            Ok(finishes) => finishes.into_iter().zip(switches).map(|(finish, switch)| acknowledge(finish, switch)).collect(),
            Err(panic) => {
                let error = format!("the handler panicked: {}", words(&*panic));
                discard(panic);
                all(count, || Finish::failed(Retry::ByPolicy, error.as_str()))
            }
        },
        () = tokio::time::sleep_until(deadline.into()), if cut_off => all(count, || Finish::of(Outcome::TimedOut, "the attempt ran past its time-out")),
        why = stopped(switches), if cut_off => all(count, || match why {
            Stop::Canceled => Finish::of(Outcome::Canceled, "canceled"),
            Stop::LeaseLost => Finish::of(Outcome::Released, "the worker lost its lease"),
            Stop::Shutdown => Finish::of(Outcome::Released, "the worker shut down"),
        }),
    }
}

/// A handler that failed because it was told to stop did not fail: it obeyed.
fn acknowledge(finish: Finish, switch: &Switch) -> Finish {
    match (finish.outcome, switch.reason()) {
        (Outcome::Failed { .. }, Some(Stop::Canceled)) => Finish { outcome: Outcome::Canceled, ..finish },
        (Outcome::Failed { .. }, Some(Stop::Shutdown | Stop::LeaseLost)) => {
            Finish { outcome: Outcome::Released, ..finish }
        }
        _ => finish,
    }
}

/// Resolves when every job of the call must end now: at once if the lease is gone or the worker goes, after a grace if
/// they were canceled, so that the handler can notice by itself.
async fn stopped(switches: &[Switch]) -> Stop {
    let mut why = Stop::Shutdown;
    for switch in switches {
        why = switch.stopped().await;
    }
    if why == Stop::Canceled {
        tokio::time::sleep(CANCEL_GRACE).await;
    }
    why
}

fn all(count: usize, finish: impl Fn() -> Finish) -> Vec<Finish> {
    (0..count).map(|_| finish()).collect()
}

/// What was thrown may itself panic when it is dropped; if so, that is enough.
pub(crate) fn discard(panic: Box<dyn std::any::Any + Send>) {
    if let Err(another) = std::panic::catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(another);
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
