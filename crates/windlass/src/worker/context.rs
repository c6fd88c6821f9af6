//! The handler's view of one job.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::lease::Lease;
use super::log::LogSink;
use super::progress::ProgressSink;
use super::running::Switch;
use crate::attempt::done::Done;
use crate::attempt::ending;
use crate::attempt::run_result::RunResult;
use crate::attempt::secrets::JobRedactor;
use crate::error::Result;
use crate::model::definition::Policies;
use crate::model::job::claimed::{Claimed, Fence};
use crate::model::log::LogStream;
use crate::store;
use crate::store::job::Report;
use crate::store::settle::{SettleEntry, Settled};
use crate::text;
use crate::text::redact::Redactor;

/// The maximum length of a stored progress message.
const MESSAGE_BYTES: usize = 1000;

/// One attempt of one job, as its handler sees it.
///
/// ```
/// use windlass::{Context, Done, Failure};
///
/// async fn train(job: &Context, epochs: u32) -> Result<Done, Failure> {
///     for epoch in 0..epochs {
///         if job.is_stopped() {
///             // Canceled, shut down, or the lease was lost: what is returned now is not recorded as a failure.
///             return Err(Failure::retry("stopped"));
///         }
///         job.progress(100.0 * epoch as f32 / epochs as f32, "training");
///         job.log(&format!("epoch {epoch} of job {}", job.job_id()));
///     }
///     Ok(Done::new())
/// }
/// ```
#[derive(Debug)]
pub struct Context {
    pub(crate) claimed: Arc<Claimed>,
    pub(crate) policies: Arc<Policies>,
    pub(crate) switch: Switch,
    pub(crate) started: Instant,
    pub(crate) deadline: Instant,
    pub(crate) progress: Arc<ProgressSink>,
    pub(crate) logs: Arc<LogSink>,
    pub(crate) redactor: JobRedactor,
    pub(crate) lease: Arc<Lease>,
}

/// What [`Context::complete_in`] returns.
///
/// ```
/// use windlass::worker::Completion;
/// use windlass::{Done, Failure};
///
/// fn end(completion: Completion) -> Result<Done, Failure> {
///     match completion {
///         Completion::Ready(done) => Ok(done),
///         _ => Err(Failure::retry("the lease was lost")),
///     }
/// }
/// assert!(end(Completion::LeaseLost).is_err());
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Completion {
    /// Commit the transaction, then return this from the handler.
    Ready(Done),
    /// The lease was lost: another attempt may be in progress. Roll back; nothing of this attempt counts.
    LeaseLost,
}

/// ```
/// use windlass::{Context, Done, Failure};
///
/// /// A handler that calls a service for a job, and passes on what identifies the job there.
/// async fn call(job: &Context, service: &str) -> Result<Done, Failure> {
///     job.log(&format!("{} of tenant {}", job.definition_key(), job.tenant_id()));
///     job.log(&format!("attempt {}, {} of {} failures", job.attempt(), job.failures(), job.max_attempts()));
///     job.log(&format!("about {:?}, tagged {:?}, from {:?}", job.subject(), job.tags(), job.source_ref()));
///     job.log(&format!("enqueued by {:?} or job {:?}", job.created_by(), job.parent_id()));
///     job.log(&format!("{} bytes until {:?}", job.payload().len(), job.deadline()));
///     let headers = [
///         ("traceparent", job.traceparent()),
///         ("x-request-id", job.correlation_id().or(job.trace()).unwrap_or_default().to_owned()),
///         ("x-fence", job.fence().encode()),
///     ];
///     let request = post(service, headers, job.remaining());
///     match job.cancellation().run_until_cancelled(request).await {
///         Some(result) => result.map(|()| Done::new()),
///         None => Err(Failure::retry("stopped")),
///     }
/// }
/// # async fn post(_: &str, _: [(&str, String); 3], _: std::time::Duration) -> Result<(), Failure> { Ok(()) }
/// ```
impl Context {
    /// Returns the id of the job.
    pub fn job_id(&self) -> Uuid {
        self.claimed.fence.job
    }

    /// Returns the tenant of the job.
    pub fn tenant_id(&self) -> Uuid {
        self.claimed.fence.tenant
    }

    /// Returns the key of the job's definition.
    pub fn definition_key(&self) -> &str {
        &self.claimed.definition_key
    }

    /// Returns the number of the attempt, from 1.
    pub fn attempt(&self) -> i32 {
        self.claimed.fence.attempt
    }

    /// Returns the number of failures before this attempt.
    pub fn failures(&self) -> i16 {
        self.claimed.budget.failures
    }

    /// Returns the maximum number of failures before the job becomes a dead letter.
    pub fn max_attempts(&self) -> i16 {
        self.claimed.budget.max_attempts
    }

    /// Returns the fence of this attempt. Pass it to the systems you write to, so that they can refuse a stale attempt.
    pub fn fence(&self) -> &Fence {
        &self.claimed.fence
    }

    /// Returns the payload as JSON text.
    pub fn payload(&self) -> &str {
        &self.claimed.payload
    }

    /// Returns the type and id of the entity that the job is about.
    pub fn subject(&self) -> Option<(&str, &str)> {
        Some((self.claimed.extra.subject_type.as_deref()?, self.claimed.extra.subject_id.as_deref()?))
    }

    /// Returns the tags of the job.
    pub fn tags(&self) -> &[String] {
        self.claimed.extra.tags.as_deref().unwrap_or_default()
    }

