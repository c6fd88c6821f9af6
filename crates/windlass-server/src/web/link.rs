//! Links whose URL contains a secret: extracted from the request and checked in one place.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use windlass::internals::{InvitedTo, ResetOf};

use super::problem::{PageProblem, dead_link};
use super::viewer::theme;
use crate::auth::{LinkSecret, accounts, session};
use crate::http::{App, Problem, Segment, host};

/// A valid link: its secret, and its purpose.
pub(crate) struct Link<T> {
    pub(crate) secret: LinkSecret,
    pub(crate) of: T,
}

/// The purpose of a link.
pub(crate) trait Linked: Sized {
    fn find(app: &App, secret: &str) -> impl Future<Output = Result<(LinkSecret, Self), Problem>> + Send;
}

impl Linked for InvitedTo {
    async fn find(app: &App, secret: &str) -> Result<(LinkSecret, Self), Problem> {
        accounts::invitation(app, secret).await
    }
}

impl Linked for ResetOf {
    async fn find(app: &App, secret: &str) -> Result<(LinkSecret, Self), Problem> {
        accounts::reset(app, secret).await
    }
}

impl<T: Linked> FromRequestParts<App> for Link<T> {
    type Rejection = Response;

    async fn from_request_parts(request: &mut Parts, app: &App) -> Result<Self, Response> {
        // Before any lookup: a page of another site must not learn anything about a link.
        if host::changes_something(&request.method) {
            host::check_same_origin(request, app).map_err(|problem| PageProblem(problem).into_response())?;
        }
        let given = Segment::from_request_parts(request, app)
            .await
            .map_or_else(|_| String::new(), |segment| segment.0);
        let Ok(from) = session::From::from_request_parts(request, app).await;
        let found = found(app, &given, &from).await;
        let (secret, of) = found.map_err(|problem| dead_link(problem, theme(&request.headers)))?;
        Ok(Self { secret, of })
    }
}

/// Lookups of invalid links have a rate limit.
async fn found<T: Linked>(app: &App, given: &str, from: &session::From) -> Result<(LinkSecret, T), Problem> {
    let lookup = app.authenticator().lookups().begin(from.address.as_deref()).await?;
    let found = T::find(app, given).await;
    if matches!(&found, Err(problem) if problem.kind.is_correctable()) {
        lookup.failed();
    }
    found
}
