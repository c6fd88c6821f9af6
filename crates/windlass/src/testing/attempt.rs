//! One attempt without a database: the input of the handler, and its outcome.

use std::time::Duration;

use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::model::job::claimed::{Claimed, Extra, Fence};
use crate::model::job::settle::{Budget, Next};
use crate::model::job::state::{AttemptOutcome, State};
use crate::model::new_job::{JobArgs, NewJob};
use crate::model::tenant::DEFAULT_TENANT;
use crate::worker::handler::Handler;
use crate::worker::trial::{Tried, run_once};

/// Runs a handler on a payload, as the first attempt of a new job. See [`TestAttempt`] for other attempts.
///
/// A handler that calls [`Context::complete_in`](crate::Context::complete_in) needs a database: run it with
/// [`TestDatabase::drain`](super::TestDatabase::drain).
///
/// # Panics
///
/// If the handler's definition is invalid.
///
/// ```
/// # use windlass::{Context, Done, Failure, Handler, JobArgs};
/// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct Resize { width: u32 }
/// # impl JobArgs for Resize { const KEY: &'static str = "resize"; }
/// # struct Resizer;
/// # impl Handler for Resizer {
/// #     type Args = Resize;
/// #     async fn run(&self, job: &Context, args: Resize) -> Result<Done, Failure> {
/// #         job.progress(50.0, "decoded");
/// #         job.log(&format!("width {}", args.width));
/// #         if job.is_stopped() || args.width == 0 { return Err(Failure::retry("no width")); }
/// #         Ok(Done::new().result(&args.width).then(Resize { width: args.width / 2 }))
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let ran = windlass::testing::run(&Resizer, Resize { width: 640 }).await;
/// assert_eq!(ran.state(), windlass::job::State::Succeeded);
/// # }
/// ```
pub async fn run<H: Handler>(handler: &H, args: H::Args) -> AttemptResult {
    TestAttempt::new(args).run(handler).await
}

/// One attempt of a job, to be run without a database.
///
/// ```
/// # use windlass::{Context, Done, Failure, Handler, JobArgs};
/// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct Resize { width: u32 }
/// # impl JobArgs for Resize { const KEY: &'static str = "resize"; }
/// # struct Resizer;
/// # impl Handler for Resizer {
/// #     type Args = Resize;
/// #     async fn run(&self, job: &Context, args: Resize) -> Result<Done, Failure> {
/// #         job.progress(50.0, "decoded");
/// #         job.log(&format!("width {}", args.width));
/// #         if job.is_stopped() || args.width == 0 { return Err(Failure::retry("no width")); }
/// #         Ok(Done::new().result(&args.width).then(Resize { width: args.width / 2 }))
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use windlass::job::{AttemptOutcome, State};
/// use windlass::testing::TestAttempt;
///
/// // The third failure of three is the last one.
/// let last = TestAttempt::new(Resize { width: 0 }).failures(2).max_attempts(3).run(&Resizer).await;
/// assert_eq!(last.state(), State::DeadLetter);
///
/// let canceled = TestAttempt::new(Resize { width: 640 })
///     .attempt(4)
///     .tenant(windlass::DEFAULT_TENANT)
///     .subject("image", "7")
///     .tag("upload")
///     .canceled()
///     .run(&Resizer)
///     .await;
/// assert_eq!(canceled.outcome(), AttemptOutcome::Canceled);
/// # }
/// ```
#[derive(Debug)]
pub struct TestAttempt<A> {
    args: A,
    tenant: Uuid,
    failures: i16,
    max_attempts: Option<i16>,
    attempt: Option<i32>,
    is_canceled: bool,
    extra: Extra,
}

impl<A: JobArgs> TestAttempt<A> {
    /// The first attempt of a new job of the default tenant.
    pub fn new(args: A) -> Self {
        let extra = Extra::default();
        Self {
            args,
            tenant: DEFAULT_TENANT,
            failures: 0,
            max_attempts: None,
            attempt: None,
            is_canceled: false,
            extra,
        }
    }

    /// Sets the failures counted before this attempt.
    #[must_use]
    pub fn failures(mut self, failures: u16) -> Self {
        self.failures = i16::try_from(failures).unwrap_or(i16::MAX);
        self
    }

    /// Sets the maximum number of failures (default: that of the definition); then the job is a dead letter.
    #[must_use]
    pub fn max_attempts(mut self, most: u16) -> Self {
        self.max_attempts = i16::try_from(most).ok();
        self
    }

    /// Sets the number of the attempt (default: one more than the failures).
    #[must_use]
    pub fn attempt(mut self, number: i32) -> Self {
        self.attempt = Some(number);
        self
    }

