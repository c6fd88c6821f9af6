//! Authentication and permissions. Three kinds of credentials result in one [`Caller`]: an API token, a JWT of the configured
//! issuer, or the session of a signed-in browser. The tenant comes only from the credential; only a super-admin can choose
//! another.

pub(crate) mod accounts;
mod attempts;
mod authenticator;
mod bootstrap;
mod caller;
mod counts;
mod grant;
mod jwks;
mod jwt;
mod link;
mod lookups;
mod member;
mod network;
mod password;
mod password_queue;
mod role;
mod secret;
pub mod session;
mod token;

pub(crate) use attempts::SignInAttempts;
pub(crate) use authenticator::{Authenticated, Authenticator, Unauthenticated};
pub use bootstrap::create_admin_token;
pub(crate) use caller::{Caller, Who};
pub(crate) use grant::creator_problem;
pub use jwt::{JwtKeys, JwtSettings};
pub(crate) use link::LinkSecret;
pub(crate) use member::MemberRole;
pub use password::hash_password;
pub use role::{Permission, Role};
pub use secret::Secret;
pub use token::{TokenKind, TokenSecret};
