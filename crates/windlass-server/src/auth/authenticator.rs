//! From a request's headers to a caller. What the database said of a token is believed for a few seconds, so that a busy
//! token costs no query per request and a revoked one ends within five.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use uuid::Uuid;
use windlass::{KnownToken, Queue, Reach, Tenant};

use super::caller::{Caller, Who};
use super::jwt::{JwtSettings, JwtVerifier};
use super::role::{Permission, Role};
use super::session::session_hash;
use super::token::TokenSecret;
use crate::http::Problem;

/// How long an answer of the database is believed. Revocation promises five seconds; this leaves two for the way.
const BELIEVED_FOR: Duration = Duration::from_secs(3);
const MOST_REMEMBERED: usize = 50_000;

/// Verifies credentials.
#[derive(Debug)]
pub struct Authenticator {
    queue: Queue,
    jwt: Option<JwtVerifier>,
    is_secure: bool,
    tokens: Mutex<HashMap<String, Remembered>>,
    tenants: Mutex<HashMap<Uuid, (Instant, Option<Tenant>)>>,
}

#[derive(Debug, Clone)]
struct Remembered {
    since: Instant,
    /// None: there is no such token. Remembered too, so that guessing costs the database nothing.
    token: Option<KnownToken>,
}

/// A caller, and how many requests their tenant may make.
#[derive(Debug)]
pub struct Authenticated {
    pub caller: Caller,
    pub requests_per_minute: Option<u32>,
}

impl Authenticator {
    /// `is_secure`: cookies go over TLS only.
    pub fn new(queue: Queue, jwt: Option<JwtSettings>, is_secure: bool) -> Self {
        Self {
            queue,
            jwt: jwt.map(JwtVerifier::new),
            is_secure,
            tokens: Mutex::default(),
            tenants: Mutex::default(),
        }
    }

    /// Who sent these headers. Every failure looks the same from outside.
    pub async fn authenticate(&self, headers: &HeaderMap) -> Result<Authenticated, Problem> {
        let Some(bearer) = bearer(headers)? else { return self.by_session(headers).await };
        match TokenSecret::parse(bearer) {
            Some(token) => self.by_token(&token).await,
            None => self.by_jwt(bearer).await,
        }
    }

    async fn by_jwt(&self, token: &str) -> Result<Authenticated, Problem> {
        let verifier = self.jwt.as_ref().ok_or_else(Problem::unauthorized)?;
        let claims = verifier.verify(token).await.ok_or_else(Problem::unauthorized)?;
        let mut requests_per_minute = None;
        if let Some(tenant) = claims.tenant {
            let tenant = self.tenant(tenant).await?.filter(|tenant| tenant.status != "deleting");
            let tenant = tenant.ok_or_else(Problem::unauthorized)?;
            requests_per_minute = tenant.requests_per_minute.and_then(|most| u32::try_from(most).ok());
        }
        let caller = Caller {
            who: Who::Jwt { issuer: verifier.issuer().to_owned(), subject: claims.subject },
            role: claims.role,
            tenant: claims.tenant,
            scopes: None,
            from_address: None,
            request_id: None,
        };
        Ok(Authenticated { caller, requests_per_minute })
    }

    async fn by_session(&self, headers: &HeaderMap) -> Result<Authenticated, Problem> {
        let hash = session_hash(headers, self.is_secure).ok_or_else(Problem::unauthorized)?;
        let session = self.queue.session_of(&hash).await?.ok_or_else(Problem::unauthorized)?;
        if let Some(id) = &session.token_id {
            let known = self.token(id).await?.filter(|known| known.is_valid);
            let mut found = of_token(known.ok_or_else(Problem::unauthorized)?)?;
            if found.caller.role == Role::SuperAdmin {
                found.caller.tenant = session.chosen_tenant;
            }
            return Ok(found);
        }
        let (Some(id), Some(email)) = (session.user_id, session.email.clone()) else {
            return Err(Problem::unauthorized());
        };
        let named = headers.get("x-tenant-id").and_then(|id| id.to_str().ok()?.parse::<Uuid>().ok());
        let wanted = named.or(session.chosen_tenant);
        let (role, tenant, requests_per_minute) = if session.is_super_admin {
            (Role::SuperAdmin, session.chosen_tenant, None)
        } else {
            let chosen = session.members.iter().find(|member| Some(member.tenant_id) == wanted);
            let member = chosen.or(session.members.first()).ok_or_else(Problem::unauthorized)?;
            let role = member.role.parse().map_err(|()| Problem::unauthorized())?;
            (role, Some(member.tenant_id), member.requests_per_minute)
        };
        let who = Who::User { id, email };
        let caller = Caller { who, role, tenant, scopes: None, from_address: None, request_id: None };
        Ok(Authenticated { caller, requests_per_minute })
    }

