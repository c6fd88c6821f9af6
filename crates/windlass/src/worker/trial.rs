//! One run of a handler without a database, for the test kit. The handler gets the same [`Context`] as from a worker,
//! and the end of the attempt is decided by the same rules; nothing is written.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use super::context::Context;
use super::handler::{AnyHandler, Handler, RunFuture, run_each};
use super::lease::Lease;
use super::log::LogSink;
use super::progress::ProgressSink;
use super::run;
use super::running::{Stop, Switch};
use crate::attempt::compiled::CompiledDefinition;
use crate::attempt::ending;
use crate::attempt::run_result::RunResult;
use crate::attempt::secrets::{self, JobRedactor};
use crate::error::Result;
use crate::model::definition::{Definition, Policies};
use crate::model::job::claimed::Claimed;
use crate::model::job::settle::{Settlement, settle};
use crate::store::database::Database;
use crate::text::redact::Redactor;

/// The result of a run without a database.
pub(crate) struct Tried {
    pub(crate) result: RunResult,
    pub(crate) settlement: Settlement,
    pub(crate) log: Vec<String>,
}

/// Runs one claimed job. `is_canceled`: the job was canceled before the run started.
pub(crate) async fn run_once<H: Handler>(handler: &H, claimed: Claimed, is_canceled: bool) -> Result<Tried> {
    let definition = Borrowed(handler).definition();
    definition.check()?;
    let compiled = CompiledDefinition::of(Policies::declared(&definition))?;
    let claimed = Arc::new(claimed);
    // Never connected to, unless the handler calls a function that needs a database.
    let mut nowhere = Config::new();
    nowhere.host("127.0.0.1").port(1).ssl_mode(SslMode::Disable).connect_timeout(Duration::from_secs(1));
    let database = Database::new(&nowhere, 1, true)?;
    let (logs, progress) = (Arc::new(LogSink::new(database.clone())), Arc::new(ProgressSink::new(database)));
    let switch = Switch::default();
    if is_canceled {
        switch.stop(Stop::Canceled);
    }
    let started = Instant::now();
    let context = Context {
        claimed: claimed.clone(),
        policies: compiled.policies.clone(),
        switch: switch.clone(),
        started,
        deadline: started + compiled.allowed_time(&claimed, Duration::ZERO),
        progress: progress.clone(),
        logs: logs.clone(),
        redactor: JobRedactor::new(Redactor::default(), compiled.rules.clone()),
        lease: Arc::new(Lease::new(0, Duration::from_secs(3600))),
    };
    let result = match compiled.refusal(&claimed) {
        Some(refusal) => refusal,
        None => {
            let mut results = run::call(&Borrowed(handler), vec![context], &[switch]).await;
            results.pop().unwrap_or_else(|| RunResult::from(Ok(crate::attempt::done::Done::new())))
        }
    };
    let mut result = secrets::clean(result, &compiled.rules, &Redactor::default(), &claimed).await;
    result.progress = progress.take(&claimed.fence).await;
    let budget = ending::budget_of(&claimed.budget, &compiled.policies, started.elapsed());
    let settlement = settle(&budget, &compiled.policies.retry(), result.outcome, rand::random());
    Ok(Tried { result, settlement, log: logs.lines(&claimed.fence) })
}

/// A borrowed handler.
struct Borrowed<'a, H>(&'a H);

impl<H: Handler> AnyHandler for Borrowed<'_, H> {
    fn definition(&self) -> Definition {
        self.0.definition().with_schema_of::<H::Args>()
    }

    fn batch(&self) -> usize {
        1
    }

    fn run(&self, jobs: Vec<Context>) -> RunFuture<'_> {
        Box::pin(run_each(self.0, jobs))
    }
}
