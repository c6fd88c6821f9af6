//! Every route of the server: method, path, required permission, and handler. A line without a permission does not compile. The
//! router, the OpenAPI document and the permission matrix of the tests are all built from this table.

mod anonymous;
mod app;
mod bodies;
mod changes;
mod continued_access;
mod deferred_response;
mod denials;
mod docs;
mod extract;
mod follow;
mod guard;
mod gzip;
mod health;
mod heavy;
pub(crate) mod host;
mod idempotent;
mod limits;
mod openapi;
mod overview_cache;
mod page;
mod parameters;
mod prebuilt;
mod problem;
mod repeated_headers;
mod searches;
mod time;
mod timeout_advice;
mod unsent_responses;

use axum::Router;
use axum::http::Method;
use axum::response::IntoResponse as _;
use axum::routing::MethodRouter;

use crate::api;
use crate::auth::{Caller, Permission};
use crate::metrics;
use crate::web;

pub use app::{App, Options};
pub(crate) use bodies::read;
pub(crate) use changes::{Change, changes};
pub(crate) use continued_access::{Access, StreamAccess, Waits, revoked};
pub(crate) use deferred_response::DeferredResponse;
pub(crate) use denials::Denial;
pub(crate) use extract::{
    BaseUrl, LinkUrl, PayloadBody, Raw, RawBody, Segment, expected_version, object, parse, query,
};
pub(crate) use extract::{Body, Id, IdempotencyKey, Query};
pub(crate) use follow::{Follower, More, failed};
pub(crate) use heavy::usual_heavy;
pub(crate) use idempotent::{replay, store_response};
pub(crate) use limits::MAX_WAIT;
pub use limits::around;
pub use openapi::{SIGNED, document};
pub(crate) use page::{PageQuery, page_limit, page_offset};
pub(crate) use prebuilt::Prebuilt;
pub use problem::{Fault, Problem, ProblemKind};
pub(crate) use time::{Time, check_future};

