//! Stands in front of every handler: who is asking, may they, and not too often. A refused call leaves a row in the audit
//! trail.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use uuid::Uuid;

use super::Audience;
use super::app::App;
use super::limits::RequestId;
use super::problem::{Problem, ProblemKind};
use crate::auth::{Authenticated, Caller, Permission, Role, session};
use crate::web;

/// What the guard of one route knows.
#[derive(Debug, Clone)]
pub(crate) struct Guarded {
    pub(crate) app: App,
    pub(crate) permission: Permission,
    pub(crate) audience: Audience,
}

/// A caller that is taken at their word. Nothing that comes over the network can carry it.
#[derive(Debug, Clone)]
pub(crate) struct InProcess(pub(crate) Caller);

pub(crate) async fn guard(State(route): State<Guarded>, request: Request, next: Next) -> Response {
    if route.permission == Permission::Anyone {
        return next.run(request).await;
    }
    // Apart, because a body cannot be looked at from two threads and a head can.
    let (mut parts, body) = request.into_parts();
    match admit(&route, &parts).await {
        Ok(caller) => {
            parts.extensions.insert(caller);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(problem) if problem.kind == ProblemKind::Unauthorized && route.audience == Audience::People => {
            web::to_sign_in(&parts.uri).into_response()
        }
        Err(problem) if route.audience == Audience::People => web::PageProblem(problem).into_response(),
        Err(problem) => problem.into_response(),
    }
}

async fn admit(route: &Guarded, request: &Parts) -> Result<Caller, Problem> {
    let Authenticated { mut caller, requests_per_minute } = match request.extensions.get::<InProcess>() {
        Some(InProcess(caller)) => Authenticated { caller: caller.clone(), requests_per_minute: None },
        None => route.app.authenticator().authenticate(&request.headers).await?,
    };
    // A browser sends its cookie with whatever any page makes it send; a token is sent on purpose.
    let is_cookie = !request.headers.contains_key(header::AUTHORIZATION);
    if is_cookie
        && request.extensions.get::<InProcess>().is_none()
        && session::changes_something(&request.method)
    {
        session::check_same_origin(&request.headers)?;
    }
    caller.request_id = request.extensions.get::<RequestId>().map(|id| id.0.clone());
    caller.from_address =
        request.extensions.get::<ConnectInfo<SocketAddr>>().map(|from| from.0.ip().to_string());
    route.app.rates().check(&caller, route.app.options().requests_per_minute, requests_per_minute)?;
    if let Some(tenant) = named_tenant(request)? {
        if caller.role != Role::SuperAdmin && caller.tenant != Some(tenant) {
            return Err(deny(route, &caller, request, "only a super-admin may name a tenant").await);
        }
        if caller.tenant != Some(tenant) && !route.app.authenticator().knows_tenant(tenant).await? {
            return Err(Problem::not_found("tenant"));
        }
        caller.tenant = Some(tenant);
    }
    if !caller.may(route.permission) {
        let detail = format!("it needs the permission {}", route.permission.as_str());
        return Err(deny(route, &caller, request, &detail).await);
    }
    Ok(caller)
}

fn named_tenant(request: &Parts) -> Result<Option<Uuid>, Problem> {
    let Some(named) = request.headers.get("x-tenant-id") else { return Ok(None) };
    let tenant = named.to_str().ok().and_then(|text| text.parse().ok());
    tenant.map(Some).ok_or_else(|| Problem::of(ProblemKind::BadRequest, "X-Tenant-Id must be a tenant's id"))
}

/// Writes the refusal down. That it could not be written must not turn a refusal into anything else.
async fn deny(route: &Guarded, caller: &Caller, request: &Parts, detail: &str) -> Problem {
    let target = format!("{} {}", request.method, request.uri.path());
    let written = route.app.queue().record_denied(caller.wide_reach(), &caller.actor(), &target).await;
    if let Err(error) = written {
        tracing::error!(%error, target, "a denied call could not be written to the audit trail");
    }
    Problem::of(ProblemKind::Forbidden, detail)
}
