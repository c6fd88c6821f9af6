//! What goes wrong, as `application/problem+json` (RFC 9457). The one place where the library's errors become HTTP. Nothing of
//! the inside is told: what is our fault is logged and answered with its request's id.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use windlass::Error;

/// Kinds of problems. Each has a stable `type` and always the same status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    Conflict,
    LeaseLost,
    PreconditionFailed,
    BodyTooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    QuotaReached,
    Internal,
    Unavailable,
    Timeout,
}

impl ProblemKind {
    pub const ALL: [Self; 17] = [
        Self::BadRequest,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::Conflict,
        Self::LeaseLost,
        Self::PreconditionFailed,
        Self::BodyTooLarge,
        Self::UnsupportedMediaType,
        Self::Invalid,
        Self::TooManyRequests,
        Self::QuotaReached,
        Self::Internal,
        Self::Unavailable,
        Self::Timeout,
    ];

    /// Whether a form can be shown again with it. What is forbidden is answered as such, and the guard writes it down.
    pub(crate) fn is_correctable(self) -> bool {
        self.status().is_client_error() && self != Self::Forbidden
    }

    pub const fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::Conflict | Self::LeaseLost => StatusCode::CONFLICT,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Self::TooManyRequests | Self::QuotaReached => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// The `type`, and the word for it in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "bad-request",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not-found",
            Self::MethodNotAllowed => "method-not-allowed",
            Self::RequestTimeout => "request-timeout",
            Self::Conflict => "conflict",
            Self::LeaseLost => "lease_lost",
            Self::PreconditionFailed => "precondition-failed",
            Self::BodyTooLarge => "body-too-large",
            Self::UnsupportedMediaType => "unsupported-media-type",
            Self::Invalid => "invalid",
            Self::TooManyRequests => "too-many-requests",
            Self::QuotaReached => "quota-reached",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
        }
    }

    /// The stable `type` as it is answered.
    pub fn urn(self) -> String {
        format!("urn:windlass:problem:{}", self.as_str())
    }

    /// What an answer of this kind looks like.
    pub fn example(self) -> serde_json::Value {
        let mut example = serde_json::json!({"type": self.urn(), "title": self.title(),
            "status": self.status().as_u16(), "detail": self.example_detail()});
        if self == Self::Invalid {
            example["errors"] =
                serde_json::json!([{"pointer": "/payload/provider_id", "message": "is not a valid uuid"}]);
        }
        example
    }

    const fn example_detail(self) -> &'static str {
        match self {
            Self::BadRequest => "the body is not UTF-8",
            Self::Unauthorized => "send a valid token as `Authorization: Bearer …`, or sign in",
            Self::Forbidden => "it needs the permission jobs:write",
            Self::NotFound => "there is no such job",
            Self::MethodNotAllowed => "this address does not take that method",
            Self::RequestTimeout => "the body did not arrive in time",
            Self::Conflict => "it has ended as succeeded already",
            Self::LeaseLost => "this attempt is not yours any more: its lease ran out, or it has ended",
            Self::PreconditionFailed => "the definition was changed in the meantime",
            Self::BodyTooLarge => "a body has at most 4194304 bytes",
            Self::UnsupportedMediaType => "send application/json, without a content encoding",
            Self::Invalid => "payload/provider_id: is not a valid uuid",
            Self::TooManyRequests => "at most 60000 requests per minute",
            Self::QuotaReached => "the tenant has all the jobs it may have",
            Self::Internal => "the failure was logged",
            Self::Unavailable => "the database cannot be reached at the moment; try again",
            Self::Timeout => "no answer was found in time",
        }
    }

    pub const fn title(self) -> &'static str {
        match self {
            Self::BadRequest => "The request cannot be read",
            Self::Unauthorized => "A valid credential is needed",
            Self::Forbidden => "This credential may not do that",
            Self::NotFound => "Not found",
            Self::MethodNotAllowed => "Method not allowed",
            Self::RequestTimeout => "The request took too long to arrive",
            Self::Conflict => "It conflicts with what is there",
            Self::LeaseLost => "The lease was lost",
            Self::PreconditionFailed => "It was changed in the meantime",
            Self::BodyTooLarge => "The body is too large",
            Self::UnsupportedMediaType => "The body has to be JSON",
            Self::Invalid => "Some input is not valid",
            Self::TooManyRequests => "Too many requests",
            Self::QuotaReached => "The tenant's quota is reached",
            Self::Internal => "Something went wrong here",
            Self::Unavailable => "Not available at the moment",
            Self::Timeout => "It took too long",
        }
    }
}

