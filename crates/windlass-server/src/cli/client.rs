//! The API client of the commands: over HTTP to a server, or through the same routes within this process on a database given by
//! its URL. Both use the same code, so that a command behaves the same either way.

mod events;
mod problem;

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use serde_json::Value;
use tower::ServiceExt;

use super::exit::{Exit, Failure};
use super::print;
use events::EventReader;
use problem::problem_failure;

/// The timeout of a call that is not a stream.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// The token file that is read if none is given: `windlass up` writes it there.
pub(crate) const DEFAULT_TOKEN_FILE: &str = ".windlass/admin-token";

/// The URL of its database, as long as `windlass up` runs.
pub(crate) const DEFAULT_DATABASE_URL_FILE: &str = ".windlass/database-url";

type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, Failure>> + Send>>;

#[derive(Clone)]
pub(crate) struct Client {
    target: Target,
    /// The id of the tenant, and the name by which it was given.
    tenant: Option<(String, String)>,
}

#[derive(Clone)]
enum Target {
    Server { http: reqwest::Client, url: String, token: Option<ClientToken> },
    Database(Box<axum::Router>),
}

/// An API token, and where it was found.
#[derive(Clone)]
pub(crate) struct ClientToken {
    secret: String,
    source: String,
}

/// A response whose body has not been read.
struct Response {
    status: StatusCode,
    chunks: Chunks,
}

