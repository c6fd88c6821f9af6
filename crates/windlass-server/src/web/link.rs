//! What stands behind a link whose address holds a secret: taken from the request in one place, and refused there.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use windlass::internals::{InvitedTo, ResetOf};

use super::page::{PageProblem, dead_link};
use super::viewer::theme;
use crate::auth::{LinkSecret, accounts, session};
use crate::http::{App, Problem, Segment, host};

/// A link that is valid: its secret, and what it is for.
pub(crate) struct Link<T> {
    pub(crate) secret: LinkSecret,
    pub(crate) of: T,
}

/// What a link can be for.
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
        // Before anything is looked up: another site's page learns nothing of a link.
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

/// Whoever makes up links is held to a rate.
async fn found<T: Linked>(app: &App, given: &str, from: &session::From) -> Result<(LinkSecret, T), Problem> {
    let lookup = app.authenticator().lookups().begin(from.address.as_deref()).await?;
    let found = T::find(app, given).await?;
    lookup.found();
    Ok(found)
}