/// What is answered instead of what was asked for.
#[derive(Debug, Clone)]
pub struct Problem {
    pub kind: ProblemKind,
    pub detail: String,
    pub errors: Vec<Fault>,
    pub retry_after: Option<u64>,
    /// The page where a person can do something about it.
    pub solved_at: Option<&'static str>,
}

/// One thing that is wrong with the input.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Fault {
    /// Where: an RFC 6901 pointer into the body, or `?name` for a query parameter.
    #[schema(example = "/payload/provider_id")]
    pub pointer: String,
    /// What was expected.
    #[schema(example = "is not a valid uuid")]
    pub message: String,
}

/// The form of every failure.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody {
    /// Stable: `urn:windlass:problem:` and a word.
    #[serde(rename = "type")]
    #[schema(example = "urn:windlass:problem:invalid")]
    kind: String,
    #[schema(example = "Some input is not valid")]
    title: &'static str,
    #[schema(example = 422)]
    status: u16,
    #[schema(example = "definition_key: must have 1 to 500 bytes")]
    detail: String,
    /// What is wrong with the input, place by place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Fault>,
}

impl Problem {
    pub fn of(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), errors: Vec::new(), retry_after: None, solved_at: None }
    }

    /// Bad input, with its place.
    pub fn invalid(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        let fault = Fault { pointer: pointer.into(), message: message.into() };
        let name = fault.pointer.trim_start_matches(['/', '?']);
        let detail =
            if name.is_empty() { fault.message.clone() } else { format!("{name}: {}", fault.message) };
        Self { errors: vec![fault], ..Self::of(ProblemKind::Invalid, detail) }
    }

    /// Every failed authentication looks like this one.
    pub fn unauthorized() -> Self {
        Self::of(ProblemKind::Unauthorized, "send a valid token as `Authorization: Bearer …`, or sign in")
    }

    /// For what is not there, and for what is another tenant's: nobody can tell them apart.
    pub fn not_found(what: &str) -> Self {
        Self::of(ProblemKind::NotFound, format!("there is no such {what}"))
    }

    /// Sends whoever reads pages to where they can do something about it.
    #[must_use]
    pub fn solved_at(mut self, page: &'static str) -> Self {
        self.solved_at = Some(page);
        self
    }

    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Refused { field, pointer, message } => {
                Self::invalid(format!("/{}{}", field.replace('.', "/"), pointer.unwrap_or_default()), message)
            }
            Error::UnknownDefinition { .. } | Error::InactiveDefinition { .. } => {
                Self::invalid("/definition_key", text)
            }
            Error::TooManyLanes { field, message } => Self::invalid(format!("/{field}"), message),
            Error::TooManyTriggers { .. } => Self::of(ProblemKind::QuotaReached, text),
            Error::TenantRefused { .. } => Self::of(ProblemKind::Forbidden, text),
            Error::UnknownJob { .. } => Self::not_found("job"),
            Error::Unknown { what } => Self::not_found(what),
            Error::IdempotencyConflict { .. }
            | Error::RequestKeyTaken { .. }
            | Error::DedupeSlotTaken { .. }
            | Error::NotFinished { .. }
            | Error::Held { .. }
            | Error::Taken { .. } => Self::of(ProblemKind::Conflict, text),
            Error::Changed { .. } => Self::of(ProblemKind::PreconditionFailed, text),
            Error::Busy => Self::of(ProblemKind::TooManyRequests, text).retry_after(1),
            Error::QuotaReached { .. } => Self::of(ProblemKind::QuotaReached, text).retry_after(5),
            error if error.is_timeout() => {
                tracing::warn!(%error, "a statement took too long");
                Self::of(ProblemKind::Timeout, "the database took too long to answer; ask for less")
            }
            error if error.is_transient() => {
                tracing::warn!(%error, "the database did not answer");
                let detail = "the database cannot be reached at the moment; try again";
                Self::of(ProblemKind::Unavailable, detail).retry_after(2)
            }
            error => {
                tracing::error!(%error, "a request failed");
                Self::of(ProblemKind::Internal, "the failure was logged")
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.kind.status();
        let body = ProblemBody {
            kind: self.kind.urn(),
            title: self.kind.title(),
            status: status.as_u16(),
            detail: self.detail,
            errors: self.errors,
        };
        let mut response = (status, axum::Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