routes! {
    // Documented in OpenAPI; responses are JSON, failures are problems.
    api {
        get    "/health/live"      Anyone    health::live;
        get    "/health/ready"     Anyone    health::ready;
        get    "/api/v1/me"        SignedIn  api::me::read;
        post   "/api/v1/me/password"  SignedIn  api::me::change_password;

        get    "/api/v1/jobs"                      ReadJobs    api::jobs::list::list;
        post   "/api/v1/jobs"                      WriteJobs   api::jobs::enqueue::enqueue;
        post   "/api/v1/jobs/bulk"                 WriteJobs   api::jobs::enqueue::enqueue_many;
        get    "/api/v1/jobs/summary"              ReadJobs    api::jobs::list::summary;
        get    "/api/v1/jobs/stream"               ReadJobs    api::jobs::streams::watch;
        get    "/api/v1/jobs/definitions"          ReadJobs    api::definitions::list_active;
        post   "/api/v1/jobs/cancel"               WriteJobs   api::jobs::bulk::cancel;
        post   "/api/v1/jobs/retry"                WriteJobs   api::jobs::bulk::retry;
        post   "/api/v1/jobs/delete"               DeleteJobs  api::jobs::bulk::delete;
        get    "/api/v1/jobs/{job_id}"             ReadJobs    api::jobs::one::read;
        get    "/api/v1/jobs/{job_id}/attempts"    ReadJobs    api::jobs::one::attempts;
        get    "/api/v1/jobs/{job_id}/logs"        ReadJobs    api::jobs::streams::logs;
        get    "/api/v1/jobs/{job_id}/why"         ReadJobs    api::jobs::one::why;
        post   "/api/v1/jobs/{job_id}/cancel"      WriteJobs   api::jobs::one::cancel;
        post   "/api/v1/jobs/{job_id}/retry"       WriteJobs   api::jobs::one::retry;

        // Triggers and events.
        get    "/api/v1/jobs/triggers"                        ReadTriggers   api::triggers::list;
        post   "/api/v1/jobs/triggers"                        WriteTriggers  api::triggers::create;
        post   "/api/v1/jobs/triggers/dry-run"                ReadTriggers   api::triggers::verbs::dry_run;
        post   "/api/v1/jobs/triggers/preview"                ReadTriggers   api::triggers::verbs::preview_new;
        get    "/api/v1/jobs/triggers/{trigger_id}"           ReadTriggers   api::triggers::read;
        patch  "/api/v1/jobs/triggers/{trigger_id}"           WriteTriggers  api::triggers::change;
        delete "/api/v1/jobs/triggers/{trigger_id}"           WriteTriggers  api::triggers::delete;
        post   "/api/v1/jobs/triggers/{trigger_id}/run"       WriteTriggers  api::triggers::verbs::run;
        get    "/api/v1/jobs/triggers/{trigger_id}/preview"   ReadTriggers   api::triggers::verbs::preview;
        post   "/api/v1/jobs/triggers/{trigger_id}/backfill"  WriteTriggers  api::triggers::verbs::backfill;
        get    "/api/v1/jobs/triggers/{trigger_id}/fires"     ReadTriggers   api::triggers::verbs::fires;
        post   "/api/v1/events"                               EmitEvents     api::events::emit;
        get    "/api/v1/events"                               ReadEvents     api::events::list;
        get    "/api/v1/events/{event_id}"                    ReadEvents     api::events::read;
        post   "/api/v1/events/{event_id}/retry"              WriteTriggers  api::events::retry;
        // Authenticates by itself: callers sign the body instead of sending a credential.
        post   "/api/v1/hooks/{hook}"                         Anyone         api::hooks::receive;

        // Retention rules, their progress, and legal holds.
        get    "/api/v1/retention"                  ReadJobs         api::retention::read;
        post   "/api/v1/retention/rules"            ManageRetention  api::retention::set;
        delete "/api/v1/retention/rules"            ManageRetention  api::retention::clear;
        get    "/api/v1/retention/holds"            ManageRetention  api::retention::holds::list;
        post   "/api/v1/retention/holds"            ManageRetention  api::retention::holds::place;
        delete "/api/v1/retention/holds/{hold_id}"  ManageRetention  api::retention::holds::release;

        get    "/api/v1/admin/jobs/definitions"                  Administer  api::definitions::list;
        post   "/api/v1/admin/jobs/definitions"                  Administer  api::definitions::create;
        post   "/api/v1/admin/jobs/definitions/apply"            Administer  api::definitions::apply::apply;
        get    "/api/v1/admin/jobs/definitions/{definition_id}"  Administer  api::definitions::read;
        patch  "/api/v1/admin/jobs/definitions/{definition_id}"  Administer  api::definitions::change;
        get    "/api/v1/admin/tenants"                           Administer  api::admin::tenants::list;
        post   "/api/v1/admin/tenants"                           Administer  api::admin::tenants::create;
        get    "/api/v1/admin/tenants/{tenant_id}"               Administer  api::admin::tenants::read;
        patch  "/api/v1/admin/tenants/{tenant_id}"               Administer  api::admin::tenants::change;
        delete "/api/v1/admin/tenants/{tenant_id}"               Administer  api::admin::tenants::delete;
        get    "/api/v1/admin/queues"                            Administer  api::admin::operations::queues;
        post   "/api/v1/admin/queues/{queue}/pause"              Administer  api::admin::operations::pause;
        post   "/api/v1/admin/queues/{queue}/resume"             Administer  api::admin::operations::resume;
        get    "/api/v1/admin/workers"                           Administer  api::admin::operations::workers;
        post   "/api/v1/admin/workers/{worker_id}/drain"         Administer  api::admin::operations::drain_worker;
        post   "/api/v1/admin/workers/{worker_id}/resume"        Administer  api::admin::operations::resume_worker;
        get    "/api/v1/admin/limits"                            Administer  api::admin::operations::limits;
        patch  "/api/v1/admin/limits/{tenant_id}"                Administer  api::admin::operations::change_limits;
        get    "/api/v1/admin/summary"                           Administer  api::admin::operations::summary;
        get    "/api/v1/admin/tokens"                            ManageTokens   api::admin::tokens::list;
        post   "/api/v1/admin/tokens"                            ManageTokens   api::admin::tokens::create;
        post   "/api/v1/admin/tokens/{token_id}/rotate"          ManageTokens   api::admin::tokens::rotate;
        delete "/api/v1/admin/tokens/{token_id}"                 ManageTokens   api::admin::tokens::revoke;
        get    "/api/v1/admin/members"                           ManageMembers  api::admin::members::list;
        patch  "/api/v1/admin/members/{user_id}"                 ManageMembers  api::admin::members::change;
        delete "/api/v1/admin/members/{user_id}"                 ManageMembers  api::admin::members::remove;
        post   "/api/v1/admin/password-resets"                   ManageMembers  api::admin::members::reset_password;
        get    "/api/v1/admin/password-resets"                   ManageMembers  api::admin::members::password_resets;
        delete "/api/v1/admin/password-resets/{user_id}"         ManageMembers  api::admin::members::revoke_password_reset;
        get    "/api/v1/admin/invitations"                       ManageMembers  api::admin::invitations::list;
        post   "/api/v1/admin/invitations"                       ManageMembers  api::admin::invitations::create;
        delete "/api/v1/admin/invitations/{invitation_id}"       ManageMembers  api::admin::invitations::revoke;
        get    "/api/v1/admin/audit"                             ReadAudit      api::admin::audit::list;
        get    "/api/v1/admin/audit/head"                        ReadAudit      api::admin::audit::head;
        post   "/api/v1/admin/audit/verify"                      Administer     api::admin::audit::verify;
        // The worker protocol.
        post   "/api/v1/worker/register"                Work  api::worker::register;
        post   "/api/v1/worker/stop"                    Work  api::worker::stop;
        post   "/api/v1/worker/jobs/claim"              Work  api::worker::claim;
        post   "/api/v1/worker/jobs/{job_id}/heartbeat" Work  api::worker::heartbeat;
        post   "/api/v1/worker/jobs/{job_id}/complete"  Work  api::worker::complete;
        post   "/api/v1/worker/jobs/{job_id}/fail"      Work  api::worker::fail;
        post   "/api/v1/worker/jobs/{job_id}/snooze"    Work  api::worker::snooze;
        post   "/api/v1/worker/jobs/{job_id}/release"   Work  api::worker::release;
    }
    // For people: not in OpenAPI; callers without a session are redirected to the sign-in page.
    pages {
        get    "/api/openapi.json" Anyone    openapi::json;
        get    "/docs"             Anyone    docs::page;
        // Authenticates by itself: its callers are programs, which are not redirected.
        get    "/metrics"          Anyone    metrics::page;
        // The UI: see web.rs.
        get    "/"                                Anyone      web::preferences::home;
        get    "/ui"                              Anyone      web::preferences::home;
        get    "/ui/assets/{name}"                Anyone      web::assets::asset;
        post   "/ui/theme"                        Anyone      web::preferences::turn_theme;
        get    "/ui/sign-in"                      Anyone      web::sign_in::form;
        post   "/ui/sign-in"                      Anyone      web::sign_in::enter;
        post   "/ui/sign-out"                     Anyone      web::sign_in::leave;
        // Authenticate by themselves: the current tenant may have been deleted, and the holder of a link may have no
        // account yet.
        get    "/ui/tenant"                       Anyone      web::tenant_choice::show;
        post   "/ui/tenant"                       Anyone      web::tenant_choice::choose;
        get    "/ui/invitations/{secret}"         Anyone      web::invitation::show;
        post   "/ui/invitations/{secret}"         Anyone      web::invitation::act;
        get    "/ui/password-resets/{secret}"     Anyone      web::password_reset::show;
        post   "/ui/password-resets/{secret}"     Anyone      web::password_reset::set;
        get    "/ui/account"                      SignedIn    web::account::show;
        post   "/ui/account"                      SignedIn    web::account::change;
        get    "/ui/live"                         ReadJobs    web::live::stream;
        get    "/ui/jobs"                         ReadJobs    web::jobs::list;
        post   "/ui/jobs/act"                     WriteJobs   web::job_actions::act;
        get    "/ui/jobs/new"                     WriteJobs   web::new_job::form;
        post   "/ui/jobs/new"                     WriteJobs   web::new_job::enqueue;
        get    "/ui/jobs/{job_id}"                ReadJobs    web::job::show;
        get    "/ui/jobs/{job_id}/log"            ReadJobs    web::log::follow;
        get    "/ui/jobs/{job_id}/payload"        ReadJobs    web::job::payload;
        get    "/ui/jobs/{job_id}/result"         ReadJobs    web::job::result;
        get    "/ui/dead-letters"                 ReadJobs    web::dead_letters::list;
        post   "/ui/dead-letters"                 WriteJobs   web::dead_letters::retry;
        get    "/ui/triggers"                     ReadTriggers   web::triggers::list;
        get    "/ui/triggers/new"                 WriteTriggers  web::triggers::new;
        post   "/ui/triggers/new"                 WriteTriggers  web::triggers::create;
        post   "/ui/triggers/act"                 WriteTriggers  web::triggers::act;
        post   "/ui/triggers/dry-run"             ReadTriggers   web::triggers::dry_run;
        get    "/ui/triggers/{trigger_id}"        ReadTriggers   web::triggers::edit;
        post   "/ui/triggers/{trigger_id}"        WriteTriggers  web::triggers::change;
        get    "/ui/queues"                       ReadJobs    web::queues::list;
        post   "/ui/queues"                       Administer  web::queues::pause;
        get    "/ui/workers"                      Administer  web::workers::list;
        post   "/ui/workers"                      Administer  web::workers::set_draining;
        get    "/ui/overview"                     Administer  web::overview::show;
        get    "/ui/retention"                    ReadJobs    web::retention::show;
        get    "/ui/definitions"                  Administer  web::definitions::list;
        get    "/ui/definitions/new"              Administer  web::definitions::new;
        post   "/ui/definitions/new"              Administer  web::definitions::create;
        get    "/ui/definitions/{definition_id}"  Administer  web::definitions::edit;
        post   "/ui/definitions/{definition_id}"  Administer  web::definitions::change;
        get    "/ui/tenants"                      Administer  web::tenants::list;
        get    "/ui/tenants/new"                  Administer  web::tenants::new;
        post   "/ui/tenants/new"                  Administer  web::tenants::create;
        get    "/ui/tenants/find"                 Administer  web::tenants::find;
        get    "/ui/tenants/{tenant_id}"          Administer  web::tenants::edit;
        post   "/ui/tenants/{tenant_id}"          Administer  web::tenants::change;
        get    "/ui/members"                      ManageMembers  web::members::list;
        post   "/ui/members"                      ManageMembers  web::members::change;
        get    "/ui/members/new"                  ManageMembers  web::members::new;
        post   "/ui/members/new"                  ManageMembers  web::members::create;
        get    "/ui/tokens"                       ManageTokens   web::tokens::list;
        post   "/ui/tokens"                       ManageTokens   web::tokens::revoke;
        get    "/ui/tokens/new"                   ManageTokens   web::tokens::new;
        post   "/ui/tokens/new"                   ManageTokens   web::tokens::create;
        get    "/ui/audit"                        ReadAudit   web::audit::list;
        get    "/ui/components"                   Administer  web::components::show;
    }
}

