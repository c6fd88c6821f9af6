//! Sessions of signed-in browsers: who has one, how one begins and ends, and what keeps other sites from using it.
//!
//! The cookie holds 256 random bits and nothing else; the database their hash. It is HttpOnly and SameSite=Lax, and over TLS bound
//! to this host (`__Host-`). A request that changes something must come from our own pages, by what the browser itself says
//! (`Sec-Fetch-Site`, or `Origin` from browsers that do not say it). Tokens are never taken from cookies.

use axum::http::{HeaderMap, HeaderValue, Method, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::RngCore;
use sha2::{Digest, Sha256};
use uuid::Uuid;
use windlass::{Act, Actor, Queue, Reach, SessionOf};

use super::password::verify_password;
use super::secret::Secret;
use super::token::TokenSecret;
use crate::http::{App, Problem, ProblemKind, Refusal};

/// How long a session lasts.
const LASTS_SECONDS: u32 = 12 * 3600;

/// Where a sign-in came from.
#[derive(Debug, Clone, Default)]
pub struct From {
    pub address: Option<String>,
    pub user_agent: Option<String>,
}

/// Signs a person in. Answers the header that sets the cookie. Every failure looks the same and takes as long.
pub async fn sign_in(app: &App, email: &str, password: Secret, from: &From) -> Result<HeaderValue, Problem> {
    app.rates().sign_in(&email.trim().to_lowercase())?;
    let email = email.trim();
    let account = if email.contains('\0') { None } else { app.queue().account(email).await? };
    let hash = account.as_ref().and_then(|account| account.password_hash.clone());
    let is_right = verify_password(password, hash).await?;
    // An address that is nobody's is not written down: people type their password there by mistake.
    let who = account.as_ref().map_or_else(|| "nobody".to_owned(), |account| format!("user:{}", account.id));
    match account.filter(|account| is_right && account.is_active) {
        Some(account) => begin(app, SessionOf::User(account.id), &who, from).await,
        None => {
            app.refused(Refusal::at_sign_in(from.address.clone(), who, "password")).await;
            Err(refused())
        }
    }
}

/// Signs in whoever holds a token: the session ends with the token.
pub async fn sign_in_with_token(app: &App, token: &Secret, from: &From) -> Result<HeaderValue, Problem> {
    let Some(secret) = TokenSecret::parse(token.expose().trim()) else {
        app.refused(Refusal::at_sign_in(from.address.clone(), "nobody", "unreadable")).await;
        return Err(refused());
    };
    app.rates().sign_in(secret.id())?;
    let who = format!("token:{}", secret.id());
    match app.authenticator().by_token(&secret).await {
        Ok(_) => begin(app, SessionOf::Token(secret.id()), &who, from).await,
        Err(problem) if problem.kind == ProblemKind::Unauthorized => {
            app.refused(Refusal::at_sign_in(from.address.clone(), who, "token")).await;
            Err(refused())
        }
        Err(problem) => Err(problem),
    }
}

/// Ends the session of this request, if it has one. Answers the header that takes the cookie away.
pub async fn sign_out(app: &App, headers: &HeaderMap) -> Result<HeaderValue, Problem> {
    if let Some(hash) = session_hash(headers, app.options().secure_cookies) {
        app.queue().end_session(&hash).await?;
    }
    cookie(app, "", 0)
}

/// Makes the session of this request look at another tenant; whether it may is checked with every request.
pub async fn choose_tenant(app: &App, headers: &HeaderMap, tenant: Uuid) -> Result<(), Problem> {
    let hash = session_hash(headers, app.options().secure_cookies).ok_or_else(Problem::unauthorized)?;
    Ok(app.queue().choose_tenant(&hash, tenant).await?)
}

/// Refuses what another site's page makes a browser send. For every request that changes something and is not made with a token.
pub fn check_same_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_ours = match text("sec-fetch-site") {
        Some(site) => site == "same-origin",
        None => match (text("origin"), text("host")) {
            (Some(origin), Some(host)) => {
                origin.split_once("://").is_some_and(|(_, of)| of.eq_ignore_ascii_case(host))
            }
            _ => false,
        },
    };
    if is_ours {
        Ok(())
    } else {
        Err(Problem::of(ProblemKind::Forbidden, "this request did not come from a page of this server"))
    }
}

/// Whether a request with this method needs [`check_same_origin`].
pub(crate) fn changes_something(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// What the cookie of a request hashes to.
pub(crate) fn session_hash(headers: &HeaderMap, is_secure: bool) -> Option<[u8; 32]> {
    let name = cookie_name(is_secure);
    let mut cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let value = cookies.find_map(|line| {
        line.split(';').find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
    })?;
    (value.len() == 43).then(|| Sha256::digest(value.as_bytes()).into())
}

async fn begin(app: &App, of: SessionOf<'_>, who: &str, from: &From) -> Result<HeaderValue, Problem> {
    let mut secret = [0; 32];
    rand::rng().fill_bytes(&mut secret);
    let secret = URL_SAFE_NO_PAD.encode(secret);
    let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
    let clean =
        |text: &Option<String>| text.as_ref().map(|text| windlass::text::storable(text.as_bytes(), 500));
    let (address, agent) = (clean(&from.address), clean(&from.user_agent));
    app.queue().create_session(&hash, of, LASTS_SECONDS, (address.as_deref(), agent.as_deref())).await?;
    record(app.queue(), who, address).await?;
    cookie(app, &secret, LASTS_SECONDS)
}

async fn record(queue: &Queue, who: &str, from_address: Option<String>) -> Result<(), Problem> {
    let actor = Actor { name: who.to_owned(), from_address, ..Actor::default() };
    let acting = queue.act(Reach::Everything, &actor).await?;
    Ok(acting.commit(&Act::new("session.begin", who)).await?)
}

fn cookie(app: &App, value: &str, seconds: u32) -> Result<HeaderValue, Problem> {
    let is_secure = app.options().secure_cookies;
    let secure = if is_secure { "; Secure" } else { "" };
    let name = cookie_name(is_secure);
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    let mut header = HeaderValue::from_str(&text).map_err(|_| refused())?;
    header.set_sensitive(true);
    Ok(header)
}

const fn cookie_name(is_secure: bool) -> &'static str {
    if is_secure { "__Host-windlass" } else { "windlass" }
}

fn refused() -> Problem {
    Problem::of(ProblemKind::Unauthorized, "the address, the password or the token is not right")
}
