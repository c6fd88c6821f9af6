//! Sessions of signed-in browsers: who has one, how one begins and ends, and what keeps other sites from using it.
//!
//! The cookie holds 256 random bits and nothing else; the database their hash. It is HttpOnly and SameSite=Lax, and over TLS bound
//! to this host (`__Host-`). A request that changes something must come from our own pages, by what the browser itself says
//! (`Sec-Fetch-Site`, or `Origin` from browsers that do not say it). Tokens are never taken from cookies.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::RngCore;
use sha2::{Digest, Sha256};
use uuid::Uuid;
use windlass::{Act, Actor, NewSession, Reach, SessionOf, SignedIn};

use super::member::email_address;
use super::password::verify_password;
use super::secret::Secret;
use super::token::TokenSecret;
use crate::http::{App, Problem, ProblemKind, Refusal};
use crate::server::{OverTls, client_of};

/// Whether the cookies of a request go over TLS only: they do if the request came over it, and always where the server is known to be
/// reached by it.
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

/// How often a minute one person or token begins a session or chooses a tenant: each leaves a row in the audit trail.
const CHANGES_PER_MINUTE: u32 = 60;

/// Where a request to sign in, or one with a link's secret, came from.
#[derive(Debug, Clone, Default)]
pub struct From {
    pub address: Option<String>,
    pub user_agent: Option<String>,
    pub secure: Secure,
    /// The session that the browser had, which ends when another begins.
    pub had: Option<[u8; 32]>,
}

impl FromRequestParts<App> for From {
    type Rejection = Infallible;

    async fn from_request_parts(request: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let agent = request.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        let address = client_of(&request.extensions).map(|address| address.to_string());
        let secure = Secure::of(app, &request.extensions);
        let had = session_hash(&request.headers, secure);
        Ok(Self { address, user_agent: agent.map(str::to_owned), secure, had })
    }
}

/// A session that has just begun: the header that sets its cookie, and what the cookie hashes to.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) cookie: HeaderValue,
    pub(crate) hash: [u8; 32],
}

/// Signs a person in. Answers the header that sets the cookie. Every failure looks the same and takes as long.
pub async fn sign_in(app: &App, email: &str, password: Secret, from: &From) -> Result<HeaderValue, Problem> {
    enter(app, email, password, from).await.map(|begun| begun.cookie)
}

pub(crate) async fn enter(app: &App, email: &str, password: Secret, from: &From) -> Result<Begun, Problem> {
    // What is no address is nobody's, and is not looked for.
    let email = email_address(email).ok();
    let attempt = app.attempts().begin(from.address.as_deref(), email.as_deref().unwrap_or_default())?;
    // Before anything is looked up: whoever is told to come back costs nothing.
    let (attempt, place) = attempt.place()?;
    let account = match &email {
        Some(email) => app.queue().account(email).await?,
        None => None,
    };
    let hash = account.as_ref().and_then(|account| account.password_hash.clone());
    let is_right = verify_password(password, hash).await?;
    drop(place);
    // An address that is nobody's is not written down: people type their password there by mistake.
    let who = account.as_ref().map_or_else(|| "nobody".to_owned(), |account| format!("user:{}", account.id));
    if let Some(windlass::Account { id, password_hash: Some(compared), .. }) =
        account.filter(|account| is_right && account.is_active)
    {
        let of = SessionOf::User { id, password_hash: &compared };
        let begun = begin(app, of, &who, from).await;
        if !matches!(&begun, Err(problem) if problem.kind == ProblemKind::Unauthorized) {
            attempt.succeeded();
        }
        return begun;
    }
    app.refused(Refusal::at_sign_in(from.address.clone(), who, "password")).await;
    Err(refused())
}

/// Signs in whoever holds a token: the session ends with the token.
pub async fn sign_in_with_token(app: &App, token: &Secret, from: &From) -> Result<HeaderValue, Problem> {
    let secret = TokenSecret::parse(token.expose().trim());
    let id = secret.as_ref().map(TokenSecret::id).unwrap_or_default();
    let attempt = app.attempts().begin(from.address.as_deref(), id)?;
    let Some(secret) = secret else {
        app.refused(Refusal::at_sign_in(from.address.clone(), "nobody", "unreadable")).await;
        return Err(refused());
    };
    let who = format!("token:{}", secret.id());
    match app.authenticator().by_token(&secret, from.address.as_deref()).await {
        Ok(known) => {
            attempt.succeeded();
            app.rates().check(&known.caller, app.options().requests_per_minute, known.requests_per_minute)?;
            begin(app, SessionOf::Token(secret.id()), &who, from).await.map(|begun| begun.cookie)
        }
        Err(problem) if problem.kind == ProblemKind::Unauthorized => {
            app.refused(Refusal::at_sign_in(from.address.clone(), who, "token")).await;
            Err(refused())
        }
        Err(problem) => Err(problem),
    }
}

