//! JWTs of the configured issuer, verified with a shared secret (HS256) or with public keys (JWKS).
//!
//! The key determines the algorithm, never the token: a header with another algorithm is rejected, and so is one that contains or
//! references keys. Issuer, audience, expiry and subject are required, `nbf` is checked, with a few seconds for clocks that differ. An
//! expiry has no such leeway: whoever verifies a token elsewhere does not accept it any more either. The tenant and the role come from the
//! configured claims (Supabase has both in `app_metadata`).

use jiff::Timestamp;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde_json::Value;
use uuid::Uuid;

use super::jwks::Jwks;
use super::role::Role;
use super::secret::Secret;
use crate::strict_json::StrictJson;

/// The issuer, its keys, and the claims of the tenant and the role.
#[derive(Debug, Clone)]
pub struct JwtSettings {
    /// How signatures are verified.
    pub keys: JwtKeys,
    /// The required `iss`.
    pub issuer: String,
    /// The required `aud`.
    pub audience: String,
    /// The path to the claim with the tenant, with dots.
    pub tenant_claim: String,
    /// The path to the claim with the role, with dots.
    pub role_claim: String,
}

/// The keys of the issuer.
#[derive(Debug, Clone)]
pub enum JwtKeys {
    /// The shared secret of HS256.
    Secret(Secret),
    /// The URL of the public keys.
    Jwks(String),
}

/// The claims of a valid token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JwtClaims {
    pub(crate) subject: String,
    pub(crate) tenant: Option<Uuid>,
    pub(crate) role: Role,
    pub(crate) expires_at: Timestamp,
}

/// Verifies tokens.
#[derive(Debug)]
pub(crate) struct JwtVerifier {
    settings: JwtSettings,
    /// The public keys of the issuer.
    published: Option<Jwks>,
}

const MAX_TOKEN_LENGTH: usize = 8 * 1024;
/// How far the clock of the issuer may be ahead: for `nbf` only.
const LEEWAY_SECONDS: u64 = 5;

impl JwtVerifier {
    pub(crate) fn new(settings: JwtSettings) -> Self {
        let published = match &settings.keys {
            JwtKeys::Jwks(address) => Some(Jwks::new(address.clone())),
            JwtKeys::Secret(_) => None,
        };
        Self { settings, published }
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.settings.issuer
    }

    /// Returns the claims if the token is valid. The reason why it is invalid is not revealed.
    pub(crate) async fn verify(&self, token: &str) -> Option<JwtClaims> {
        if token.len() > MAX_TOKEN_LENGTH {
            return None;
        }
        let header = header_of(token)?;
        let (key, algorithm) = self.key_for(&header).await?;
        if header.get("alg")?.as_str()? != name_of(algorithm)? {
            return None;
        }
        let mut validation = Validation::new(algorithm);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_audience(&[&self.settings.audience]);
        validation.validate_nbf = true;
        validation.leeway = LEEWAY_SECONDS;
        let StrictJson(claims) = decode(token, &key, &validation).ok()?.claims;
        // Only numbers: a string must not be read as "no limit".
        let times_are_numbers = claims.get("exp").is_some_and(Value::is_number)
            && claims.get("nbf").is_none_or(Value::is_number)
            && claims.get("iss").is_some_and(Value::is_string);
        let claims = times_are_numbers.then(|| self.read(&claims)).flatten()?;
        (claims.expires_at > Timestamp::now()).then_some(claims)
    }

    fn read(&self, claims: &Value) -> Option<JwtClaims> {
        let subject =
            claims.get("sub")?.as_str().filter(|subject| !subject.is_empty() && subject.len() <= 500)?;
        let role: Role = at(claims, &self.settings.role_claim)?.as_str()?.parse().ok()?;
        let tenant = match at(claims, &self.settings.tenant_claim) {
            Some(tenant) => Some(tenant.as_str()?.parse::<Uuid>().ok().filter(|tenant| !tenant.is_nil())?),
            None => None,
        };
        // Only a super-admin needs no tenant.
        let needs_tenant = role != Role::SuperAdmin;
        if needs_tenant && tenant.is_none() {
            return None;
        }
        Some(JwtClaims {
            subject: subject.to_owned(),
            tenant,
            role,
            expires_at: instant(claims.get("exp")?)?,
        })
    }