    /// Returns the id that groups the jobs of one request or event.
    pub fn correlation_id(&self) -> Option<&str> {
        self.claimed.extra.correlation_id.as_deref()
    }

    /// Returns what the job's source refers to.
    pub fn source_ref(&self) -> Option<&str> {
        self.claimed.extra.source_ref.as_deref()
    }

    /// Returns the W3C traceparent to pass to the systems that this attempt calls.
    pub fn traceparent(&self) -> String {
        self.claimed.trace().traceparent(self.attempt())
    }

    /// Returns the W3C traceparent given at enqueue.
    pub fn trace(&self) -> Option<&str> {
        self.claimed.extra.trace.as_deref()
    }

    /// Returns the job whose completion enqueued this one.
    pub fn parent_id(&self) -> Option<Uuid> {
        self.claimed.extra.parent_id
    }

    /// Returns the user who enqueued the job.
    pub fn created_by(&self) -> Option<Uuid> {
        self.claimed.extra.created_by
    }

    /// Returns the instant at which this attempt times out.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the time left until the attempt times out.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Whether the attempt ends at the job's own deadline, which is earlier than the timeout of its definition.
    #[cfg(feature = "http-jobs")]
    pub(crate) fn has_own_deadline(&self) -> bool {
        self.deadline.saturating_duration_since(self.started) < self.policies.timeout()
    }

    /// Resolves when the run should stop: the job was canceled, the lease was lost, or the worker shuts down.
    pub async fn stopped(&self) {
        self.switch.stopped().await;
    }

    /// Returns whether the run should stop; see [`Self::stopped`].
    pub fn is_stopped(&self) -> bool {
        self.switch.reason().is_some()
    }

    /// Returns the same as a token, for code that takes one.
    pub fn cancellation(&self) -> CancellationToken {
        self.switch.token()
    }

    /// Removes secrets from everything that is stored of this run.
    pub(crate) fn redactor(&self) -> &Redactor {
        self.redactor.get(&self.claimed)
    }

    /// Reports progress. It is written in batches within a moment; the last value is stored with the attempt. Progress
    /// of a stale attempt is ignored.
    pub fn progress(&self, percent: f32, message: &str) {
        let report = Report {
            fence: self.claimed.fence,
            percent: percent.is_finite().then(|| percent.clamp(0.0, 100.0)),
            message: Some(text::storable(self.redactor().text(message).as_bytes(), MESSAGE_BYTES)),
        };
        self.progress.set(report);
    }

    /// Adds a line to the log of this run, see [`crate::Queue::follow_log`]. If it is large, only its end is kept.
    pub fn log(&self, line: &str) {
        let mut text = String::with_capacity(line.len() + 1);
        text::clean_into(self.redactor.line(&self.claimed, line).as_bytes(), &mut text);
        text.push('\n');
        self.logs.append(&self.claimed.fence, LogStream::Log, &text);
    }

    /// Records success inside the handler's own transaction, so that its writes are visible if and only if the job
    /// succeeded. Commit, then return the [`Done`] of [`Completion::Ready`]. If the transaction is rolled back, the attempt counts as
    /// failed.
    ///
    /// For a transaction of sqlx, see `sqlx08::complete_in` and `sqlx09::complete_in`.
    ///
    /// ```no_run
    /// # #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    /// # struct Pay { account: i64, cents: i64 }
    /// # impl windlass::JobArgs for Pay { const KEY: &'static str = "pay"; }
    /// use tokio::sync::Mutex;
    /// use windlass::worker::Completion;
    /// use windlass::{Context, Done, Failure, Handler};
    ///
    /// struct Payer {
    ///     client: Mutex<tokio_postgres::Client>,
    /// }
    ///
    /// impl Handler for Payer {
    ///     type Args = Pay;
    ///
    ///     async fn run(&self, job: &Context, args: Pay) -> Result<Done, Failure> {
    ///         let mut client = self.client.lock().await;
    ///         let tx = client.transaction().await?;
    ///         tx.execute("update account set cents = cents - $1 where id = $2", &[&args.cents, &args.account]).await?;
    ///         match job.complete_in(&tx, Done::new()).await? {
    ///             Completion::Ready(done) => {
    ///                 tx.commit().await?;
    ///                 Ok(done)
    ///             }
    ///             // Another attempt may be running. Dropping the transaction rolls it back.
    ///             _ => Err(Failure::retry("the lease was lost")),
    ///         }
    ///     }
    /// }
    /// ```
    pub async fn complete_in<C: tokio_postgres::GenericClient + Sync>(
        &self,
        client: &C,
        done: Done,
    ) -> Result<Completion> {
        let ending = self.prepare_completion(done).await?;
        let settled = store::settle::settle_in(client, &ending).await?;
        Ok(Self::completion(&settled))
    }

    /// Decides how the attempt ends, before the statement that writes it in the handler's transaction.
    pub(crate) async fn prepare_completion(&self, done: Done) -> Result<SettleEntry> {
        done.check()?;
        let mut result = RunResult::from(Ok(done)).redacted(self.redactor());
        result.progress = self.progress.take(&self.claimed.fence).await;
        self.logs.flush(&self.claimed.fence).await;
        let (ending, ..) = ending::decide(&self.claimed, &self.policies, &result, self.started.elapsed());
        Ok(ending)
    }

    /// Reads what that statement returned.
    pub(crate) fn completion(settled: &Settled) -> Completion {
        if settled.settled.is_empty() || !settled.overruled.is_empty() {
            return Completion::LeaseLost;
        }
        Completion::Ready(Done { is_settled: true, ..Done::default() })
    }
}
