//! Authenticates a request. Tokens are cached for a few seconds, so that a busy token does not need a query per request and a
//! revoked one is rejected within five.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use parking_lot::Mutex;
use uuid::Uuid;
use windlass::Queue;
use windlass::admin::{Reach, Tenant};
use windlass::internals::{KnownToken, SignedIn};

use super::caller::{Caller, Who};
use super::jwt::{JwtSettings, JwtVerifier};
use super::lookups::Lookups;
use super::role::{Permission, Role};
use super::session::{Secure, session_hash};
use super::token::TokenSecret;
use crate::http::{Problem, ProblemKind};
use crate::server::{OverTls, client_of};

/// How long a token is cached. Revocation takes effect within five seconds; this leaves two for the query.
const CACHED_FOR: Duration = Duration::from_secs(3);
const MAX_CACHED: usize = 50_000;

/// Verifies credentials.
#[derive(Debug)]
pub(crate) struct Authenticator {
    queue: Queue,
    jwt: Option<JwtVerifier>,
    is_secure: bool,
    tokens: Mutex<HashMap<String, Remembered>>,
    tenants: Mutex<HashMap<Uuid, (Instant, Option<Tenant>)>>,
    /// Sessions that existed when they were last read, or that this process has started.
    sessions: Mutex<HashSet<[u8; 32]>>,
    lookups: Lookups,
}

#[derive(Debug, Clone)]
struct Remembered {
    /// `None`: it was created by this process, and is read when it is used.
    since: Option<Instant>,
    /// `None`: the token does not exist. Cached too, so that guessing does not cost queries.
    token: Option<KnownToken>,
}

/// A caller, and the request rate of its tenant.
#[derive(Debug)]
pub(crate) struct Authenticated {
    pub(crate) caller: Caller,
    pub(crate) requests_per_minute: Option<u32>,
}

/// Why a request has no caller.
#[derive(Debug)]
pub(crate) struct Unauthenticated {
    pub(crate) problem: Problem,
    /// The person of the session, by the name in the audit trail, if only the tenant is wrong.
    pub(crate) person: Option<String>,
}

impl From<Problem> for Unauthenticated {
    fn from(problem: Problem) -> Self {
        Self { problem, person: None }
    }
}

impl From<Unauthenticated> for Problem {
    fn from(error: Unauthenticated) -> Self {
        error.problem
    }
}

impl Authenticator {
    /// `is_secure`: cookies are sent over TLS only, even for connections without TLS.
    pub(crate) fn new(queue: Queue, jwt: Option<JwtSettings>, is_secure: bool) -> Self {
        Self {
            queue,
            jwt: jwt.map(JwtVerifier::new),
            is_secure,
            tokens: Mutex::default(),
            tenants: Mutex::default(),
            sessions: Mutex::default(),
            lookups: Lookups::default(),
        }
    }

    /// The limiter of lookups of unknown credentials.
    pub(crate) fn lookups(&self) -> &Lookups {
        &self.lookups
    }

    /// The caller of this request. Every failure has the same response.
    pub(crate) async fn authenticate(&self, request: &Parts) -> Result<Authenticated, Unauthenticated> {
        let Some(bearer) = bearer(&request.headers)? else { return self.by_session(request).await };
        Ok(match TokenSecret::parse(bearer) {
            Some(token) => self.by_token(&token, address_of(request).as_deref()).await?,
            None => self.by_jwt(bearer).await?,
        })
    }

    /// The person or the token of a request's session, by the name in the audit trail.
    pub(crate) async fn name_of_session(&self, request: &Parts) -> Option<String> {
        let session = self.session_of(request).await.ok()?;
        session.user_id.map(|id| format!("user:{id}")).or(session.token_id.map(|id| format!("token:{id}")))
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
        let who = Who::Jwt { issuer: verifier.issuer().to_owned(), subject: claims.subject };
        let expires_at = Some(claims.expires_at);
        let caller = Caller { tenant: claims.tenant, expires_at, ..Caller::new(who, claims.role) };
        Ok(Authenticated { caller, requests_per_minute })
    }

    async fn session_of(&self, request: &Parts) -> Result<SignedIn, Problem> {
        let secure = Secure(self.is_secure || OverTls::of(&request.extensions));
        let hash = session_hash(&request.headers, secure).ok_or_else(Problem::unauthorized)?;
        let session = self.session(&hash, address_of(request).as_deref()).await?;
        session.ok_or_else(Problem::unauthorized)
    }

