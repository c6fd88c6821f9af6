//! What windlass-server and the tests of this repository use, and nobody else should. It is exempt from semantic versioning: any
//! release may change or remove it.

pub use crate::control::jobs::{CheckedJob, Placed};
pub use crate::lane::fair;
pub use crate::model::account::{
    Account, Invitation, InvitedTo, Membership, NewAccount, NewSession, PasswordReset, ResetOf, SessionOf,
    SignedIn,
};
pub use crate::model::instant;
pub use crate::model::job::{settle, state};
pub use crate::model::token::{KnownToken, NewToken, Token};
pub use crate::queue::slots::{SlotGuard, Slots};
pub use crate::store::permits::{Permit, Permits};
pub use crate::store::statements;
pub use crate::telemetry::METRICS;

/// Makes text, JSON and secrets from outside safe to store and to show.
pub mod text {
    pub use crate::text::{hex, json, redact, storable, storable_json, tail};
}
