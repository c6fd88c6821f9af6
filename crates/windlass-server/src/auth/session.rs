//! Sessions of signed-in browsers: how they start and end, and how they are protected from other sites.
//!
//! The cookie contains only 256 random bits; the database has their hash. It is HttpOnly and SameSite=Lax, and with TLS bound to
//! this host (`__Host-`). A request that changes something must come from our own pages, as reported by the browser in
//! `Sec-Fetch-Site` or `Origin`. Tokens are never read from cookies.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::RngCore;
use sha2::{Digest, Sha256};
use uuid::Uuid;
use windlass::admin::{Actor, Reach};
use windlass::internals::{NewSession, SessionOf, SignedIn};

use super::member::email_address;
use super::password::verify_password;
use super::secret::Secret;
use super::token::TokenSecret;
use crate::http::{App, Denial, Problem, ProblemKind};
use crate::server::{OverTls, client_of};

/// Whether the cookies of a request are sent over TLS only: if the request came over TLS, and always if the server is configured
/// for TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Secure(pub bool);

impl FromRequestParts<App> for Secure {
    type Rejection = Infallible;

    async fn from_request_parts(request: &mut Parts, app: &App) -> Result<Self, Infallible> {
        Ok(Self::of(app, &request.extensions))
    }
}

impl Secure {
    pub(crate) fn of(app: &App, extensions: &Extensions) -> Self {
        Self(app.options().secure_cookies || OverTls::of(extensions))
    }
}

/// How long a session lasts.
const LASTS_SECONDS: u32 = 12 * 3600;

/// How often per minute a user or token can start a session or choose a tenant: each is an entry in the audit trail.
const CHANGES_PER_MINUTE: u32 = 60;

/// The origin of a sign-in request, or of one with the secret of a link.
#[derive(Debug, Clone, Default)]
pub struct From {
    /// The network address of the client.
    pub address: Option<String>,
    /// The browser, as it describes itself.
    pub user_agent: Option<String>,
    /// Whether the cookie is sent over TLS only.
    pub secure: Secure,
    /// The previous session of the browser, which ends when another one starts.
    pub previous: Option<[u8; 32]>,
}

impl FromRequestParts<App> for From {
    type Rejection = Infallible;

    async fn from_request_parts(request: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let agent = request.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        let address = client_of(&request.extensions).map(|address| address.to_string());
        let secure = Secure::of(app, &request.extensions);
        let previous = session_hash(&request.headers, secure);
        Ok(Self { address, user_agent: agent.map(str::to_owned), secure, previous })
    }
}

/// A new session: the header that sets its cookie, and the hash of the cookie.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) cookie: HeaderValue,
    pub(crate) hash: [u8; 32],
}

/// Signs a user in. Returns the header that sets the cookie. Every failure has the same response and takes the same time.
pub async fn sign_in(app: &App, email: &str, password: Secret, from: &From) -> Result<HeaderValue, Problem> {
    enter(app, email, password, from).await.map(|begun| begun.cookie)
}

pub(crate) async fn enter(app: &App, email: &str, password: Secret, from: &From) -> Result<Begun, Problem> {
    // An invalid address has no account and is not looked up.
    let email = email_address(email).ok();
    let attempt = app.attempts().begin(from.address.as_deref(), email.as_deref().unwrap_or_default())?;
    // Before any query: a rejected request should cost nothing.
    let (attempt, slot) = attempt.slot()?;
    let account = match &email {
        Some(email) => app.queue().account(email).await,
        None => Ok(None),
    };
    let (attempt, account) = attempt.after(account)?;
    let hash = account.as_ref().and_then(|account| account.password_hash.clone());
    let (attempt, is_right) = attempt.after(verify_password(password, hash).await)?;
    drop(slot);
    // An address without an account is not recorded: users enter their password there by mistake.
    let who = account.as_ref().map_or_else(|| "nobody".to_owned(), |account| format!("user:{}", account.id));
    if let Some(windlass::internals::Account { id, password_hash: Some(compared), .. }) =
        account.filter(|account| is_right && account.is_active)
    {
        let of = SessionOf::User { id, password_hash: &compared };
        let begun = begin(app, of, &who, from).await;
        if !matches!(&begun, Err(problem) if problem.kind == ProblemKind::Unauthorized) {
            attempt.succeeded();
        }
        return begun;
    }
    app.record_denial(Denial::at_sign_in(from.address.clone(), who, "password")).await;
    Err(incorrect_credential())
}

/// Signs in with a token: the session ends with the token.
pub async fn sign_in_with_token(app: &App, token: &Secret, from: &From) -> Result<HeaderValue, Problem> {
    let secret = TokenSecret::parse(token.expose().trim());
    let id = secret.as_ref().map(TokenSecret::id).unwrap_or_default();
    let attempt = app.attempts().begin(from.address.as_deref(), id)?;
    let Some(secret) = secret else {
        app.record_denial(Denial::at_sign_in(from.address.clone(), "nobody", "unreadable")).await;
        return Err(incorrect_credential());
    };
    let who = format!("token:{}", secret.id());
    match app.authenticator().by_token(&secret, from.address.as_deref()).await {
        Ok(known) => {
            attempt.succeeded();
            app.rates().check(&known.caller, app.options().requests_per_minute, known.requests_per_minute)?;
            begin(app, SessionOf::Token(secret.id()), &who, from).await.map(|begun| begun.cookie)
        }
        Err(problem) if problem.kind == ProblemKind::Unauthorized => {
            app.record_denial(Denial::at_sign_in(from.address.clone(), who, "token")).await;
            Err(incorrect_credential())
        }
        Err(problem) => {
            attempt.undo();
            Err(problem)
        }
    }
}

