//! Whoever lets somebody into a tenant, by the API or a page: which roles there are, and what is asked of an address and a password.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::password::hash_password;
use super::secret::Secret;
use crate::http::Problem;

/// What a person may be in a tenant.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MemberRole {
    Viewer,
    Operator,
    TenantAdmin,
}

impl MemberRole {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "viewer" => Some(Self::Viewer),
            "operator" => Some(Self::Operator),
            "tenant_admin" => Some(Self::TenantAdmin),
            _ => None,
        }
    }
}

/// What the library needs to let somebody in; or what is wrong with it. The password is hashed here and goes no further.
pub(crate) async fn member_fields(
    email: &str,
    name: Option<String>,
    role: MemberRole,
    password: Option<Secret>,
) -> Result<Map<String, Value>, Problem> {
    let email = email.trim().to_lowercase();
    let is_address =
        email.split_once('@').is_some_and(|(before, after)| !before.is_empty() && !after.is_empty())
            && email.matches('@').count() == 1
            && email.len() <= 320
            && !email.chars().any(|letter| letter.is_whitespace() || letter.is_control());
    if !is_address {
        return Err(Problem::invalid("/email", "must be an email address"));
    }
    if name.as_ref().is_some_and(|name| name.chars().count() > 200) {
        return Err(Problem::invalid("/name", "has at most 200 characters"));
    }
    let name = name.map(|name| windlass::text::storable(name.as_bytes(), 1000));
    let password_hash = match password {
        Some(password) => Some(hash_password(password).await?),
        None => None,
    };
    let fields = [
        ("email", json!(email)),
        ("name", json!(name)),
        ("role", json!(role)),
        ("password_hash", json!(password_hash)),
    ];
    Ok(fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect())
}