    /// Sets the tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: Uuid) -> Self {
        self.tenant = tenant;
        self
    }

    /// Sets the entity that the job is about.
    #[must_use]
    pub fn subject(mut self, kind: impl Into<String>, id: impl Into<String>) -> Self {
        self.extra.subject_type = Some(kind.into());
        self.extra.subject_id = Some(id.into());
        self
    }

    /// Adds a tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.extra.tags.get_or_insert_default().push(tag.into());
        self
    }

    /// Cancels the job before the run: [`Context::is_stopped`](crate::Context::is_stopped) is true from the start.
    #[must_use]
    pub fn canceled(mut self) -> Self {
        self.is_canceled = true;
        self
    }

    /// Runs the attempt.
    ///
    /// # Panics
    ///
    /// If the payload cannot be stored, or the handler's definition is invalid.
    pub async fn run<H: Handler<Args = A>>(self, handler: &H) -> AttemptResult {
        let job = self.args.job();
        let payload =
            job.payload_text().unwrap_or_else(|error| panic!("the payload cannot be enqueued: {error}"));
        let declared = handler.definition().max_attempts.and_then(|most| i16::try_from(most).ok());
        let attempt = self.attempt.unwrap_or(i32::from(self.failures) + 1);
        let claimed = Claimed {
            fence: Fence { tenant: self.tenant, job: Uuid::now_v7(), attempt, token: Uuid::new_v4() },
            place: None,
            definition_key: A::KEY.into(),
            payload: payload.to_owned(),
            queued_ms: 0,
            budget: Budget {
                attempt,
                failures: self.failures,
                lost: 0,
                snoozes: 0,
                max_attempts: self.max_attempts.or(declared).unwrap_or(DEFAULT_MAX_ATTEMPTS),
                max_lost: 0,
                max_snoozes: 0,
                cancel_requested: self.is_canceled,
                remaining: None,
            },
            extra: self.extra,
        };
        let tried = run_once(handler, claimed, self.is_canceled).await;
        AttemptResult(tried.unwrap_or_else(|error| panic!("the handler cannot be run: {error}")))
    }
}

/// The same as the default of the database.
const DEFAULT_MAX_ATTEMPTS: i16 = 3;

/// The outcome of one attempt, and what would happen to its job.
///
/// ```
/// # use windlass::{Context, Done, Failure, Handler, JobArgs};
/// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// # struct Resize { width: u32 }
/// # impl JobArgs for Resize { const KEY: &'static str = "resize"; }
/// # struct Resizer;
/// # impl Handler for Resizer {
/// #     type Args = Resize;
/// #     async fn run(&self, job: &Context, args: Resize) -> Result<Done, Failure> {
/// #         job.progress(50.0, "decoded");
/// #         job.log(&format!("width {}", args.width));
/// #         if job.is_stopped() || args.width == 0 { return Err(Failure::retry("no width")); }
/// #         Ok(Done::new().result(&args.width).then(Resize { width: args.width / 2 }))
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use windlass::job::{AttemptOutcome, State};
/// use windlass::testing;
///
/// let good = testing::run(&Resizer, Resize { width: 640 }).await;
/// assert_eq!((good.outcome(), good.state()), (AttemptOutcome::Succeeded, State::Succeeded));
/// assert_eq!(good.result::<u32>(), Some(640));
/// assert_eq!(good.artifact::<String>(), None);
/// assert_eq!(good.progress(), Some((50.0, "decoded")));
/// assert_eq!(good.log(), ["width 640"]);
/// assert_eq!(good.next().len(), 1);
/// assert_eq!(good.next_of::<Resize>()[0].width, 320);
///
/// let bad = testing::run(&Resizer, Resize { width: 0 }).await;
/// assert_eq!(bad.error(), Some("no width"));
/// assert!(bad.delay().is_some());
/// # }
/// ```
pub struct AttemptResult(Tried);

impl AttemptResult {
    /// Returns how the attempt ended.
    pub fn outcome(&self) -> AttemptOutcome {
        self.0.settlement.attempt_outcome
    }

    /// Returns the state of the job after the attempt, by the policies of the handler's definition.
    pub fn state(&self) -> State {
        self.0.settlement.next.state()
    }

    /// Returns the delay before the next attempt, if there is one.
    pub fn delay(&self) -> Option<Duration> {
        match self.0.settlement.next {
            Next::Scheduled { after } => Some(after),
            Next::Queued => Some(Duration::ZERO),
            Next::Succeeded | Next::Failed | Next::DeadLetter | Next::Canceled => None,
        }
    }

    /// Returns the error with which the attempt ended.
    pub fn error(&self) -> Option<&str> {
        self.0.result.error.as_deref()
    }

