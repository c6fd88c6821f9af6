//! Liveness and readiness: for load balancers and supervisors, without a credential.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use tokio::sync::Mutex;
use utoipa::ToSchema;
use windlass::Queue;

use super::app::App;
use super::problem::{Problem, ProblemKind};

/// How long the result of a check is valid for all clients.
const VALID: Duration = Duration::from_secs(1);

/// The health of the server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    #[schema(example = "ok")]
    status: &'static str,
    version: &'static str,
}

const OK: Health = Health { status: "ok", version: env!("CARGO_PKG_VERSION") };

/// Check that the process is alive
#[utoipa::path(get, path = "/health/live", tag = "health", responses((status = 200, body = Health)))]
pub(crate) async fn live() -> Json<Health> {
    Json(OK)
}

/// Check that the process and its database are ready
#[utoipa::path(get, path = "/health/ready", tag = "health", responses((status = 200, body = Health)))]
pub(crate) async fn ready(State(app): State<App>) -> Result<Json<Health>, Problem> {
    app.readiness().check(app.queue()).await?;
    Ok(Json(OK))
}

/// The last check of the database. Clients without a credential can ask for it as often as they like, so there is one query for all
/// of them, and those that arrive meanwhile wait for it.
#[derive(Debug, Clone, Default)]
pub(super) struct Readiness(Arc<Mutex<Option<CheckedHealth>>>);

/// When the database was checked, and the result.
type CheckedHealth = (Instant, Result<(), Problem>);

impl Readiness {
    async fn check(&self, queue: &Queue) -> Result<(), Problem> {
        let mut last = self.0.clone().lock_owned().await;
        if let Some((at, result)) = &*last
            && at.elapsed() < VALID
        {
            return result.clone();
        }
        let queue = queue.clone();
        // Its own task, so that the query is not abandoned when this client disconnects.
        let checking = tokio::spawn(async move {
            let result = queue.ping().await.map_err(Problem::from);
            *last = Some((Instant::now(), result.clone()));
            result
        });
        let panicked = || Problem::of(ProblemKind::Internal, "the error was logged");
        checking.await.map_err(|_| panicked())?
    }
}
