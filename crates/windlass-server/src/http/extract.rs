//! The extractors of the handlers. Each rejects invalid input with a problem that names the location and the expectation.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use uuid::Uuid;
use windlass::internals::text::json::{self, JsonLimits};

use super::app::App;
use super::bodies::{Held, read};
use super::host;
use super::limits::RequestId;
use super::problem::{Problem, ProblemKind};
use crate::auth::Caller;
use crate::parser_messages::{field_of, plain};
use crate::server::client_of;
use crate::strict_json::StrictJson;

/// A JSON body. Unknown fields are rejected by the types themselves (`deny_unknown_fields`). So is a name that occurs twice in an
/// object, at any depth; in a body with a payload only in its own fields, because in a payload the last one counts.
#[derive(Debug)]
pub(crate) struct Body<T, const HAS_PAYLOAD: bool = false> {
    pub(crate) value: T,
    /// A hash of the route and the body: identifies a repeated request.
    pub(crate) fingerprint: Vec<u8>,
    /// The share of the memory budget, held as long as this.
    _held: Held,
}

/// The limits of a whole request; the library has lower ones for a payload.
const MAX_DEPTH: usize = 40;
const MAX_NODES: usize = 250_000;

/// A JSON body that contains data of the application.
pub(crate) type PayloadBody<T> = Body<T, true>;

impl<T: DeserializeOwned, const HAS_PAYLOAD: bool> FromRequest<App> for Body<T, HAS_PAYLOAD> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        check_content(request.headers())?;
        let place = format!("{} {}", request.method(), request.uri().path());
        let options = app.options();
        let (bytes, held) = read(request, app, options.max_body_bytes).await?;
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| Problem::of(ProblemKind::BadRequest, "the body must be UTF-8"))?;
        let limits =
            JsonLimits { max_bytes: options.max_body_bytes, max_depth: MAX_DEPTH, max_nodes: MAX_NODES };
        json::check(text, &limits).map_err(|error| match error.problem {
            json::JsonProblem::Syntax { .. } => {
                Problem::of(ProblemKind::BadRequest, error.problem.to_string())
            }
            problem => Problem::invalid(error.pointer, problem.to_string()),
        })?;
        // serde would also accept an array of the fields in order, which is never intended.
        if !text.trim_start().starts_with('{') {
            return Err(Problem::invalid("", "must be an object"));
        }
        if !HAS_PAYLOAD {
            parse::<StrictJson>(text)?;
        }
        let mut fingerprint = Sha256::new();
        fingerprint.update(place.as_bytes());
        fingerprint.update([0]);
        fingerprint.update(&bytes);
        Ok(Self { value: parse(text)?, fingerprint: fingerprint.finalize().to_vec(), _held: held })
    }
}

/// A request whose raw body is signed. The head comes first, so that the body of an unsigned request is not read.
#[derive(Debug)]
pub(crate) struct Raw {
    request: Request,
    pub(crate) from_address: Option<String>,
    pub(crate) request_id: Option<String>,
}

/// Any JSON value that the library accepts.
#[derive(Debug)]
pub(crate) struct RawBody {
    pub(crate) bytes: Bytes,
    pub(crate) headers: HeaderMap,
    _held: Held,
}

impl FromRequest<App> for Raw {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &App) -> Result<Self, Problem> {
        check_content(request.headers())?;
        let from_address = client_of(request.extensions()).map(|address| address.to_string());
        let request_id = request.extensions().get::<RequestId>().map(|id| id.0.clone());
        Ok(Self { request, from_address, request_id })
    }
}

impl Raw {
    pub(crate) fn headers(&self) -> &HeaderMap {
        self.request.headers()
    }

    pub(crate) async fn read(self, app: &App) -> Result<RawBody, Problem> {
        let headers = self.request.headers().clone();
        let (bytes, held) = read(self.request, app, app.options().max_body_bytes).await?;
        Ok(RawBody { bytes, headers, _held: held })
    }
}

/// Only JSON, and not compressed: a small body must not become a large one.
fn check_content(headers: &HeaderMap) -> Result<(), Problem> {
    let content =
        headers.get(header::CONTENT_TYPE).and_then(|content| content.to_str().ok()).unwrap_or_default();
    let essence = content.split(';').next().unwrap_or_default().trim();
    let is_json = essence.eq_ignore_ascii_case("application/json")
        || (essence.len() > 5 && essence[essence.len() - 5..].eq_ignore_ascii_case("+json"));
    let encoding = headers.get(header::CONTENT_ENCODING);
    if !is_json || encoding.is_some_and(|encoding| encoding != "identity") {
        let detail = "the content type must be application/json, without a content encoding";
        return Err(Problem::of(ProblemKind::UnsupportedMediaType, detail));
    }
    Ok(())
}

/// Parses a value; an error has the pointer of the invalid part.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    let mut from = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut from).map_err(|error| {
        let mut pointer: String = error.path().iter().map(pointer_part).collect();
        let message = error.inner().to_string();
        if let Some(field) = field_of(&message) {
            let part = format!("/{field}");
            if !pointer.ends_with(&part) {
                pointer.push_str(&part);
            }
        }
        Problem::invalid(pointer, plain(&message))
    })
}

