//! The parameters in the URL of a page: the extractors of the API, with an error page instead of a problem document.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::problem::PageProblem;
use crate::http;

/// Query parameters. Unknown ones are ignored, because people type and bookmark URLs.
#[derive(Debug)]
pub(crate) struct UiQuery<T>(pub(crate) T);

/// The name in a path.
#[derive(Debug)]
pub(crate) struct PathSegment(pub(crate) String);

/// The id in a path.
#[derive(Debug)]
pub(crate) struct PathId(pub(crate) Uuid);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for UiQuery<T> {
    type Rejection = PageProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, PageProblem> {
        Ok(Self(http::query(&parts.uri)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathSegment {
    type Rejection = PageProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, PageProblem> {
        Ok(Self(http::Segment::from_request_parts(parts, state).await?.0))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = PageProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, PageProblem> {
        Ok(Self(http::Id::from_request_parts(parts, state).await?.0))
    }
}
