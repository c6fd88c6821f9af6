//! Who is asking, and what they may do. Three ways in, one [`Caller`] out: an API token, a JWT of somebody the installation
//! trusts, or the session of a signed-in browser. The tenant comes from the credential and from nowhere else; only a
//! super-admin may name another.

pub(crate) mod accounts;
mod attempts;
mod authenticator;
mod bootstrap;
mod caller;
mod counts;
mod grant;
mod jwks;
mod jwt;
mod line;
mod link;
mod member;
mod network;
mod password;
mod role;
mod secret;
pub mod session;
mod strangers;
mod token;

pub(crate) use attempts::Attempts;
pub use authenticator::{Authenticated, Authenticator};
pub use bootstrap::create_admin_token;
pub use caller::{Caller, Who};
pub use jwt::{JwtClaims, JwtKeys, JwtSettings, JwtVerifier};
pub(crate) use link::LinkSecret;
pub(crate) use member::MemberRole;
pub use password::{hash_password, verify_password};
pub use role::{Permission, Role};
pub use secret::Secret;
pub use token::{Kind, TokenSecret};
