//! Stands in front of every handler: who is asking, may they, and not too often. A refused call leaves a row in the audit
//! trail.

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use uuid::Uuid;

use super::Audience;
use super::app::App;
use super::bodies;
use super::heavy;
use super::host;
use super::limits::{RequestId, shown_path};
use super::problem::{Problem, ProblemKind};
use super::refusals::Refusal;
use crate::auth::{Authenticated, Caller, Permission, Role};
use crate::server::client_of;
use crate::web;

/// Whose turns those have who are not known. No tenant has this id, and the installation's is another.
const STRANGERS: Uuid = Uuid::max();

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
        let answer = serve(&route, None, request, next).await;
        return answer.unwrap_or_else(|problem| refusal(&route, problem));
    }
    // Apart, because a body cannot be looked at from two threads and a head can.
    let (mut parts, body) = request.into_parts();
    let target = format!("{} {}", parts.method, shown_path(parts.uri.path()));
    let Refused { problem, caller } = match admit(&route, &parts).await {
        Ok(caller) => {
            parts.extensions.insert(caller.clone());
            parts.extensions.insert(route.permission);
            let request = Request::from_parts(parts, body);
            let response = match (serve(&route, Some(&caller), request, next).await, route.audience) {
                (Ok(response), Audience::People) => web::stamp(response, &caller).await,
                (Ok(response), Audience::Programs) => response,
                (Err(problem), _) => refusal(&route, problem),
            };
            // What a handler refuses its caller is refused no less.
            if response.status() == StatusCode::FORBIDDEN {
                route.app.refused(Refusal::of(&caller, target)).await;
            }
            return response;
        }
        Err(refused) => refused,
    };
    let is_page = route.audience == Audience::People;
    if let Some(page) = problem.solved_at.filter(|_| is_page) {
        return Redirect::to(page).into_response();
    }
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
    refusal(&route, problem)
}

fn refusal(route: &Guarded, problem: Problem) -> Response {
    match route.audience {
        Audience::People => web::PageProblem(problem).into_response(),
        Audience::Programs => problem.into_response(),
    }
}

/// Lets the handler answer: at once, or in its tenant's turn if that may take much of a processor. A body comes whole before the
/// turn, so that a slow client holds no place.
async fn serve(
    route: &Guarded,
    caller: Option<&Caller>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let is_ours = request.extensions().get::<InProcess>().is_some();
    let reads = caller.is_some() && request.method().is_safe();
    // Of a stranger only a signed message is read whole; every handler of theirs bounds the rest itself.
    let may_be_large = caller.is_some() || request.headers().contains_key("webhook-signature");
    if is_ours || !(reads || may_be_large && heavy::is_large(request.body())) {
        return Ok(next.run(request).await);
    }
    let (request, held) = bodies::whole(request, &route.app).await?;
    let turn = route.app.heavy().turn(whose_turn(caller)).await?;
    let answer = async move {
        let _held = held;
        next.run(request).await
    };
    Ok(heavy::apart(turn, answer).await)
}

/// A tenant's, the installation's for super-admins, or that of everybody who is not known.
fn whose_turn(caller: Option<&Caller>) -> Uuid {
    caller.map_or(STRANGERS, |caller| caller.tenant.unwrap_or(windlass::INSTALLATION))
}

async fn admit(route: &Guarded, request: &Parts) -> Result<Caller, Refused> {
    let Authenticated { mut caller, requests_per_minute } = match request.extensions.get::<InProcess>() {
        Some(InProcess(caller)) => Authenticated { caller: caller.clone(), requests_per_minute: None },
        None => route.app.authenticator().authenticate(request).await?,
    };
    caller.request_id = request.extensions.get::<RequestId>().map(|id| id.0.clone());
    caller.from_address = client_of(&request.extensions).map(|address| address.to_string());
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
        && host::changes_something(&request.method)
    {
        host::check_same_origin(request, &route.app)?;
    }
    route.app.rates().check(caller, route.app.options().requests_per_minute, requests_per_minute)?;
    tenant_of(&route.app, request, caller).await?;
    if !caller.may(route.permission) {
        let detail = format!("it needs the permission {}", route.permission.as_str());
        return Err(Problem::of(ProblemKind::Forbidden, detail));
    }
    Ok(())
}

/// Gives a super-admin the tenant that the request names.
pub(super) async fn tenant_of(app: &App, request: &Parts, caller: &mut Caller) -> Result<(), Problem> {
    let Some(tenant) = named_tenant(request)? else { return Ok(()) };
    if caller.role != Role::SuperAdmin && caller.tenant != Some(tenant) {
        return Err(Problem::of(ProblemKind::Forbidden, "only a super-admin may name a tenant"));
    }
    if caller.tenant != Some(tenant) && !app.authenticator().knows_tenant(tenant).await? {
        return Err(Problem::not_found("tenant"));
    }
    caller.tenant = Some(tenant);
    Ok(())
}

fn named_tenant(request: &Parts) -> Result<Option<Uuid>, Problem> {
    let Some(named) = request.headers.get("x-tenant-id") else { return Ok(None) };
    let tenant = named.to_str().ok().and_then(|text| text.parse().ok());
    tenant.map(Some).ok_or_else(|| Problem::of(ProblemKind::BadRequest, "X-Tenant-Id must be a tenant's id"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Who;

    #[test]
    fn strangers_take_no_turn_of_a_super_admin_or_a_tenant() {
        let caller = |tenant| Caller {
            who: Who::Hook { name: "h".to_owned() },
            role: Role::SuperAdmin,
            tenant,
            scopes: None,
            expires_at: None,
            from_address: None,
            request_id: None,
        };
        let strangers = whose_turn(None);
        assert_ne!(strangers, whose_turn(Some(&caller(None))));
        assert_ne!(strangers, whose_turn(Some(&caller(Some(windlass::DEFAULT_TENANT)))));
    }
}