/// Ends the session of this request, if it has one. Returns the header that removes the cookie.
pub async fn sign_out(app: &App, from: &From) -> Result<HeaderValue, Problem> {
    if let Some((session, hash)) = signed_in(app, from).await? {
        let who = name_of(&session);
        let acting = app.queue().act(Reach::Everything, &actor(&who, from)).await?;
        if acting.end_session(&hash).await? {
            acting.commit().await?;
        }
    }
    cookie(from.secure, "", 0)
}

/// The session of a request, and its hash.
pub(crate) async fn signed_in(app: &App, from: &From) -> Result<Option<(SignedIn, [u8; 32])>, Problem> {
    let Some(hash) = from.previous else { return Ok(None) };
    let session = app.authenticator().session(&hash, from.address.as_deref()).await?;
    Ok(session.map(|session| (session, hash)))
}

/// Switches a session to another tenant. The caller must check the membership; it is also checked with every request.
pub(crate) async fn choose_tenant(
    app: &App,
    (session, hash): (&SignedIn, &[u8; 32]),
    from: &From,
    tenant: Uuid,
) -> Result<(), Problem> {
    let who = name_of(session);
    check_rate(app, &who)?;
    let acting = app.queue().act(Reach::Tenant(tenant), &actor(&who, from)).await?;
    acting.choose_tenant(hash, tenant).await?;
    Ok(acting.commit().await?)
}

/// The user or token of a session, for the audit trail.
fn name_of(session: &SignedIn) -> String {
    match (&session.user_id, &session.token_id) {
        (Some(user), _) => format!("user:{user}"),
        (None, Some(token)) => format!("token:{token}"),
        (None, None) => "nobody".to_owned(),
    }
}

fn actor(who: &str, from: &From) -> Actor {
    let from_address =
        from.address.as_ref().map(|address| windlass::internals::text::storable(address.as_bytes(), 500));
    Actor::new(who.to_owned()).from_address(from_address)
}

fn check_rate(app: &App, who: &str) -> Result<(), Problem> {
    app.rates().take(CHANGES_PER_MINUTE, &format!("sessions:{who}"))
}

/// The hash of the session cookie of a request.
pub(crate) fn session_hash(headers: &HeaderMap, secure: Secure) -> Option<[u8; 32]> {
    let name = cookie_name(secure);
    let mut cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let value = cookies.find_map(|line| {
        line.split(';').find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
    })?;
    (value.len() == 43).then(|| Sha256::digest(value.as_bytes()).into())
}

/// Starts a session and ends the previous one of the browser. Fails if the password was changed since it was compared.
pub(crate) async fn begin(app: &App, of: SessionOf<'_>, who: &str, from: &From) -> Result<Begun, Problem> {
    check_rate(app, who)?;
    let mut secret = [0; 32];
    rand::rng().fill_bytes(&mut secret);
    let secret = URL_SAFE_NO_PAD.encode(secret);
    let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
    let clean = |text: &Option<String>| {
        text.as_ref().map(|text| windlass::internals::text::storable(text.as_bytes(), 500))
    };
    let (address, agent) = (clean(&from.address), clean(&from.user_agent));
    let new = NewSession {
        hash: &hash,
        of,
        seconds: LASTS_SECONDS,
        replaces: from.previous.as_ref().map(<[u8; 32]>::as_slice),
        from_address: address.as_deref(),
        user_agent: agent.as_deref(),
    };
    let acting = app.queue().act(Reach::Everything, &actor(who, from)).await?;
    if !acting.create_session(&new).await? {
        drop(acting);
        app.record_denial(Denial::at_sign_in(address, who, "ended")).await;
        return Err(incorrect_credential());
    }
    acting.commit().await?;
    app.authenticator().remember_session(hash);
    Ok(Begun { cookie: cookie(from.secure, &secret, LASTS_SECONDS)?, hash })
}

/// `Secure` is added later, as for every other cookie, when the response is sent.
fn cookie(secure: Secure, value: &str, seconds: u32) -> Result<HeaderValue, Problem> {
    let name = cookie_name(secure);
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}");
    let mut header = HeaderValue::from_str(&text).map_err(|_| incorrect_credential())?;
    header.set_sensitive(true);
    Ok(header)
}

const fn cookie_name(secure: Secure) -> &'static str {
    if secure.0 { "__Host-windlass" } else { "windlass" }
}

fn incorrect_credential() -> Problem {
    Problem::of(ProblemKind::Unauthorized, "the email address, the password or the token is not correct")
}
