//! Stands in front of every handler: who is asking, may they, and not too often. A refused call leaves a row in the audit
//! trail.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use uuid::Uuid;

use super::Audience;
use super::app::App;
use super::limits::RequestId;
use super::problem::{Problem, ProblemKind};
use super::refusals::Refusal;
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

/// Why a call does not come through, and of whom, if that is known.
struct Refused {
    problem: Problem,
    caller: Option<Caller>,
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self { problem, caller: None }
    }
}

pub(crate) async fn guard(State(route): State<Guarded>, request: Request, next: Next) -> Response {
    if route.permission == Permission::Anyone {
        return next.run(request).await;
    }
    // Apart, because a body cannot be looked at from two threads and a head can.
    let (mut parts, body) = request.into_parts();
    let target = format!("{} {}", parts.method, parts.uri.path());
    let Refused { problem, caller } = match admit(&route, &parts).await {
        Ok(caller) => {
            parts.extensions.insert(caller.clone());
            let response = next.run(Request::from_parts(parts, body)).await;
            // What a handler refuses its caller is refused no less.
            if response.status() == StatusCode::FORBIDDEN {
                route.app.refused(Refusal::of(&caller, target)).await;
            }
            return response;
        }
        Err(refused) => refused,
    };
    let is_page = route.audience == Audience::People;
    match (problem.kind, &caller) {
        // A page that asks its reader to sign in refuses nothing.
        (ProblemKind::Unauthorized, _) if is_page => return web::to_sign_in(&parts.uri).into_response(),
        (ProblemKind::Unauthorized | ProblemKind::Forbidden, Some(caller)) => {
            route.app.refused(Refusal::of(caller, target)).await;
        }
        (ProblemKind::Unauthorized | ProblemKind::Forbidden, None) => {
            route.app.refused(Refusal::of_nobody(&parts.headers, &parts.extensions, target)).await;
        }
        _ => {}
    }
    if is_page { web::PageProblem(problem).into_response() } else { problem.into_response() }
}

async fn admit(route: &Guarded, request: &Parts) -> Result<Caller, Refused> {
    let Authenticated { mut caller, requests_per_minute } = match request.extensions.get::<InProcess>() {
        Some(InProcess(caller)) => Authenticated { caller: caller.clone(), requests_per_minute: None },
        None => route.app.authenticator().authenticate(&request.headers).await?,
    };
    caller.request_id = request.extensions.get::<RequestId>().map(|id| id.0.clone());
    caller.from_address =
        request.extensions.get::<ConnectInfo<SocketAddr>>().map(|from| from.0.ip().to_string());
    match check(route, request, &mut caller, requests_per_minute).await {
        Ok(()) => Ok(caller),
        Err(problem) => Err(Refused { problem, caller: Some(caller) }),
    }
}

/// Whether this caller may, here and now; and for which tenant.
async fn check(
    route: &Guarded,
    request: &Parts,
    caller: &mut Caller,
    requests_per_minute: Option<u32>,
) -> Result<(), Problem> {
    // A browser sends its cookie with whatever any page makes it send; a token is sent on purpose.
    let is_cookie = !request.headers.contains_key(header::AUTHORIZATION);
    if is_cookie
        && request.extensions.get::<InProcess>().is_none()
        && session::changes_something(&request.method)
    {
        session::check_same_origin(&request.headers)?;
    }
    route.app.rates().check(caller, route.app.options().requests_per_minute, requests_per_minute)?;
    if let Some(tenant) = named_tenant(request)? {
        if caller.role != Role::SuperAdmin && caller.tenant != Some(tenant) {
            return Err(Problem::of(ProblemKind::Forbidden, "only a super-admin may name a tenant"));
        }
        if caller.tenant != Some(tenant) && !route.app.authenticator().knows_tenant(tenant).await? {
            return Err(Problem::not_found("tenant"));
        }
        caller.tenant = Some(tenant);
    }
    if !caller.may(route.permission) {
        let detail = format!("it needs the permission {}", route.permission.as_str());
        return Err(Problem::of(ProblemKind::Forbidden, detail));
    }
    Ok(())
}

fn named_tenant(request: &Parts) -> Result<Option<Uuid>, Problem> {
    let Some(named) = request.headers.get("x-tenant-id") else { return Ok(None) };
    let tenant = named.to_str().ok().and_then(|text| text.parse().ok());
    tenant.map(Some).ok_or_else(|| Problem::of(ProblemKind::BadRequest, "X-Tenant-Id must be a tenant's id"))
}
