//! How an attempt of a pull worker ends: looked up by its fence, decided by the rules, written if the fence is still
//! current.

use std::sync::Arc;

use uuid::Uuid;

use super::{Held, Pull, Puller, lease_lost};
use crate::attempt::ending;
use crate::attempt::known::Known;
use crate::attempt::run_result::RunResult;
use crate::attempt::secrets;
use crate::error::{Error, Result};
use crate::model::job::claimed::{Claimed, Fence};
use crate::model::job::settle::Outcome;
use crate::model::job::state::{AttemptOutcome, State};
use crate::store;
use crate::store::database::Database;
use crate::telemetry::Meters;
use crate::text::redact::Redactor;

impl Pull {
    /// Returns the redactor of the attempt with this fence; `None` if the fence is stale.
    pub(super) async fn redactor(&self, fence: &Fence) -> Result<Option<Redactor>> {
        let database = &self.inner.database.of_tenant(Some(fence.tenant));
        let Some((claimed, _)) = store::pull::held(database, fence).await? else { return Ok(None) };
        let (known, _) = self.inner.definitions.get(database, &claimed.definition_key).await?;
        Ok(Some(secrets::redactor(&known.rules, &Redactor::default(), &Arc::new(claimed)).await))
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
        let (known, meters) = self.inner.definitions.get(database, &claimed.definition_key).await?;
        meters.run_seconds.record(ran.as_secs_f64());
        let claimed = Arc::new(claimed);
        let result = secrets::clean(result, &known.rules, &Redactor::default(), &claimed).await;
        write(database, &claimed, &known, &meters, &result, ran).await
    }
}

/// Decides and writes the end of an attempt. If the database refuses its texts, it is written without them, so that no
/// text can prevent a job from ending; an invalid request itself must be fixed by the caller.
pub(super) async fn write(
    database: &Database,
    claimed: &Claimed,
    known: &Arc<Known>,
    meters: &Arc<Meters>,
    result: &RunResult,
    ran: std::time::Duration,
) -> Result<Held<State>> {
    let (ending, outcome, next) = ending::decide(claimed, &known.policies, result, ran);
    let settled = match store::pull::settle(database, &ending.fence, ending.detail.as_deref()).await {
        Err(error @ Error::Database(_)) if !error.is_transient() => {
            tracing::warn!(job_id = %claimed.fence.job, tenant_id = %claimed.fence.tenant, %error,
                "the database refused the texts of a settlement; it is written without them");
            let bare = ending::without_texts(&ending);
            store::pull::settle(database, &bare.fence, bare.detail.as_deref()).await?
        }
        settled => settled?,
    };
    Ok(match settled.as_str() {
        "settled" => {
            meters.attempt(outcome);
            meters.moved(outcome, next);
            Held::Held(next)
        }
        "overruled" => {
            meters.attempt(AttemptOutcome::Canceled);
            meters.moved(AttemptOutcome::Canceled, State::Canceled);
            Held::Held(State::Canceled)
        }
        _ => {
            lease_lost(&claimed.fence);
            Held::LeaseLost
        }
    })
}

/// The result of a job that its worker released.
pub(super) fn released() -> RunResult {
    RunResult::of(Outcome::Released, "released by its worker")
}
