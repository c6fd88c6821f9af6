//! The roles of members, and the validation of email addresses and names, for the API and for the pages.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::role::Role;
use crate::http::Problem;

/// The role of a member.
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

/// The maximum length of an address, in bytes.
const MAX_ADDRESS_LENGTH: usize = 320;

/// Validates an email address and normalizes it for storage.
pub(crate) fn email_address(text: &str) -> Result<String, Problem> {
    let wrong = || {
        Problem::invalid(
            "/email",
            format!("must be an email address of at most {MAX_ADDRESS_LENGTH} characters"),
        )
    };
    let text = text.trim();
    // Before anything is copied: the caller may be anonymous.
    if text.len() > MAX_ADDRESS_LENGTH
        || text.chars().any(|letter| letter.is_whitespace() || letter.is_control())
    {
        return Err(wrong());
    }
    if text.chars().any(is_invisible) {
        return Err(Problem::invalid("/email", "must not contain invisible characters"));
    }
    match text.split('@').collect::<Vec<_>>()[..] {
        [before, after] if !before.is_empty() && !after.is_empty() => Ok(text.to_lowercase()),
        _ => Err(wrong()),
    }
}

/// Characters that most programs do not show (Unicode's `Default_Ignorable_Code_Point`, and annotations): with them, an address
/// looks like another one.
fn is_invisible(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Validates the name of a person.
pub(crate) fn person_name(text: &str) -> Result<String, Problem> {
    if text.chars().count() > 200 {
        return Err(Problem::invalid("/name", "must have at most 200 characters"));
    }
    Ok(windlass::internals::text::storable(text.trim().as_bytes(), 1000))
}

#[cfg(test)]
mod tests {
    use super::email_address;

    #[test]
    fn an_address_is_bounded_and_well_formed() {
        assert_eq!(email_address(" Ada@Example.com ").unwrap(), "ada@example.com");
        let long = format!("{}@example.com", "a".repeat(400));
        for wrong in ["", "ada", "@b", "a@", "a@b@c", "a b@c", "a\0@b", &long] {
            assert!(email_address(wrong).is_err(), "{wrong}");
        }
    }

    ///
    #[test]
    fn an_address_has_no_invisible_characters() {
        for hidden in
            ['\u{200b}', '\u{200d}', '\u{2060}', '\u{feff}', '\u{ad}', '\u{202e}', '\u{fe0f}', '\u{e0041}']
        {
            let problem = email_address(&format!("e{hidden}ve@example.com")).unwrap_err();
            assert_eq!(problem.detail, "email: must not contain invisible characters", "{hidden:?}");
        }
        assert_eq!(email_address("jörg@exämple.com").unwrap(), "jörg@exämple.com");
    }
}