    async fn by_session(&self, request: &Parts) -> Result<Authenticated, Unauthenticated> {
        let headers = &request.headers;
        let session = self.session_of(request).await?;
        if let Some(id) = &session.token_id {
            let known = match self.remembered(id).filter(Remembered::is_fresh) {
                Some(known) => known.token,
                None => self.look_up(id, None).await?,
            };
            let known = known.filter(|known| known.is_valid);
            let mut found = of_token(known.ok_or_else(Problem::unauthorized)?)?;
            if found.caller.role == Role::SuperAdmin {
                found.caller.tenant = session.chosen_tenant;
            }
            return Ok(found);
        }
        let (Some(id), Some(email)) = (session.user_id, session.email.clone()) else {
            return Err(Problem::unauthorized().into());
        };
        let named = headers.get("x-tenant-id").and_then(|name| name.to_str().ok());
        let (role, tenant, requests_per_minute) = if session.is_super_admin {
            (Role::SuperAdmin, session.chosen_tenant, None)
        } else {
            // No fallback to another tenant: a request for one tenant must not be applied to another.
            let chosen = session.members.iter().find(|member| match named {
                Some(name) => name.parse() == Ok(member.tenant_id) || name == member.slug,
                None => Some(member.tenant_id) == session.chosen_tenant,
            });
            let person = || Some(format!("user:{id}"));
            let member = chosen.ok_or_else(|| Unauthenticated { problem: no_tenant(), person: person() })?;
            let role = member.role.parse().map_err(|()| Problem::unauthorized())?;
            (role, Some(member.tenant_id), member.requests_per_minute)
        };
        let caller = Caller { tenant, ..Caller::new(Who::User { id, email }, role) };
        Ok(Authenticated { caller, requests_per_minute })
    }

    /// Whether the tenant exists, cached for a few seconds.
    /// The id of the tenant with this id or slug.
    pub(crate) async fn tenant_named(&self, name: &str) -> Result<Option<Uuid>, Problem> {
        if let Ok(id) = name.parse() {
            return Ok(self.tenant(id).await?.map(|tenant| tenant.id));
        }
        let reading = self.queue.read(Reach::Everything).await?;
        let found = reading.tenant_of_slug(name).await?;
        reading.end().await?;
        Ok(found.map(|tenant| tenant.id))
    }

    /// How many requests all credentials of the tenant may send.
    pub(crate) async fn tenant_rate(&self, id: Uuid) -> Result<Option<u32>, Problem> {
        Ok(self.tenant(id).await?.and_then(|tenant| tenant.requests_per_minute?.try_into().ok()))
    }

    pub(crate) async fn tenant_slug(&self, id: Uuid) -> Result<Option<String>, Problem> {
        Ok(self.tenant(id).await?.map(|tenant| tenant.slug))
    }

    /// A tenant by its id, cached for a few seconds.
    async fn tenant(&self, id: Uuid) -> Result<Option<Tenant>, Problem> {
        {
            let tenants = self.tenants.lock();
            if let Some((since, tenant)) = tenants.get(&id)
                && since.elapsed() < CACHED_FOR
            {
                return Ok(tenant.clone());
            }
        }
        let reading = self.queue.read(Reach::Tenant(id)).await?;
        let tenant = reading.tenants().await?.pop();
        reading.end().await?;
        let mut tenants = self.tenants.lock();
        if tenants.len() >= MAX_CACHED {
            tenants.clear();
        }
        tenants.insert(id, (Instant::now(), tenant.clone()));
        Ok(tenant)
    }

    /// For a session that this process has just started: its first request is not a lookup of an unknown credential, which others in
    /// its network could make fail.
    pub(crate) fn remember_session(&self, hash: [u8; 32]) {
        let mut sessions = self.sessions.lock();
        if sessions.len() >= MAX_CACHED {
            sessions.clear();
        }
        sessions.insert(hash);
    }

    /// The same for a token that this process has just created. It is still read when it is used, which records its use: an empty hash
    /// is that of no token. If it cannot be read now, its first use counts as a lookup.
    pub(crate) async fn remember_token(&self, id: &str) {
        if let Ok(Some(token)) = self.queue.find_token(id, Some(&[])).await {
            self.insert(id, Remembered { since: None, token: Some(token) });
        }
    }

    /// For a token that this process has just revoked. It stays in the cache as invalid, so that it is rejected without a lookup,
    /// which its holder could make fail by using up the lookups of its network.
    pub(crate) fn forget(&self, token_id: &str) {
        let mut tokens = self.tokens.lock();
        if let Some(known) = tokens.get_mut(token_id) {
            known.since = Some(Instant::now());
            if let Some(token) = &mut known.token {
                token.is_valid = false;
            }
        }
    }

    /// For a tenant that this process marks for deletion, or whose tokens it ends with the role of a member: its credentials are
    /// read again when they are used next.
    pub(crate) fn read_again(&self, tenant: Uuid) {
        self.tenants.lock().remove(&tenant);
        let mut tokens = self.tokens.lock();
        let of_tenant = |known: &&mut Remembered| {
            known.token.as_ref().is_some_and(|token| token.tenant_id == tenant && token.is_valid)
        };
        tokens.values_mut().filter(of_tenant).for_each(|known| known.since = None);
    }

