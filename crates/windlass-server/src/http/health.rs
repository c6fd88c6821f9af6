//! Liveness and readiness: for load balancers and supervisors, without a credential.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::app::App;
use super::problem::Problem;

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
    app.queue().ping().await?;
    Ok(Json(OK))
}