    async fn key_for(&self, header: &Value) -> Option<(DecodingKey, Algorithm)> {
        match &self.settings.keys {
            JwtKeys::Secret(secret) => {
                Some((DecodingKey::from_secret(secret.expose().as_bytes()), Algorithm::HS256))
            }
            JwtKeys::Jwks(_) => {
                let id = header.get("kid")?.as_str().filter(|id| !id.is_empty())?;
                let key = self.published.as_ref()?.key(id).await?;
                Some((DecodingKey::from_jwk(&key).ok()?, algorithm_of(&key)?))
            }
        }
    }
}

/// The header, unless it contains or references keys, or requires extensions: a token must not choose any of that.
fn header_of(token: &str) -> Option<Value> {
    use base64::Engine as _;
    let mut parts = token.split('.');
    let first = parts.next()?;
    if parts.count() != 2 {
        return None;
    }
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(first).ok()?;
    let StrictJson(header) = serde_json::from_slice(&bytes).ok()?;
    let is_plain = ["jku", "jwk", "x5u", "x5c", "crit", "zip", "enc", "b64"]
        .iter()
        .all(|name| header.get(name).is_none());
    (header.is_object() && is_plain).then_some(header)
}

/// A number of seconds, possibly with a fraction. A value beyond the range becomes the last instant.
fn instant(seconds: &Value) -> Option<Timestamp> {
    let seconds = seconds.as_f64()?.clamp(0.0, Timestamp::MAX.as_second() as f64);
    Timestamp::from_second(seconds as i64).ok()
}

/// A published key is valid for one algorithm: its `alg`, which its type must allow, or the default of its type. Shared secrets are not accepted here, nor
/// keys that are published for anything but signatures.
pub(super) fn algorithm_of(key: &Jwk) -> Option<Algorithm> {
    let is_for_signatures =
        key.common.public_key_use.as_ref().is_none_or(|is_for| *is_for == PublicKeyUse::Signature)
            && key
                .common
                .key_operations
                .as_ref()
                .is_none_or(|operations| operations.contains(&KeyOperations::Verify));
    if !is_for_signatures {
        return None;
    }
    let usual = match &key.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
            EllipticCurve::P256 => Algorithm::ES256,
            EllipticCurve::P384 => Algorithm::ES384,
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(_) => Algorithm::EdDSA,
        _ => return None,
    };
    match key.common.key_algorithm {
        None => Some(usual),
        Some(KeyAlgorithm::RS256) if usual == Algorithm::RS256 => Some(Algorithm::RS256),
        Some(KeyAlgorithm::RS384) if usual == Algorithm::RS256 => Some(Algorithm::RS384),
        Some(KeyAlgorithm::RS512) if usual == Algorithm::RS256 => Some(Algorithm::RS512),
        Some(KeyAlgorithm::ES256) => (usual == Algorithm::ES256).then_some(usual),
        Some(KeyAlgorithm::ES384) => (usual == Algorithm::ES384).then_some(usual),
        Some(KeyAlgorithm::EdDSA) => (usual == Algorithm::EdDSA).then_some(usual),
        Some(_) => None,
    }
}

fn name_of(algorithm: Algorithm) -> Option<&'static str> {
    Some(match algorithm {
        Algorithm::HS256 => "HS256",
        Algorithm::RS256 => "RS256",
        Algorithm::RS384 => "RS384",
        Algorithm::RS512 => "RS512",
        Algorithm::ES256 => "ES256",
        Algorithm::ES384 => "ES384",
        Algorithm::EdDSA => "EdDSA",
        _ => return None,
    })
}

/// A claim by its dotted path.
fn at<'a>(claims: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(claims, |value, name| value.get(name)).filter(|value| !value.is_null())
}