    /// Returns the result, if there is one of this type.
    pub fn result<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.0.result.done.result.as_deref()?).ok()
    }

    /// Returns the artifact, if there is one of this type.
    pub fn artifact<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.0.result.done.artifact.as_deref()?).ok()
    }

    /// Returns the jobs that the success enqueues ([`Done::then`](crate::Done::then)).
    pub fn next(&self) -> &[NewJob] {
        &self.0.result.done.next
    }

    /// Returns the payloads of those jobs that have this type.
    pub fn next_of<A: JobArgs>(&self) -> Vec<A> {
        let jobs = self.next().iter().filter(|job| job.definition_key == A::KEY);
        jobs.filter_map(|job| serde_json::from_str(job.payload_text().ok()?).ok()).collect()
    }

    /// Returns the last reported progress: the percentage and the message.
    pub fn progress(&self) -> Option<(f32, &str)> {
        let report = self.0.result.progress.as_ref()?;
        Some((report.percent.unwrap_or_default(), report.message.as_deref().unwrap_or_default()))
    }

    /// Returns the lines that were logged.
    pub fn log(&self) -> &[String] {
        &self.0.log
    }
}

impl std::fmt::Debug for AttemptResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AttemptResult")
            .field("outcome", &self.outcome())
            .field("state", &self.state())
            .field("error", &self.error())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use super::{TestAttempt, run};
    use crate::attempt::done::{Done, Failure};
    use crate::model::definition::Definition;
    use crate::model::job::backoff::Backoff;
    use crate::model::job::state::{AttemptOutcome, State};
    use crate::model::new_job::JobArgs;
    use crate::worker::context::Context;
    use crate::worker::handler::Handler;

    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    struct Obey {
        way: String,
    }

    impl JobArgs for Obey {
        const KEY: &'static str = "obey";
    }

    struct Obeys;

    impl Handler for Obeys {
        type Args = Obey;

        async fn run(&self, job: &Context, args: Obey) -> Result<Done, Failure> {
            job.progress(40.0, "two of five");
            job.log("one");
            job.log("two");
            match args.way.as_str() {
                "retry" => Err(Failure::retry("again")),
                "panic" => panic!("as requested"),
                "snooze" => Ok(Done::snooze(Duration::from_secs(7))),
                "stop" if job.is_stopped() => Err(Failure::retry("stopped")),
                "follow" => Ok(Done::new().then(Obey { way: "next".to_owned() })),
                _ => Ok(Done::new().result(&job.attempt()).artifact(&"file")),
            }
        }

        fn definition(&self) -> Definition {
            Definition::of::<Obey>()
                .backoff(Backoff::fixed(Duration::from_secs(5)).jitter(0.0))
                .max_attempts(2)
        }
    }

    fn way(way: &str) -> Obey {
        Obey { way: way.to_owned() }
    }

    #[tokio::test]
    async fn a_success_shows_everything_that_the_handler_returned() {
        let ran = TestAttempt::new(way("succeed")).attempt(4).run(&Obeys).await;
        assert_eq!(
            (ran.outcome(), ran.state(), ran.delay()),
            (AttemptOutcome::Succeeded, State::Succeeded, None)
        );
        assert_eq!((ran.result::<i32>(), ran.artifact::<String>().as_deref()), (Some(4), Some("file")));
        assert_eq!(ran.progress(), Some((40.0, "two of five")));
        assert_eq!(ran.log(), ["one", "two"]);
        assert_eq!(run(&Obeys, way("follow")).await.next_of::<Obey>(), [way("next")]);
    }

    #[tokio::test]
    async fn a_failure_follows_the_policies_of_the_definition() {
        let first = run(&Obeys, way("retry")).await;
        assert_eq!((first.state(), first.delay()), (State::Scheduled, Some(Duration::from_secs(5))));
        let last = TestAttempt::new(way("retry")).failures(1).run(&Obeys).await;
        assert_eq!((last.state(), last.error()), (State::DeadLetter, Some("again")));
        let panicked = run(&Obeys, way("panic")).await;
        assert!(panicked.error().is_some_and(|error| error.contains("as requested")), "{panicked:?}");
        let snoozed = run(&Obeys, way("snooze")).await;
        assert_eq!(
            (snoozed.outcome(), snoozed.delay()),
            (AttemptOutcome::Snoozed, Some(Duration::from_secs(7)))
        );
    }

    #[tokio::test]
    async fn a_canceled_job_ends_as_canceled() {
        let ran = TestAttempt::new(way("stop")).canceled().run(&Obeys).await;
        assert_eq!(ran.state(), State::Canceled);
    }
}