impl Client {
    pub(crate) fn to_server(url: &str, token: Option<ClientToken>) -> Result<Self, Failure> {
        let http = reqwest::Client::builder()
            .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(5))
            .build()
            .map_err(|error| Failure::usage(format!("cannot create an HTTP client: {error}")))?;
        let url = url.trim_end_matches('/').to_owned();
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(Failure::usage(format!("--server {url}: must be an http:// or https:// URL")));
        }
        Ok(Self { target: Target::Server { http, url, token }, tenant: None })
    }

    /// The routes of this program on a database, with all permissions: the database password grants them anyway.
    pub(crate) fn to_database(routes: axum::Router) -> Self {
        Self { target: Target::Database(Box::new(routes)), tenant: None }
    }

    /// Sets the tenant, by id or slug.
    pub(crate) async fn for_tenant(mut self, name: Option<&str>) -> Result<Self, Failure> {
        if let Some(name) = name {
            self.tenant = Some((self.tenant_id(name).await?, name.to_owned()));
        }
        Ok(self)
    }

    /// Adds the slug of the tenant to each row as `tenant`: `all` for the installation, the id if the caller may not list tenants.
    pub(crate) async fn name_tenants(&self, rows: &mut [Value]) {
        let tenants = self.all("/api/v1/admin/tenants", &[]).await.unwrap_or_default();
        for row in rows {
            let id = print::text(print::at(row, "tenant_id"));
            let slug = tenants.iter().find(|tenant| print::at(tenant, "id") == id.as_str());
            let slug = slug.map(|tenant| print::text(print::at(tenant, "slug")));
            let is_all = id.parse() == Ok(windlass::admin::INSTALLATION);
            row["tenant"] = Value::from(if is_all { "all".to_owned() } else { slug.unwrap_or(id) });
        }
    }

    /// The id of a tenant given by id or slug.
    pub(crate) async fn tenant_id(&self, name: &str) -> Result<String, Failure> {
        if name.parse::<uuid::Uuid>().is_ok() {
            return Ok(name.to_owned());
        }
        // Only a super-admin may list the tenants; any other credential belongs to one.
        let me = self.get("/api/v1/me", &[]).await?;
        if print::at(&me, "role") != "super_admin" {
            let own = print::text(print::at(&me, "tenant_slug"));
            if own == name {
                return Ok(print::text(print::at(&me, "tenant_id")));
            }
            return Err(Failure::new(
                Exit::Denied,
                format!("this token belongs to the tenant {own}, not to {name}"),
            )
            .advise("omit --tenant and WINDLASS_TENANT, or use a token of that tenant"));
        }
        let tenants = self.all("/api/v1/admin/tenants", &[]).await?;
        let found = tenants.iter().find(|tenant| print::at(tenant, "slug") == name);
        found.map(|tenant| print::text(print::at(tenant, "id"))).ok_or_else(|| {
            Failure::new(Exit::Missing, format!("tenant {name:?} not found"))
                .advise("`windlass tenants list` lists the tenants")
        })
    }

    pub(crate) async fn get(&self, path: &str, query: &[(&str, String)]) -> Result<Value, Failure> {
        self.call(Method::GET, &with_query(path, query), None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Result<Value, Failure> {
        self.call(Method::POST, path, Some(body)).await
    }

    /// Creates something. Returns whether it is new, and the new or the existing object.
    pub(crate) async fn create(&self, path: &str, body: Value) -> Result<(bool, Value), Failure> {
        let (status, body) = self.exchange(Method::POST, path, Some(body)).await?;
        Ok((status == StatusCode::CREATED, body))
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Result<Value, Failure> {
        self.call(Method::PATCH, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Value, Failure> {
        self.call(Method::DELETE, path, None).await
    }

    /// Every item of a list, page by page.
    pub(crate) async fn all(&self, path: &str, query: &[(&str, String)]) -> Result<Vec<Value>, Failure> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut query = query.to_vec();
            query.extend(cursor.map(|cursor| ("cursor", cursor)));
            let page = self.get(path, &query).await?;
            items.extend(list_of(&page));
            cursor = page.get("next_cursor").map(print::text).filter(|cursor| !cursor.is_empty());
            if cursor.is_none() {
                return Ok(items);
            }
        }
    }

    /// Server-sent events, as they come: name and data.
    pub(crate) async fn events(&self, path: &str) -> Result<EventReader, Failure> {
        let Response { status, chunks } = self.send(Method::GET, path, None).await?;
        if !status.is_success() {
            return Err(self.failure(status, &whole(chunks).await?));
        }
        Ok(EventReader::new(chunks))
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, Failure> {
        self.exchange(method, path, body).await.map(|(_, body)| body)
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<(StatusCode, Value), Failure> {
        let exchange = async {
            let Response { status, chunks } = self.send(method, path, body).await?;
            Ok::<_, Failure>((status, whole(chunks).await?))
        };
        let (status, text) = tokio::time::timeout(CALL_TIMEOUT, exchange).await.map_err(|_| {
            Failure::new(Exit::Unreachable, format!("no response within {} s", CALL_TIMEOUT.as_secs()))
        })??;
        if !status.is_success() {
            return Err(self.failure(status, &text));
        }
        if text.is_empty() {
            return Ok((status, Value::Null));
        }
        let body = serde_json::from_slice(&text).map_err(|error| {
            Failure::new(Exit::Internal, format!("the server's response to {path} is not JSON: {error}"))
        })?;
        Ok((status, body))
    }

    /// The failure of a call, with the tenant as it was given.
    fn failure(&self, status: StatusCode, body: &[u8]) -> Failure {
        let mut failure = problem_failure(status, body);
        if let (StatusCode::UNAUTHORIZED, Target::Server { url, token: Some(token), .. }) =
            (status, &self.target)
        {
            failure = Failure::new(Exit::Denied, format!("{url} rejected the token from {}", token.source)).advise(
                "check that it is a token of this server and has not expired or been revoked; use --token-file FILE or WINDLASS_TOKEN to provide another",
            );
        }
        match &self.tenant {
            Some((id, name)) => Failure { message: failure.message.replace(id, name), ..failure },
            None => failure,
        }
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Result<Response, Failure> {
        let mut request = Request::builder().method(method);
        if let Some((tenant, _)) = &self.tenant {
            request = request.header("x-tenant-id", tenant);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        match &self.target {
            Target::Database(routes) => {
                let request = request.uri(path).body(Body::from(body)).map_err(unsendable)?;
                let Ok(response) = routes.as_ref().clone().oneshot(request).await;
                let status = response.status();
                let chunks = response.into_body().into_data_stream();
                Ok(Response { status, chunks: Box::pin(chunks.map(|chunk| chunk.map_err(broken))) })
            }
            Target::Server { http, url, token } => {
                if let Some(token) = token {
                    request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.secret));
                }
                let request = request.uri(format!("{url}{path}")).body(body).map_err(unsendable)?;
                let request = reqwest::Request::try_from(request).map_err(unsendable)?;
                let response = http.execute(request).await.map_err(|error| unreachable(url, &error))?;
                let status = response.status();
                Ok(Response {
                    status,
                    chunks: Box::pin(response.bytes_stream().map(|chunk| chunk.map_err(broken))),
                })
            }
        }
    }
}

/// The items of a list response: the array itself, or the only array in the object.
pub(crate) fn list_of(page: &Value) -> Vec<Value> {
    match page {
        Value::Array(items) => items.clone(),
        Value::Object(fields) => fields.values().find_map(Value::as_array).cloned().unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// The token from the flag, from the given file, or from the file that `windlass up` wrote here.
pub(crate) fn token(given: Option<&str>, file: Option<&Path>) -> Result<Option<ClientToken>, Failure> {
    let token = |text: &str, source: String| ClientToken { secret: text.trim().to_owned(), source };
    if let Some(text) = given {
        let is_variable = std::env::var("WINDLASS_TOKEN").is_ok_and(|variable| variable == text);
        return Ok(Some(token(text, if is_variable { "WINDLASS_TOKEN" } else { "--token" }.to_owned())));
    }
    let path = file.map_or_else(|| PathBuf::from(DEFAULT_TOKEN_FILE), Path::to_owned);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(token(&text, format!("the file {}", path.display())))),
        Err(_) if file.is_none() => Ok(None),
        Err(error) => Err(Failure::usage(format!("cannot read the token file {}: {error}", path.display()))),
    }
}

async fn whole(mut chunks: Chunks) -> Result<BytesMut, Failure> {
    let mut text = BytesMut::new();
    while let Some(chunk) = chunks.next().await {
        text.extend_from_slice(&chunk?);
        if text.len() > MAX_RESPONSE_BYTES {
            return Err(Failure::new(Exit::Internal, "the response is too large; use a narrower filter"));
        }
    }
    Ok(text)
}

pub(crate) fn with_query(path: &str, query: &[(&str, String)]) -> String {
    if query.is_empty() {
        return path.to_owned();
    }
    let mut url = reqwest::Url::parse("http://x/").expect("a constant URL parses");
    url.query_pairs_mut().extend_pairs(query);
    format!("{path}?{}", url.query().unwrap_or_default())
}

/// A name encoded as one segment of a path.
pub(crate) fn segment(name: &str) -> String {
    let mut url = reqwest::Url::parse("http://x/").expect("a constant URL parses");
    if let Ok(mut parts) = url.path_segments_mut() {
        parts.pop_if_empty().push(name);
    }
    // `.` and `..` would change the path; no object has such a name.
    url.path().trim_start_matches('/').to_owned()
}

/// Rejects an id that no job or hold can have.
pub(crate) fn check_id(what: &str, id: &str) -> Result<(), Failure> {
    match id.parse::<uuid::Uuid>() {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::new(Exit::Missing, format!("{what} {id:?} not found: an id is a UUID"))),
    }
}

fn unreachable(url: &str, error: &reqwest::Error) -> Failure {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    Failure::new(Exit::Unreachable, format!("cannot reach {url}: {cause}"))
        .advise("start a server with `windlass up`, or set --server URL or WINDLASS_SERVER")
}

fn unsendable(error: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("cannot build the request: {error}"))
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Unreachable, format!("the response was interrupted: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{list_of, segment, with_query};

    #[test]
    fn a_name_stays_within_its_path_segment() {
        assert_eq!(segment("a/b c?d#e"), "a%2Fb%20c%3Fd%23e");
        assert_eq!(segment("0199-ä"), "0199-%C3%A4");
        assert_eq!((segment(".."), segment(".")), (String::new(), String::new()));
    }

    #[test]
    fn queries_are_encoded_and_lists_are_found() {
        assert_eq!(with_query("/a", &[("q", "x y&z".into())]), "/a?q=x+y%26z");
        assert_eq!(list_of(&json!({"items": [1], "next_cursor": null})), [json!(1)]);
    }
}
