//! Failures as `application/problem+json` (RFC 9457). The only place where errors of the library become HTTP responses. No
//! internals are exposed: an internal error is logged, and the response has only the request id.

use std::time::{Duration, Instant};

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use serde::Serialize;
use utoipa::ToSchema;
use windlass::Error;

use super::timeout_advice;
use crate::parser_messages::plain;

/// The kinds of problems. Each has a stable `type` and a fixed status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// The request cannot be parsed.
    BadRequest,
    /// The credential is missing or invalid.
    Unauthorized,
    /// The credential lacks a permission.
    Forbidden,
    /// The object does not exist, or belongs to another tenant.
    NotFound,
    /// The path has no such method.
    MethodNotAllowed,
    /// The client sent the request too slowly.
    RequestTimeout,
    /// The request contradicts the current state.
    Conflict,
    /// The attempt is no longer current.
    LeaseLost,
    /// The object has changed since it was read.
    PreconditionFailed,
    /// The body is too large.
    BodyTooLarge,
    /// The body has another content type.
    UnsupportedMediaType,
    /// A field is invalid.
    Invalid,
    /// A rate limit is reached.
    TooManyRequests,
    /// The tenant has reached its quota of jobs.
    QuotaReached,
    /// An error of the server, which is in its log.
    Internal,
    /// The database cannot be reached, or the server stops.
    Unavailable,
    /// Another transaction conflicted; the same request may succeed when repeated.
    Contention,
    /// The request took too long.
    Timeout,
}

impl ProblemKind {
    /// Every kind.
    pub const ALL: [Self; 18] = [
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
        Self::Contention,
        Self::Timeout,
    ];

    /// Whether the user can correct the input, so that the form is shown again. A denial is not correctable; the guard records it.
    pub(crate) fn is_correctable(self) -> bool {
        self.status().is_client_error() && self != Self::Forbidden
    }

    /// Returns the status of the response.
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
            Self::Unavailable | Self::Contention => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// The last part of the `type`; also used in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "bad-request",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not-found",
            Self::MethodNotAllowed => "method-not-allowed",
            Self::RequestTimeout => "request-timeout",
            Self::Conflict => "conflict",
            Self::LeaseLost => "lease-lost",
            Self::PreconditionFailed => "precondition-failed",
            Self::BodyTooLarge => "body-too-large",
            Self::UnsupportedMediaType => "unsupported-media-type",
            Self::Invalid => "invalid",
            Self::TooManyRequests => "too-many-requests",
            Self::QuotaReached => "quota-reached",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
            Self::Contention => "contention",
            Self::Timeout => "timeout",
        }
    }

    /// The stable `type`.
    pub fn urn(self) -> String {
        format!("urn:windlass:problem:{}", self.as_str())
    }

    /// An example response of this kind.
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
            Self::BadRequest => "the body must be UTF-8",
            Self::Unauthorized => "send a valid token as `Authorization: Bearer …`, or sign in",
            Self::Forbidden => "requires the permission jobs:write",
            Self::NotFound => "job not found",
            Self::MethodNotAllowed => "this path does not support that method",
            Self::RequestTimeout => "the body did not arrive in time",
            Self::Conflict => "the job has already succeeded",
            Self::LeaseLost => "the attempt is no longer current: its lease expired, or it has ended",
            Self::PreconditionFailed => "the definition has changed since it was read",
            Self::BodyTooLarge => "the body must have at most 4194304 bytes",
            Self::UnsupportedMediaType => {
                "the content type must be application/json, without a content encoding"
            }
            Self::Invalid => "payload/provider_id: is not a valid uuid",
            Self::TooManyRequests => "at most 60000 requests per minute",
            Self::QuotaReached => "the tenant has reached its job quota",
            Self::Internal => "the error was logged",
            Self::Unavailable => "the database cannot be reached; try again later",
            Self::Contention => {
                "another transaction changed the same rows, so this one was rolled back and nothing was changed; try again"
            }
            Self::Timeout => "the request took too long",
        }
    }

    /// Returns the title, which is the same for every problem of the kind.
    pub const fn title(self) -> &'static str {
        match self {
            Self::BadRequest => "Malformed request",
            Self::Unauthorized => "Authentication required",
            Self::Forbidden => "Permission denied",
            Self::NotFound => "Not found",
            Self::MethodNotAllowed => "Method not allowed",
            Self::RequestTimeout => "Request timeout",
            Self::Conflict => "Conflict",
            Self::LeaseLost => "Lease lost",
            Self::PreconditionFailed => "Precondition failed",
            Self::BodyTooLarge => "Request body too large",
            Self::UnsupportedMediaType => "Unsupported media type",
            Self::Invalid => "Invalid input",
            Self::TooManyRequests => "Too many requests",
            Self::QuotaReached => "Quota reached",
            Self::Internal => "Internal error",
            Self::Unavailable => "Service unavailable",
            Self::Contention => "Concurrent change",
            Self::Timeout => "Timeout",
        }
    }
}

/// The response of a failed request.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Its kind.
    pub kind: ProblemKind,
    /// What happened in this case.
    pub detail: String,
    /// The errors in the input.
    pub errors: Vec<Fault>,
    /// After how many seconds the request can be repeated.
    pub retry_after: Option<u64>,
    /// The page where the user can resolve it.
    pub remedy_page: Option<&'static str>,
}

