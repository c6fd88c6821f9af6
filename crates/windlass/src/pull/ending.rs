//! How an attempt of a pull worker ends: looked up by its fence, decided by the rules, written if the fence is still
//! current.
//!
//! An application's transaction that holds the job, or a key of its next jobs, may stay open for minutes. A call that waits
//! for it holds no connection, which the heartbeats of other jobs need.

use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::{Held, Pull, Puller, lease_lost};
use crate::attempt::compiled::CompiledDefinition;
use crate::attempt::ending;
use crate::attempt::run_result::RunResult;
use crate::attempt::secrets;
use crate::error::{Error, Result};
use crate::model::job::claimed::{Claimed, Fence};
use crate::model::job::settle::Outcome;
use crate::model::job::state::{AttemptOutcome, State};
use crate::store;
use crate::store::database::Database;
use crate::store::permits::Permits;
use crate::telemetry::Meters;
use crate::text::redact::Redactor;

/// How long a call is repeated while an open transaction holds what it needs. Its caller then gets an error and sends it
/// again: the clients do.
const PATIENCE: Duration = Duration::from_secs(3);
/// The same for jobs that reached no worker: the lease of such a job expires.
pub(super) const BRIEFLY: Duration = Duration::from_millis(200);
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// How many settlements of one tenant may wait for each that runs, and for how long.
const WAITING: usize = 64;
const WAIT: Duration = Duration::from_secs(10);

const BUSY: Error =
    Error::Busy { reason: "the tenant has too many attempts that wait to end; end fewer at the same time" };

/// The limit of the settlements of one tenant: one of its connections stays free for heartbeats.
pub(super) fn settling(database: &Database) -> Permits {
    let (alone, beside_others) = database.share();
    Permits::new(alone.saturating_sub(1).max(1), usize::MAX, Some(WAITING), WAIT)
        .beside_others(beside_others.saturating_sub(1))
}

impl Pull {
    /// Returns the redactor of the attempt with this fence; `None` if the fence is stale.
    pub(super) async fn redactor(&self, fence: &Fence) -> Result<Option<Redactor>> {
        let database = &self.inner.database.of_tenant(Some(fence.tenant));
        let Some((claimed, _)) = store::pull::held(database, fence).await? else { return Ok(None) };
        let (compiled, _) = self.inner.definitions.get(database, &claimed.definition_key).await?;
        Ok(Some(secrets::redactor(&compiled.rules, &Redactor::default(), &Arc::new(claimed)).await))
    }

    pub(super) async fn end(
        &self,
        puller: &Puller,
        job: Uuid,
        fence: &str,
        result: RunResult,
    ) -> Result<Held<State>> {
        let Some(fence) = puller.holds(job, fence) else { return Ok(Held::LeaseLost) };
        let database = &self.inner.database.of_tenant(Some(fence.tenant));
        let Some((claimed, ran)) = store::pull::held(database, &fence).await? else {
            lease_lost(&fence);
            return Ok(Held::LeaseLost);
        };
        let (compiled, meters) = self.inner.definitions.get(database, &claimed.definition_key).await?;
        let claimed = Arc::new(claimed);
        let result = secrets::clean(result, &compiled.rules, &Redactor::default(), &claimed).await;
        let settler = PullSettler { database, settling: Some(&self.inner.settling), patience: PATIENCE };
        settler.write(&claimed, &compiled, &meters, &result, ran).await
    }
}

/// Writes the ends of attempts.
pub(super) struct PullSettler<'a> {
    pub(super) database: &'a Database,
    pub(super) settling: Option<&'a Permits>,
    pub(super) patience: Duration,
}

impl PullSettler<'_> {
    /// Decides and writes the end of an attempt. If the database refuses its texts, it is written without them, so that
    /// no text can prevent a job from ending; an invalid request itself must be fixed by the caller.
    pub(super) async fn write(
        &self,
        claimed: &Claimed,
        compiled: &Arc<CompiledDefinition>,
        meters: &Arc<Meters>,
        result: &RunResult,
        ran: Duration,
    ) -> Result<Held<State>> {
        let (ending, outcome, next) = ending::decide(claimed, &compiled.policies, result, ran);
        let settled = match self.settle(&ending.fence, ending.detail.as_deref()).await {
            Err(error) if error.is_lock_timeout() => {
                let also = if ending.has_chain { " or a key of its next jobs" } else { "" };
                return Err(Error::Locked { what: format!("job {}{also}", claimed.fence.job) });
            }
            Err(error @ Error::Database(_)) if !error.is_transient() => {
                tracing::warn!(job_id = %claimed.fence.job, tenant_id = %claimed.fence.tenant, %error,
                    "the database refused the texts of a settlement; it is written without them");
                let bare = ending::without_texts(&ending);
                self.settle(&bare.fence, bare.detail.as_deref()).await?
            }
            settled => settled?,
        };
        let (outcome, next) = match settled.as_str() {
            "settled" => (outcome, next),
            "overruled" => (AttemptOutcome::Canceled, State::Canceled),
            _ => {
                lease_lost(&claimed.fence);
                return Ok(Held::LeaseLost);
            }
        };
        // Only now: a call that fails is sent again.
        meters.attempt(outcome);
        meters.moved(outcome, next);
        meters.run_seconds.record(ran.as_secs_f64());
        Ok(Held::Held(next))
    }

    /// Ends an attempt, and tries again while an open transaction holds what it needs, without a connection meanwhile.
    pub(super) async fn settle(&self, fence: &Fence, detail: Option<&str>) -> Result<String> {
        let began = Instant::now();
        let mut pause = PAUSES.0;
        loop {
            let settled = {
                let _permit = match self.settling {
                    Some(settling) => Some(settling.take(fence.tenant).await.ok_or(BUSY)?),
                    None => None,
                };
                store::pull::settle(self.database, fence, detail).await
            };
            match settled {
                Err(error) if error.is_lock_timeout() && began.elapsed() < self.patience => {
                    tokio::time::sleep(pause.mul_f64(0.5 + rand::random::<f64>())).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
                settled => return settled,
            }
        }
    }
}

/// The result of a job that its worker released.
pub(super) fn released() -> RunResult {
    RunResult::of(Outcome::Released, "released by its worker")
}
