//! Runs before every handler: authenticates the caller, checks the permission and the request rate. A denied call is recorded in
//! the audit trail.

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use uuid::Uuid;

use super::Audience;
use super::app::App;
use super::bodies;
use super::continued_access::{self, Checked};
use super::deferred_response;
use super::denials::Denial;
use super::gzip;
use super::heavy;
use super::host;
use super::limits::{RequestId, shown_path};
use super::openapi::SIGNED;
use super::parameters;
use super::problem::{Problem, ProblemKind};
use super::timeout_advice;
use crate::api::hooks;
use crate::auth::{Authenticated, Caller, Permission, Role, Unauthenticated};
use crate::server::client_of;
use crate::web;

/// The key of permits for requests without a credential. No tenant has this id, and the installation has another one.
const ANONYMOUS: Uuid = Uuid::max();

/// The guard of one route.
#[derive(Debug, Clone)]
pub(crate) struct Guarded {
    pub(crate) app: App,
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) permission: Permission,
    pub(crate) audience: Audience,
}

/// A trusted caller within this process. A request from the network cannot have it.
#[derive(Debug, Clone)]
pub(crate) struct InProcess(pub(crate) Caller);

/// Why a call is denied, and its caller as far as known.
struct Denied {
    problem: Problem,
    by: DeniedCaller,
}

enum DeniedCaller {
    Known(Box<Caller>),
    /// A person who has signed in, and who is no member of the tenant; by the name in the audit trail.
    Person(String),
    Unknown,
}

impl From<Unauthenticated> for Denied {
    fn from(Unauthenticated { problem, person }: Unauthenticated) -> Self {
        Self { problem, by: person.map_or(DeniedCaller::Unknown, DeniedCaller::Person) }
    }
}

pub(crate) async fn guard(State(route): State<Guarded>, request: Request, next: Next) -> Response {
    if route.permission == Permission::Anyone {
        let slot = match route.app.anonymous().take(&request) {
            Ok(slot) => slot,
            Err(problem) => return problem_response(&route, problem),
        };
        let (head, body) = request.into_parts();
        let form = host::changes_something(&head.method).then(|| head.clone());
        let response = serve(&route, None, Request::from_parts(head, body), next).await;
        let response = response.unwrap_or_else(|problem| problem_response(&route, problem));
        // A handler that compares a credential, and returns 401, records that itself.
        if let Some(head) = form.filter(|_| response.status() == StatusCode::FORBIDDEN) {
            let denied_by = route.app.authenticator().name_of_session(&head).await;
            let denied_by = denied_by.map_or(DeniedCaller::Unknown, DeniedCaller::Person);
            record(&route.app, &head, denied_by).await;
        }
        return match slot {
            Some(slot) => slot.until_sent(response),
            None => response,
        };
    }
    // Split, because the head can be shared between threads and the body cannot.
    let (mut parts, body) = request.into_parts();
    let target = target_of(&parts);
    let Denied { problem, by } = match admit(&route, &parts).await {
        Ok(caller) => {
            parts.extensions.insert(caller.clone());
            parts.extensions.insert(Checked::now());
            parts.extensions.insert(route.permission);
            let request = Request::from_parts(parts, body);
            let response = match route.app.unsent().admit(&caller) {
                Ok(()) => serve(&route, Some(&caller), request, next).await,
                Err(problem) => Err(problem),
            };
            let response = response.unwrap_or_else(|problem| problem_response(&route, problem));
            let response = route.app.unsent().until_sent(response, &caller);
            // A denial by the handler is recorded as well.
            if matches!(response.status(), StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED) {
                route.app.record_denial(Denial::of(&caller, target)).await;
            }
            return response;
        }
        Err(denied) => denied,
    };
    let is_page = route.audience == Audience::People;
    // A page that a person cannot open leads to the one where they can continue. A form that they may not send is denied.
    if let Some(page) = problem.remedy_page.filter(|_| is_page && parts.method.is_safe()) {
        return Redirect::to(page).into_response();
    }
    match problem.kind {
        // A redirect to the sign-in page is not a denial.
        ProblemKind::Unauthorized if is_page => return web::to_sign_in(&parts.uri).into_response(),
        ProblemKind::Unauthorized | ProblemKind::Forbidden => record(&route.app, &parts, by).await,
        _ => {}
    }
    problem_response(&route, problem)
}

/// Records a denied call in the audit trail.
async fn record(app: &App, request: &Parts, by: DeniedCaller) {
    let target = target_of(request);
    app.record_denial(match by {
        DeniedCaller::Known(caller) => Denial::of(&caller, target),
        DeniedCaller::Person(name) => Denial::of_person(name, &request.extensions, target),
        DeniedCaller::Unknown => Denial::of_anonymous(&request.headers, &request.extensions, target),
    })
    .await;
}

fn target_of(request: &Parts) -> String {
    format!("{} {}", request.method, shown_path(request.uri.path()))
}

fn problem_response(route: &Guarded, problem: Problem) -> Response {
    match route.audience {
        Audience::People => web::PageProblem(problem).into_response(),
        Audience::Programs => problem.into_response(),
    }
}