/// One line of the table.
#[derive(Debug, Clone)]
pub struct Route {
    /// The HTTP method.
    pub method: Method,
    /// Parameters are written `{name}`.
    pub path: &'static str,
    /// The permission that it requires.
    pub permission: Permission,
    /// Who reads the response.
    pub audience: Audience,
    handler: fn() -> MethodRouter<App>,
}

/// Who reads the responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Programs: JSON, and problem documents.
    Programs,
    /// People: pages.
    People,
}

/// The whole server as one service.
pub(crate) fn router(app: &App) -> Router {
    let mut router = Router::new();
    for route in table() {
        let guarded = (route.handler)().route_layer(axum::middleware::from_fn_with_state(
            guard::Guarded {
                app: app.clone(),
                method: route.method,
                path: route.path,
                permission: route.permission,
                audience: route.audience,
            },
            guard::guard,
        ));
        router = router.route(route.path, guarded);
    }
    let router = router.fallback(not_found).method_not_allowed_fallback(|| async {
        Problem::of(ProblemKind::MethodNotAllowed, "this path does not support that method")
    });
    limits::around(router, app).with_state(app.clone())
}

/// A page below `/ui/`, a problem everywhere else.
async fn not_found(uri: axum::http::Uri) -> axum::response::Response {
    if uri.path().starts_with("/ui/") {
        return web::PageProblem(Problem::of(ProblemKind::NotFound, web::NO_PAGE)).into_response();
    }
    Problem::not_found("route").into_response()
}