/// Ends the session of this request, if it has one. Answers the header that takes the cookie away.
pub async fn sign_out(app: &App, from: &From) -> Result<HeaderValue, Problem> {
    if let Some((session, hash)) = signed_in(app, from).await? {
        let who = name_of(&session);
        let acting = app.queue().act(Reach::Everything, &actor(&who, from)).await?;
        if acting.end_session(&hash).await? {
            acting.commit(&Act::new("session.end", &who)).await?;
        }
    }
    cookie(from.secure, "", 0)
}

/// The session of a request, and the hash by which it is known.
pub(crate) async fn signed_in(app: &App, from: &From) -> Result<Option<(SignedIn, [u8; 32])>, Problem> {
    let Some(hash) = from.had else { return Ok(None) };
    let session = app.authenticator().session(&hash, from.address.as_deref()).await?;
    Ok(session.map(|session| (session, hash)))
}

/// Makes a session look at another tenant. Whether it may is the caller's to check, and checked again with every request.
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
    Ok(acting.commit(&Act::new("session.tenant", tenant)).await?)
}

/// Whoever a session is, as the audit trail names them.
fn name_of(session: &SignedIn) -> String {
    match (&session.user_id, &session.token_id) {
        (Some(user), _) => format!("user:{user}"),
        (None, Some(token)) => format!("token:{token}"),
        (None, None) => "nobody".to_owned(),
    }
}

fn actor(who: &str, from: &From) -> Actor {
    let from_address = from.address.as_ref().map(|address| windlass::text::storable(address.as_bytes(), 500));
    Actor { name: who.to_owned(), from_address, ..Actor::default() }
}

fn check_rate(app: &App, who: &str) -> Result<(), Problem> {
    app.rates().take(CHANGES_PER_MINUTE, &format!("sessions:{who}"))
}

/// What the cookie of a request hashes to.
pub(crate) fn session_hash(headers: &HeaderMap, secure: Secure) -> Option<[u8; 32]> {
    let name = cookie_name(secure);
    let mut cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let value = cookies.find_map(|line| {
        line.split(';').find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
    })?;
    (value.len() == 43).then(|| Sha256::digest(value.as_bytes()).into())
}

/// Begins a session and ends the one that the browser had. Refuses if the password that was compared is not the account's any more.
pub(crate) async fn begin(app: &App, of: SessionOf<'_>, who: &str, from: &From) -> Result<Begun, Problem> {
    check_rate(app, who)?;
    let mut secret = [0; 32];
    rand::rng().fill_bytes(&mut secret);
    let secret = URL_SAFE_NO_PAD.encode(secret);
    let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
    let clean =
        |text: &Option<String>| text.as_ref().map(|text| windlass::text::storable(text.as_bytes(), 500));
    let (address, agent) = (clean(&from.address), clean(&from.user_agent));
    let new = NewSession {
        hash: &hash,
        of,
        seconds: LASTS_SECONDS,
        replaces: from.had.as_ref().map(<[u8; 32]>::as_slice),
        from_address: address.as_deref(),
        user_agent: agent.as_deref(),
    };
    let acting = app.queue().act(Reach::Everything, &actor(who, from)).await?;
    if !acting.create_session(&new).await? {
        drop(acting);
        app.refused(Refusal::at_sign_in(address, who, "ended")).await;
        return Err(refused());
    }
    acting.commit(&Act::new("session.begin", who)).await?;
    Ok(Begun { cookie: cookie(from.secure, &secret, LASTS_SECONDS)?, hash })
}

/// Where `secure` says so, `Secure` is added to it as to every other cookie, when the answer leaves.
fn cookie(secure: Secure, value: &str, seconds: u32) -> Result<HeaderValue, Problem> {
    let name = cookie_name(secure);
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}");
    let mut header = HeaderValue::from_str(&text).map_err(|_| refused())?;
    header.set_sensitive(true);
    Ok(header)
}

const fn cookie_name(secure: Secure) -> &'static str {
    if secure.0 { "__Host-windlass" } else { "windlass" }
}

fn refused() -> Problem {
    Problem::of(ProblemKind::Unauthorized, "the address, the password or the token is not right")
}