/// One error in the input.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Fault {
    /// The location: an RFC 6901 pointer into the body, or `?name` for a query parameter.
    #[schema(example = "/payload/provider_id")]
    pub pointer: String,
    /// What is wrong, or what was expected.
    #[schema(example = "is not a valid uuid")]
    pub message: String,
}

/// The body of every failed request.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody {
    /// A stable identifier: `urn:windlass:problem:` and the kind.
    #[serde(rename = "type")]
    #[schema(example = "urn:windlass:problem:invalid")]
    kind: String,
    #[schema(example = "Invalid input")]
    title: &'static str,
    #[schema(example = 422)]
    status: u16,
    #[schema(example = "definition_key: must have 1 to 500 bytes")]
    detail: String,
    /// The errors in the input, with their locations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Fault>,
}

impl Problem {
    /// Creates a problem.
    pub fn of(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), errors: Vec::new(), retry_after: None, remedy_page: None }
    }

    /// Invalid input, with its location.
    pub fn invalid(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        let fault = Fault { pointer: pointer.into(), message: message.into() };
        let name = fault.pointer.trim_start_matches(['/', '?']);
        let detail =
            if name.is_empty() { fault.message.clone() } else { format!("{name}: {}", fault.message) };
        Self { errors: vec![fault], ..Self::of(ProblemKind::Invalid, detail) }
    }

    /// Every failed authentication has this response.
    pub fn unauthorized() -> Self {
        Self::of(ProblemKind::Unauthorized, "send a valid token as `Authorization: Bearer …`, or sign in")
    }

    /// For objects that do not exist, and for those of another tenant: the two cannot be distinguished.
    pub fn not_found(what: &str) -> Self {
        Self::of(ProblemKind::NotFound, format!("{what} not found"))
    }

    /// The page to which a user of the web UI is sent.
    #[must_use]
    pub fn remedy_page(mut self, page: &'static str) -> Self {
        self.remedy_page = Some(page);
        self
    }

    /// Sets after how many seconds the request can be repeated.
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
                let pointer = format!("/{}{}", field.replace('.', "/"), pointer.unwrap_or_default());
                Self::invalid(pointer, plain(&message))
            }
            Error::PayloadRefused { faults } => {
                let fault = |(pointer, message)| Fault { pointer: format!("/payload{pointer}"), message };
                let errors = faults.into_iter().map(fault).collect();
                Self { errors, ..Self::of(ProblemKind::Invalid, text) }
            }
            Error::UnknownDefinition { .. } | Error::InactiveDefinition { .. } => {
                Self::invalid("/definition_key", text)
            }
            Error::TooManyLanes { field, message } => Self::invalid(format!("/{field}"), message),
            // This persists until a trigger is deleted or the limit is raised.
            Error::TooManyTriggers { .. } => Self::of(ProblemKind::QuotaReached, text).retry_after(60),
            Error::UnknownJob { .. } => Self::not_found("job"),
            Error::Unknown { what } => Self::not_found(what),
            Error::TenantRefused { .. }
            | Error::IdempotencyConflict { .. }
            | Error::RequestKeyTaken { .. }
            | Error::DedupeSlotTaken { .. }
            | Error::NotFinished { .. }
            | Error::DeadlinePassed { .. }
            | Error::Held { .. }
            | Error::Taken { .. } => Self::of(ProblemKind::Conflict, text),
            Error::Changed { .. } => Self::of(ProblemKind::PreconditionFailed, text),
            Error::Locked { .. } => Self::of(ProblemKind::Conflict, text).retry_after(5),
            Error::Busy { .. } => Self::of(ProblemKind::TooManyRequests, text).retry_after(1),
            Error::QuotaReached { .. } => Self::of(ProblemKind::QuotaReached, text).retry_after(5),
            Error::Contended { .. } => {
                tracing::warn!(error = text, "a transaction was rolled back");
                Self::of(ProblemKind::Contention, text).retry_after(1)
            }
            Error::UnknownDatabase { .. } | Error::LoginRejected { .. } => {
                tracing::error!(error = text, "the database cannot be used");
                let detail = "the server cannot use its database; the error was logged";
                Self::of(ProblemKind::Unavailable, detail).retry_after(10)
            }
            Error::TransactionTimeout { .. } => Self::of(ProblemKind::Timeout, text),
            error if error.is_timeout() => {
                tracing::warn!(%error, "a database statement timed out");
                Self::of(ProblemKind::Timeout, timeout_advice::after_a_timeout())
            }
            error if error.is_transient() => {
                if is_due() {
                    tracing::warn!(%error, "the database is unavailable");
                }
                let detail = "the database cannot be reached; try again later";
                Self::of(ProblemKind::Unavailable, detail).retry_after(2)
            }
            error => {
                tracing::error!(%error, "a request failed");
                Self::of(ProblemKind::Internal, "the error was logged")
            }
        }
    }
}

/// Whether to log that the database is unavailable: every request fails then, and one line every few seconds says so.
fn is_due() -> bool {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = LAST.lock();
    let is_due = last.is_none_or(|last| last.elapsed() >= Duration::from_secs(5));
    if is_due {
        *last = Some(Instant::now());
    }
    is_due
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