/// The same service for a caller within this process, which needs no credential: it has access to the database anyway.
pub(crate) fn in_process(app: &App, caller: Caller) -> Router {
    router(app).layer(axum::Extension(guard::InProcess(caller)))
}

/// Turns the lines above into `table()` and into the list of documented handlers.
macro_rules! routes {
    (
        api { $($method:ident $path:literal $permission:ident $($part:ident)::+;)* }
        pages { $($page_method:ident $page_path:literal $page_permission:ident $($page_part:ident)::+;)* }
    ) => {
        /// Every route.
        pub fn table() -> Vec<Route> {
            vec![
                $(Route {
                    method: method!($method),
                    path: $path,
                    permission: Permission::$permission,
                    audience: Audience::Programs,
                    handler: || axum::routing::$method($($part)::+),
                },)*
                $(Route {
                    method: method!($page_method),
                    path: $page_path,
                    permission: Permission::$page_permission,
                    audience: Audience::People,
                    handler: || axum::routing::$page_method($($page_part)::+),
                },)*
            ]
        }

        #[derive(utoipa::OpenApi)]
        #[openapi(paths($($($part)::+),*), components(schemas(problem::ProblemBody)))]
        struct Documented;
    };
}
use routes;

/// The method of a line. One that is missing here does not compile.
macro_rules! method {
    (get) => {
        Method::GET
    };
    (post) => {
        Method::POST
    };
    (patch) => {
        Method::PATCH
    };
    (delete) => {
        Method::DELETE
    };
}
use method;