/// Runs the handler: at once, or with a permit of its tenant if it may need much CPU time. The whole body is read before, so that
/// a slow client holds no permit and the actual length decides. What waits runs after it, without a permit.
async fn serve(
    route: &Guarded,
    caller: Option<&Caller>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    // Probes and senders of hooks may add parameters of their own.
    if route.audience == Audience::Programs && caller.is_some() {
        parameters::check(&route.method, route.path, request.uri())?;
    }
    let is_ours = request.extensions().get::<InProcess>().is_some();
    let reads = caller.is_some() && request.method().is_safe();
    // A small request about a trigger can render megabytes: a range of a backfill, an event for every trigger.
    let renders =
        caller.is_some() && matches!(route.permission, Permission::ReadTriggers | Permission::WriteTriggers);
    // Of an anonymous client only a signed message is read whole; its handlers limit other bodies themselves.
    let is_message = route.path == SIGNED && hooks::may_be_signed(&route.app, request.headers());
    let may_be_large = caller.is_some() || is_message;
    if is_ours || !(reads || renders || may_be_large && heavy::may_be_large(request.body())) {
        return Ok(deferred_response::complete(handle(route, request, next).await).await);
    }
    let (request, held) = bodies::whole(request, &route.app).await?;
    let is_heavy = reads || renders || heavy::may_be_large(request.body());
    let accepts_gzip = gzip::is_accepted(request.headers());
    let permit = if is_heavy { Some(route.app.heavy().permit(permit_key(caller)).await?) } else { None };
    let (mut head, body) = request.into_parts();
    continued_access::check_again(&mut head, &route.app).await?;
    let request = Request::from_parts(head, body);
    let of_route = route.clone();
    let response = async move {
        let _held = held;
        handle(&of_route, request, next).await
    };
    let response = match permit {
        Some(permit) => {
            let response = async move { gzip::pack_large(response.await, accepts_gzip).await };
            heavy::run_apart(permit, response).await
        }
        None => response.await,
    };
    Ok(deferred_response::complete(response).await)
}

async fn handle(route: &Guarded, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    timeout_advice::scope(&method, route.path, next.run(request)).await
}

/// The tenant, the installation for super-admins, or one key for all requests without a credential.
fn permit_key(caller: Option<&Caller>) -> Uuid {
    caller.map_or(ANONYMOUS, |caller| caller.tenant.unwrap_or(windlass::admin::INSTALLATION))
}

async fn admit(route: &Guarded, request: &Parts) -> Result<Caller, Denied> {
    let Authenticated { mut caller, requests_per_minute } = match request.extensions.get::<InProcess>() {
        Some(InProcess(caller)) => Authenticated { caller: caller.clone(), requests_per_minute: None },
        None => route.app.authenticator().authenticate(request).await?,
    };
    caller.request_id = request.extensions.get::<RequestId>().map(|id| id.0.clone());
    caller.from_address = client_of(&request.extensions).map(|address| address.to_string());
    match check(route, request, &mut caller, requests_per_minute).await {
        Ok(()) => Ok(caller),
        Err(problem) => Err(Denied { problem, by: DeniedCaller::Known(Box::new(caller)) }),
    }
}

/// Checks the permission of the caller, and sets the tenant.
async fn check(
    route: &Guarded,
    request: &Parts,
    caller: &mut Caller,
    requests_per_minute: Option<u32>,
) -> Result<(), Problem> {
    // A browser sends its cookie with requests of any page; a token is sent on purpose.
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
        let detail = route.permission.required();
        return Err(Problem::of(ProblemKind::Forbidden, detail));
    }
    Ok(())
}

/// Sets the tenant of a super-admin to the one in the request.
pub(super) async fn tenant_of(app: &App, request: &Parts, caller: &mut Caller) -> Result<(), Problem> {
    let Some(named) = named_tenant(request)? else { return Ok(()) };
    let authenticator = app.authenticator();
    let own = match caller.tenant {
        Some(own) if named.parse() == Ok(own) => Some(own),
        Some(own) if authenticator.tenant_slug(own).await?.as_deref() == Some(named) => Some(own),
        Some(_) | None => None,
    };
    if own.is_some() {
        return Ok(());
    }
    // Before the search: others do not learn which slugs exist.
    if caller.role != Role::SuperAdmin {
        return Err(Problem::of(ProblemKind::Forbidden, "only a super-admin can choose a tenant"));
    }
    let found = authenticator.tenant_named(named).await?;
    caller.tenant = Some(found.ok_or_else(|| Problem::not_found("tenant"))?);
    Ok(())
}

/// The tenant that the request names, by its id or its slug.
fn named_tenant(request: &Parts) -> Result<Option<&str>, Problem> {
    let Some(named) = request.headers.get("x-tenant-id") else { return Ok(None) };
    let is_name = |text: &&str| {
        (1..=63).contains(&text.len())
            && text.bytes().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_'))
    };
    named.to_str().ok().filter(is_name).map(Some).ok_or_else(|| {
        Problem::of(ProblemKind::BadRequest, "X-Tenant-Id must be the slug or the id of a tenant")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Who;

    #[test]
    fn anonymous_requests_take_no_permit_of_a_super_admin_or_a_tenant() {
        let caller =
            |tenant| Caller { tenant, ..Caller::new(Who::Hook { name: "h".to_owned() }, Role::SuperAdmin) };
        let anonymous = permit_key(None);
        assert_ne!(anonymous, permit_key(Some(&caller(None))));
        assert_ne!(anonymous, permit_key(Some(&caller(Some(windlass::DEFAULT_TENANT)))));
    }
}