    /// Whether there is such a tenant, as of a few seconds ago.
    pub(crate) async fn knows_tenant(&self, id: Uuid) -> Result<bool, Problem> {
        Ok(self.tenant(id).await?.is_some())
    }

    /// A tenant by its id, believed for a few seconds.
    async fn tenant(&self, id: Uuid) -> Result<Option<Tenant>, Problem> {
        {
            let tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((since, tenant)) = tenants.get(&id)
                && since.elapsed() < BELIEVED_FOR
            {
                return Ok(tenant.clone());
            }
        }
        let looking = self.queue.look(Reach::Tenant(id)).await?;
        let tenant = looking.tenants().await?.pop();
        looking.end().await?;
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() >= MOST_REMEMBERED {
            tenants.clear();
        }
        tenants.insert(id, (Instant::now(), tenant.clone()));
        Ok(tenant)
    }

    /// Asks the database again the next time: for what this process itself has just revoked.
    pub fn forget(&self, token_id: &str) {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).remove(token_id);
    }

    pub(crate) async fn by_token(&self, token: &TokenSecret) -> Result<Authenticated, Problem> {
        let known = self.token(token.id()).await?;
        // Compared also when there is none, so that both take the same time.
        let stored = known.as_ref().map_or("", |known| known.secret_hash.as_str());
        let is_right = token.matches(stored);
        let known = known.filter(|known| is_right && known.is_valid && known.kind == token.kind().as_str());
        let known = known.ok_or_else(Problem::unauthorized)?;
        of_token(known)
    }

    async fn token(&self, id: &str) -> Result<Option<KnownToken>, Problem> {
        {
            let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = tokens.get(id).filter(|known| known.is_fresh()) {
                return Ok(known.token.clone());
            }
        }
        let token = self.queue.find_token(id).await?;
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= MOST_REMEMBERED {
            tokens.retain(|_, known| known.is_fresh());
            if tokens.len() >= MOST_REMEMBERED {
                tokens.clear();
            }
        }
        tokens.insert(id.to_owned(), Remembered { since: Instant::now(), token: token.clone() });
        Ok(token)
    }
}

impl Remembered {
    fn is_fresh(&self) -> bool {
        let expires = self.token.as_ref().and_then(|token| token.expires_in_ms);
        let until = expires.map_or(BELIEVED_FOR, |ms| {
            BELIEVED_FOR.min(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
        });
        // One that had expired when it was read stays so.
        let is_over = self.token.as_ref().is_some_and(|token| !token.is_valid);
        self.since.elapsed() < if is_over { BELIEVED_FOR } else { until }
    }
}

fn of_token(known: KnownToken) -> Result<Authenticated, Problem> {
    let role: Role = known.role.parse().map_err(|()| Problem::unauthorized())?;
    let scopes =
        known.scopes.map(|scopes| scopes.iter().filter_map(|scope| Permission::from_scope(scope)).collect());
    let caller = Caller {
        who: Who::Token { id: known.id, name: known.name },
        role,
        tenant: (!known.tenant_id.is_nil()).then_some(known.tenant_id),
        scopes,
        from_address: None,
        request_id: None,
    };
    Ok(Authenticated { caller, requests_per_minute: known.requests_per_minute })
}

/// The bearer of an Authorization header, if there is one. Two of them are nobody.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let Some(first) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(Problem::unauthorized());
    }
    let text = first.to_str().map_err(|_| Problem::unauthorized())?;
    let (scheme, credential) = text.split_once(' ').ok_or_else(Problem::unauthorized)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Problem::unauthorized());
    }
    Ok(Some(credential.trim()))
}
