//! Runs claimed jobs. Nothing that a handler does, panics included, prevents a job from getting a result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use super::Shared;
use super::context::Context;
use super::handled::DefinitionSnapshot;
use super::handler::AnyHandler;
use super::running::{Slot, Stop, Switch};
use super::settler::UnsettledAttempt;
use crate::attempt::run_result::{RunResult, TIMED_OUT};
use crate::attempt::secrets::{self, JobRedactor};
use crate::model::job::claimed::Claimed;
use crate::model::job::settle::{Outcome, Retry};

/// How long a canceled run may take to clean up before it is dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// The jobs of one call, and how they ended so far. It outlives a panic of the run: a job that was handed over has no slot
/// now, and must not be ended again.
pub(super) struct JobCall {
    pub(super) jobs: Vec<Arc<Claimed>>,
    pub(super) places: Vec<(Slot, Switch)>,
    /// How long they waited for their turn.
    pub(super) waited: Duration,
    /// The ends that are to be written.
    pub(super) ended: Vec<UnsettledAttempt>,
    /// How many of the jobs, from the first, have ended or were handed over.
    pub(super) done: usize,
}

/// Runs claimed jobs and decides how they end: validates the payload, runs, decides. Futures that few jobs need are
/// boxed, because a future is as large as the largest one that it may await, and this one is moved for every job: at
/// 4.7 kB that took a quarter of the worker's time with jobs that do nothing.
pub(super) async fn run_all(
    shared: &Shared,
    snapshot: &DefinitionSnapshot,
    JobCall { jobs, places, waited, ended, done }: &mut JobCall,
) {
    let started = Instant::now();
    let mut results: Vec<Option<RunResult>> = jobs.iter().map(|job| snapshot.compiled.refusal(job)).collect();
    let (good, good_switches): (Vec<Context>, Vec<Switch>) = jobs
        .iter()
        .zip(&*places)
        .zip(&results)
        .filter(|(_, refusal)| refusal.is_none())
        .map(|((job, (_, switch)), _)| {
            let context = Context {
                claimed: job.clone(),
                policies: snapshot.compiled.policies.clone(),
                switch: switch.clone(),
                started,
                deadline: started + snapshot.compiled.allowed_time(job, *waited),
                progress: shared.progress.clone(),
                logs: shared.logs.clone(),
                redactor: JobRedactor::new(shared.redactor.clone(), snapshot.compiled.rules.clone()),
                lease: shared.lease.clone(),
            };
            (context, switch.clone())
        })
        .unzip();
    for context in good.iter().filter(|context| secrets::is_long(&context.claimed)) {
        Box::pin(context.redactor.prepare(&context.claimed)).await;
    }
    if !good.is_empty() {
        let ran = call(&*snapshot.handler, good, &good_switches).await;
        results
            .iter_mut()
            .filter(|result| result.is_none())
            .zip(ran)
            .for_each(|(place, result)| *place = Some(result));
        for job in &*jobs {
            shared.logs.finish(&job.fence, false).await;
        }
    }
    let ran = started.elapsed();
    ended.reserve_exact(jobs.len());
    for ((claimed, &(slot, _)), result) in jobs.iter().cloned().zip(&*places).zip(results) {
        let mut result =
            result.unwrap_or_else(|| RunResult::failed(Retry::ByPolicy, "the handler returned no result"));
        if result.done.hand_over.is_some() {
            Box::pin(shared.progress.flush(&claimed.fence)).await;
        }
        if let Some(lease) = result.done.hand_over {
            match Box::pin(shared.hand_over.give(&claimed, lease)).await {
                Ok(()) => {
                    *done += 1;
                    shared.running.finish([slot].into_iter());
                    continue;
                }
                Err(error) => {
                    let error = format!("the attempt could not be handed over: {error}");
                    result = RunResult::failed(Retry::ByPolicy, error);
                }
            }
        }
        if result.has_texts() {
            let rules = &snapshot.compiled.rules;
            result = Box::pin(secrets::clean(result, rules, &shared.redactor, &claimed)).await;
        }
        result.progress = shared.progress.take(&claimed.fence).await;
        ended.push(snapshot.end(claimed, slot, result, ran));
        *done += 1;
    }
}

/// Runs the jobs in one call of their handler; returns one result per job.
pub(super) async fn call(
    handler: &dyn AnyHandler,
    jobs: Vec<Context>,
    switches: &[Switch],
) -> Vec<RunResult> {
    let count = jobs.len();
    let deadline = jobs.iter().map(|job| job.deadline).min().unwrap_or_else(Instant::now);
    // The call itself is inside: a handler may panic before it returns its future.
    let call = AssertUnwindSafe(async move { handler.run(jobs).await }).catch_unwind();
    let cut_off = !handler.ends_by_itself();
    tokio::select! {
        biased;
        results = call => match results {
            Ok(results) => results.into_iter().zip(switches).map(|(result, switch)| acknowledge(result, switch)).collect(),
            Err(panic) => {
                let error = format!("the handler panicked: {}", words(&*panic));
                discard(panic);
                all(count, || RunResult::failed(Retry::ByPolicy, error.as_str()))
            }
        },
        () = tokio::time::sleep_until(deadline.into()), if cut_off => {
            all(count, || RunResult::of(Outcome::TimedOut, TIMED_OUT))
        }
        () = stopped(switches), if cut_off => {
            // Each job has its own reason: only those that were canceled end canceled.
            switches.iter().map(|switch| RunResult::stopped(switch.reason().unwrap_or(Stop::Shutdown))).collect()
        }
    }
}

impl RunResult {
    /// Returns the result of a run that was stopped for this reason.
    pub(super) fn stopped(why: Stop) -> Self {
        match why {
            Stop::Canceled => Self::of(Outcome::Canceled, "canceled"),
            Stop::LeaseLost => Self::of(Outcome::Released, "the worker lost its lease"),
            Stop::Shutdown => Self::of(Outcome::Released, "the worker shut down"),
        }
    }
}

/// A handler that returned an error because it was requested to stop did not fail.
fn acknowledge(result: RunResult, switch: &Switch) -> RunResult {
    match (result.outcome, switch.reason()) {
        (Outcome::Failed { .. }, Some(Stop::Canceled)) => RunResult { outcome: Outcome::Canceled, ..result },
        (Outcome::Failed { .. }, Some(Stop::Shutdown | Stop::LeaseLost)) => {
            RunResult { outcome: Outcome::Released, ..result }
        }
        _ => result,
    }
}

/// Returns when every job of the call must end now: immediately if the lease was lost or the worker shuts down, after a
/// grace time if all of them were canceled, so that the handler can react by itself.
async fn stopped(switches: &[Switch]) {
    let mut all_canceled = true;
    for switch in switches {
        all_canceled &= switch.stopped().await == Stop::Canceled;
    }
    if all_canceled {
        tokio::time::sleep(CANCEL_GRACE).await;
    }
}

fn all(count: usize, result: impl Fn() -> RunResult) -> Vec<RunResult> {
    (0..count).map(|_| result()).collect()
}

/// The panic payload may itself panic when it is dropped; that second payload is forgotten.
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