/// For a field that is an object: an array in its place is rejected, as for a whole body.
pub(crate) fn object<'de, T: DeserializeOwned, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    use serde::de::Error as _;
    let value = Option::<serde_json::Value>::deserialize(from)?;
    match value {
        None => Ok(None),
        Some(value) if value.is_object() => {
            serde_path_to_error::deserialize(value).map(Some).map_err(|error| {
                let path = error.path().to_string();
                let message = plain(&error.inner().to_string());
                D::Error::custom(format_args!("{path}: {message}"))
            })
        }
        Some(_) => Err(D::Error::custom("must be an object")),
    }
}

fn pointer_part(segment: &serde_path_to_error::Segment) -> String {
    use serde_path_to_error::Segment;
    match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        Segment::Enum { variant } => format!("/{variant}"),
        Segment::Unknown => String::new(),
    }
}

/// Query parameters. Unknown ones are rejected by the types themselves.
#[derive(Debug)]
pub(crate) struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        query(&parts.uri).map(Self)
    }
}

/// Parses the query of a URI.
pub(crate) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    if uri.query().is_some_and(|query| query.contains("%00")) {
        return Err(Problem::invalid("?", "must not contain the NUL character"));
    }
    axum::extract::Query::<T>::try_from_uri(uri).map(|query| query.0).map_err(|rejection| {
        let mut cause: &dyn std::error::Error = &rejection;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let message = cause.to_string();
        if message.starts_with("unknown field `") {
            let field = field_of(&message).unwrap_or_default();
            return Problem::invalid(format!("?{field}"), "is not a parameter of this route");
        }
        if let Some(field) = field_of(&message) {
            return Problem::invalid(format!("?{field}"), plain(&message));
        }
        // axum prefixes the message with the name of the parameter.
        let whole = rejection.body_text();
        let name = whole
            .strip_prefix("Failed to deserialize query string: ")
            .and_then(|rest| rest.split(": ").next())
            .filter(|name| !name.contains(' '));
        let name = name.unwrap_or_default();
        let message = plain(message.strip_prefix(&format!("{name}: ")).unwrap_or(&message));
        Problem::invalid(format!("?{name}"), message)
    })
}

/// The id in a path. An invalid id is treated like one that does not exist.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Id(pub Uuid);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Segment(text) = Segment::from_request_parts(parts, state).await?;
        Uuid::try_parse(&text).map(Self).map_err(|_| Problem::not_found("id"))
    }
}

/// The name in a path. A name that cannot be stored is treated like one that does not exist.
#[derive(Debug, Clone)]
pub(crate) struct Segment(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let text = axum::extract::Path::<String>::from_request_parts(parts, state).await;
        let name = text.ok().map(|text| text.0).filter(|text| !text.contains('\0'));
        name.map(Self).ok_or_else(|| Problem::not_found("name"))
    }
}

/// The version in If-Match; none without the header and for `*`.
pub(crate) fn expected_version(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(given) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let text =
        given.to_str().map_err(|_| Problem::of(ProblemKind::BadRequest, "If-Match must be ASCII text"))?;
    let tag = text.trim().trim_start_matches("W/").trim_matches('"');
    Ok((tag != "*").then(|| tag.to_owned()))
}

/// The Idempotency-Key of a request that creates something, and the tenant it belongs to: that of the caller. The key of a
/// super-admin without a tenant belongs to the installation.
#[derive(Debug, Clone)]
pub(crate) struct IdempotencyKey {
    pub(crate) key: Option<String>,
    pub(crate) tenant: Option<Uuid>,
}

const MAX_KEY_LENGTH: usize = 200;

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let tenant = parts.extensions.get::<Caller>().and_then(|caller| caller.tenant);
        let Some(given) = parts.headers.get("idempotency-key") else { return Ok(Self { key: None, tenant }) };
        let is_key = |key: &&str| {
            (1..=MAX_KEY_LENGTH).contains(&key.len()) && key.bytes().all(|letter| letter.is_ascii_graphic())
        };
        let key = given.to_str().ok().filter(is_key).map(str::to_owned);
        key.map(|key| Self { key: Some(key), tenant }).ok_or_else(|| {
            let detail = format!(
                "Idempotency-Key must have 1 to {MAX_KEY_LENGTH} printable ASCII characters and no space"
            );
            Problem::of(ProblemKind::BadRequest, detail)
        })
    }
}

/// The URL of this server as seen by the client: for examples to copy.
#[derive(Debug, Clone)]
pub(crate) struct BaseUrl(pub(crate) String);

impl FromRequestParts<App> for BaseUrl {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        if let Some(url) = &app.options().public_url {
            return Ok(Self(url.trim_end_matches('/').to_owned()));
        }
        let host = host::of(parts).unwrap_or("127.0.0.1");
        Ok(Self(format!("{}://{host}", host::scheme(parts, app))))
    }
}

/// The URL of this server for links that are sent to other people. The host name of a request can be forged by its sender or by a
/// name server; so without a configured URL only an IP address or `localhost` is accepted.
#[derive(Debug, Clone)]
pub(crate) struct LinkUrl(pub(crate) String);

impl FromRequestParts<App> for LinkUrl {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        if app.options().public_url.is_none() && !host::of(parts).is_some_and(host::is_bare) {
            let detail = "cannot create a link: set http.public_url, or call the server by its IP address";
            return Err(Problem::of(ProblemKind::Conflict, detail));
        }
        BaseUrl::from_request_parts(parts, app).await.map(|base| Self(base.0))
    }
}
