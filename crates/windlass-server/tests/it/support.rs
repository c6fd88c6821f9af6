//! A server of one test: in this process, on its own port, with its own database. Its responses are checked against its
//! description, and the data that it leaves is searched for secrets.

mod described;
pub(crate) mod people;
pub(crate) mod secrets;

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::Value;
use tokio::net::TcpListener;
use uuid::Uuid;
use windlass::Queue;
use windlass::admin::{Actor, Reach};
use windlass::internals::NewToken;
use windlass_server::auth::{Role, TokenKind, TokenSecret, create_admin_token};
use windlass_server::http::{App, Options};
use windlass_server::server::{Running, Server};
use windlass_testing::{TestQueue, settings};

pub(crate) struct TestServer {
    pub(crate) queue: TestQueue,
    pub(crate) app: App,
    running: Option<Running>,
    pub(crate) base: String,
    /// The client of a super-admin.
    pub(crate) admin: Client,
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::start_with(Options::default()).await
    }

    pub(crate) async fn start_with(options: Options) -> Self {
        let queue = TestQueue::create().await;
        let served = narrow(&queue).await;
        Self::start_on(queue, served, options).await
    }

    /// On a database of the test, through another handle than the test's own.
    pub(crate) async fn start_on(queue: TestQueue, served: Queue, options: Options) -> Self {
        secrets::listen();
        let app = App::new(served, options);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let running = Server::start(app.clone(), listener).unwrap();
        let base = format!("http://{}", running.address());
        let token = create_admin_token(&queue, "test").await.unwrap();
        let admin = Client::new(&base, Some(token.expose()));
        Self { queue, app, running: Some(running), base, admin }
    }

    /// Another server on the same database, with empty caches, and its client of a super-admin.
    pub(crate) async fn beside(&self) -> (Running, Client) {
        let app = App::new(narrow(&self.queue).await, Options::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let running = Server::start(app, listener).unwrap();
        let client = Client::new(&format!("http://{}", running.address()), self.admin.token.clone());
        (running, client)
    }

    /// Without a credential.
    pub(crate) fn anonymous(&self) -> Client {
        Client::new(&self.base, None)
    }

    /// With a token of this role, of the tenant or (super-admins) of the installation.
    pub(crate) async fn client(&self, tenant: Uuid, role: Role) -> Client {
        self.scoped_client(tenant, role, None).await
    }

    pub(crate) async fn scoped_client(&self, tenant: Uuid, role: Role, scopes: Option<&[&str]>) -> Client {
        let (kind, tenant) = match role {
            Role::SuperAdmin => (TokenKind::Admin, windlass::admin::INSTALLATION),
            Role::Worker => (TokenKind::Worker, tenant),
            _ => (TokenKind::Api, tenant),
        };
        let secret = TokenSecret::generate(kind);
        let token = NewToken {
            id: secret.id().to_owned(),
            kind: kind.as_str().to_owned(),
            name: role.to_string(),
            role: role.to_string(),
            scopes: scopes.map(|scopes| scopes.iter().map(ToString::to_string).collect()),
            created_by: "test".to_owned(),
            expires_at: None,
        };
        let actor = Actor::new("test");
        let acting = self.queue.act(Reach::Everything, &actor).await.unwrap();
        acting.create_token(tenant, &token, &secret.hash()).await.unwrap();
        acting.commit().await.unwrap();
        Client::new(&self.base, Some(secret.expose()))
    }

    /// Stops it, waiting for requests in progress.
    pub(crate) async fn stop(&mut self) {
        self.stop_within(Duration::from_secs(10)).await;
    }

    /// Stops it, and aborts the requests that are in progress after this time.
    pub(crate) async fn stop_within(&mut self, grace: Duration) {
        if let Some(running) = self.running.take() {
            running.stop(grace).await;
        }
    }
}

/// A handle with one connection. Test servers have only one, so that a request that needs a second one while it holds the first
/// never ends, for every route.
pub(crate) async fn narrow(queue: &TestQueue) -> Queue {
    Queue::connect(settings(queue.url()).connections(1)).await.unwrap()
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let url = self.queue.url().to_owned();
        let searched = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (client, connection) =
                    tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                secrets::search(&client).await;
            });
        });
        assert!(searched.join().is_ok(), "a secret was stored: see above");
    }
}

/// A minimal HTTP client for JSON.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    pub(crate) token: Option<String>,
    headers: Vec<(String, String)>,
    limit: Option<Duration>,
}

/// A client that is used without TLS. To load the trusted certificates of the system takes longer than most requests of a test.
pub(crate) fn plain_http() -> reqwest::ClientBuilder {
    reqwest::Client::builder().no_proxy().tls_certs_only([])
}

/// A response.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Client {
    pub(crate) fn new(base: &str, token: Option<String>) -> Self {
        let http = plain_http().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        if let Some(token) = &token {
            secrets::issued(token);
        }
        Self { http, base: base.to_owned(), token, headers: Vec::new(), limit: None }
    }

    /// The same with one more header on every request.
    pub(crate) fn with(&self, name: &str, value: impl std::fmt::Display) -> Self {
        let mut client = self.clone();
        let value = value.to_string();
        if let ("cookie", Some((_, secret))) = (name, value.split_once('=')) {
            secrets::issued(secret);
        }
        client.headers.push((name.to_owned(), value));
        client
    }

    /// The same with a timeout for each request.
    pub(crate) fn within(&self, limit: Duration) -> Self {
        Self { limit: Some(limit), ..self.clone() }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        if let Some(limit) = self.limit {
            request = request.timeout(limit);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let mut request = self.request(method.clone(), path);
        if let Some(body) = body {
            secrets::noticed(body);
            request = request.json(body);
        }
        let sent = request.send().await;
        let response = sent.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        let (status, headers) = (response.status(), response.headers().clone());
        let received = Answer { status, headers, text: response.text().await.unwrap() };
        if let Ok(body) = serde_json::from_str(&received.text) {
            secrets::noticed(&body);
        }
        described::check(&method, path, &received);
        received
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Sends a form, as our pages do.
    pub(crate) async fn form(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        for (_, secret) in fields.iter().filter(|(name, _)| name.contains("password")) {
            secrets::issued(secret);
        }
        let encoded = |text: &str| -> String {
            let byte = |byte: u8| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
                byte => format!("%{byte:02X}"),
            };
            text.bytes().map(byte).collect()
        };
        let pairs = fields.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
        let request = self.request(Method::POST, path).body(pairs.collect::<Vec<_>>().join("&"));
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, text: response.text().await.unwrap() }
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PATCH, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, None).await
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body of a response with this status; any other status fails the test.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    /// The text of a response that is not JSON.
    #[track_caller]
    pub(crate) fn expect_text(&self, status: u16) -> &str {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        &self.text
    }

    /// A problem of this status and type.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, kind: &str) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(problem["type"], format!("urn:windlass:problem:{kind}"), "{}", self.text);
        assert_eq!(problem["status"], status);
        problem
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}