    /// The caller with this token. A recently valid one is looked up directly; any other counts as unknown until it is found.
    pub(crate) async fn by_token(
        &self,
        token: &TokenSecret,
        from: Option<&str>,
    ) -> Result<Authenticated, Problem> {
        let known = match self.remembered(token.id()) {
            Some(known) if known.is_fresh() => known.token,
            // A revoked or expired token never becomes valid again.
            Some(Remembered { token: Some(known), .. }) if token.matches(&known.secret_hash) => {
                if known.is_valid { self.look_up(token.id(), Some(token)).await? } else { Some(known) }
            }
            _ => {
                let lookup = self.lookups.begin(from).await?;
                let known = self.look_up(token.id(), Some(token)).await?;
                if known.as_ref().is_none_or(|known| !known.is_valid || !token.matches(&known.secret_hash)) {
                    lookup.failed();
                }
                known
            }
        };
        // Compared even if the token does not exist, so that both take the same time.
        let stored = known.as_ref().map_or("", |known| known.secret_hash.as_str());
        let is_right = token.matches(stored);
        let known = known.filter(|known| is_right && known.is_valid && known.kind == token.kind().as_str());
        let known = known.ok_or_else(Problem::unauthorized)?;
        of_token(known)
    }

    fn remembered(&self, id: &str) -> Option<Remembered> {
        self.tokens.lock().get(id).cloned()
    }

    /// Reads a token from the database, for a given secret or for a session.
    async fn look_up(&self, id: &str, shown: Option<&TokenSecret>) -> Result<Option<KnownToken>, Problem> {
        let hash = shown.map(TokenSecret::hash);
        let token = self.queue.find_token(id, hash.as_ref().map(<[u8; 32]>::as_slice)).await?;
        self.insert(id, Remembered { since: Some(Instant::now()), token: token.clone() });
        Ok(token)
    }

    fn insert(&self, id: &str, known: Remembered) {
        let mut tokens = self.tokens.lock();
        if tokens.len() >= MAX_CACHED {
            tokens.retain(|_, known| known.is_fresh());
            if tokens.len() >= MAX_CACHED {
                tokens.clear();
            }
        }
        tokens.insert(id.to_owned(), known);
    }

    /// The session with this hash, if it exists.
    pub(crate) async fn session(
        &self,
        hash: &[u8; 32],
        from: Option<&str>,
    ) -> Result<Option<SignedIn>, Problem> {
        let is_known = self.sessions.lock().contains(hash);
        let lookup = if is_known { None } else { Some(self.lookups.begin(from).await?) };
        let session = self.queue.session_of(hash).await?;
        match (&session, lookup) {
            (None, lookup) => {
                self.sessions.lock().remove(hash);
                if let Some(lookup) = lookup {
                    lookup.failed();
                }
            }
            (Some(_), Some(_)) => self.remember_session(*hash),
            (Some(_), None) => {}
        }
        Ok(session)
    }
}

fn address_of(request: &Parts) -> Option<String> {
    client_of(&request.extensions).map(|address| address.to_string())
}

impl Remembered {
    fn is_fresh(&self) -> bool {
        let expires = self.token.as_ref().and_then(|token| token.expires_in_ms);
        let until = expires
            .map_or(CACHED_FOR, |ms| CACHED_FOR.min(Duration::from_millis(u64::try_from(ms).unwrap_or(0))));
        // An expired token stays expired.
        let is_over = self.token.as_ref().is_some_and(|token| !token.is_valid);
        let until = if is_over { CACHED_FOR } else { until };
        self.since.is_some_and(|since| since.elapsed() < until)
    }
}

/// For a user whose session has no valid tenant: none was chosen, or the membership has ended.
fn no_tenant() -> Problem {
    let detail = "you are not a member of the current tenant; nothing was changed; choose a tenant";
    Problem::of(ProblemKind::Forbidden, detail).remedy_page("/ui/tenant")
}

fn of_token(known: KnownToken) -> Result<Authenticated, Problem> {
    let role: Role = known.role.parse().map_err(|()| Problem::unauthorized())?;
    let scopes =
        known.scopes.map(|scopes| scopes.iter().filter_map(|scope| Permission::from_scope(scope)).collect());
    let who = Who::Token { id: known.id, name: known.name };
    let tenant = (!known.tenant_id.is_nil()).then_some(known.tenant_id);
    let caller = Caller { tenant, scopes, expires_at: known.expires_at, ..Caller::new(who, role) };
    Ok(Authenticated { caller, requests_per_minute: known.requests_per_minute })
}

/// The bearer token of the Authorization header, if present. Two such headers are an error.
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
