//! What a person may be in a tenant, and what is asked of an e-mail address and a name, by the API and by pages.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::role::Role;
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
    pub(crate) fn named(name: &str) -> Result<Self, Problem> {
        match name {
            "viewer" => Ok(Self::Viewer),
            "operator" => Ok(Self::Operator),
            "tenant_admin" => Ok(Self::TenantAdmin),
            _ => Err(Problem::invalid("/role", "must be viewer, operator or tenant_admin")),
        }
    }

    pub(crate) const fn role(self) -> Role {
        match self {
            Self::Viewer => Role::Viewer,
            Self::Operator => Role::Operator,
            Self::TenantAdmin => Role::TenantAdmin,
        }
    }
}

/// Bytes of the longest address.
const LONGEST_ADDRESS: usize = 320;

/// An e-mail address as it is stored, or what is wrong with it.
pub(crate) fn email_address(text: &str) -> Result<String, Problem> {
    let wrong = || {
        Problem::invalid(
            "/email",
            format!("must be an e-mail address of at most {LONGEST_ADDRESS} characters"),
        )
    };
    let text = text.trim();
    // Before anything is copied: whoever types here may not be known.
    if text.len() > LONGEST_ADDRESS
        || text.chars().any(|letter| letter.is_whitespace() || letter.is_control())
    {
        return Err(wrong());
    }
    match text.split('@').collect::<Vec<_>>()[..] {
        [before, after] if !before.is_empty() && !after.is_empty() => Ok(text.to_lowercase()),
        _ => Err(wrong()),
    }
}

/// The name of a person as it is stored.
pub(crate) fn person_name(text: &str) -> Result<String, Problem> {
    if text.chars().count() > 200 {
        return Err(Problem::invalid("/name", "must have at most 200 characters"));
    }
    Ok(windlass::text::storable(text.trim().as_bytes(), 1000))
}

#[cfg(test)]
mod tests {
    use super::email_address;

    #[test]
    fn an_address_is_bounded_and_has_its_form() {
        assert_eq!(email_address(" Ada@Example.com ").unwrap(), "ada@example.com");
        let long = format!("{}@example.com", "a".repeat(400));
        for wrong in ["", "ada", "@b", "a@", "a@b@c", "a b@c", "a\0@b", &long] {
            assert!(email_address(wrong).is_err(), "{wrong}");
        }
    }
}
