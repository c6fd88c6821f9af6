//! A caller cannot grant permissions it does not have. Everything that creates or changes a credential or a role checks this:
//! tokens, their rotation and revocation, invitations, roles of members, password resets.

use jiff::Timestamp;
use windlass::internals::{LinkCreator, Token};

use super::caller::Caller;
use super::role::{Permission, Role};
use crate::http::{Problem, ProblemKind};

/// The permissions of a credential: those of its role, restricted to its scopes.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldPermissions<'a> {
    pub(super) role: Role,
    /// `None` for no restriction.
    pub(super) scopes: Option<&'a [Permission]>,
}

impl HeldPermissions<'_> {
    pub(super) fn may(self, permission: Permission) -> bool {
        let is_free = matches!(permission, Permission::Anyone | Permission::SignedIn);
        self.role.may(permission)
            && (is_free || self.scopes.is_none_or(|scopes| scopes.contains(&permission)))
    }

    /// A tenant admin can create tokens of workers without being one.
    fn may_grant(self, permission: Permission) -> bool {
        self.may(permission)
            || (permission == Permission::Work && self.role == Role::TenantAdmin && self.scopes.is_none())
    }

    fn check_grant(self, role: Role, scopes: Option<&[String]>) -> Result<(), Problem> {
        if role == Role::SuperAdmin && self.role != Role::SuperAdmin {
            let detail = "only a super-admin can grant the role super_admin";
            return Err(Problem::of(ProblemKind::Forbidden, detail));
        }
        let is_granted = |permission: &Permission| {
            let named = scopes.is_none_or(|scopes| scopes.iter().any(|scope| scope == permission.as_str()));
            role.may(*permission) && named
        };
        let granted = Permission::ALL.into_iter().skip(2).filter(is_granted);
        match granted.into_iter().find(|permission| !self.may_grant(*permission)) {
            None => Ok(()),
            Some(missing) => {
                let detail =
                    format!("you cannot grant the permission {}, which you do not have", missing.as_str());
                Err(Problem::of(ProblemKind::Forbidden, detail))
            }
        }
    }
}

impl Caller {
    /// Checks that the caller can grant this role, restricted to these scopes. Only a super-admin can grant super_admin, with any
    /// scopes; otherwise the error names the first permission that the caller does not have.
    pub(crate) fn check_grant(&self, role: Role, scopes: Option<&[String]>) -> Result<(), Problem> {
        self.permissions().check_grant(role, scopes)
    }

    /// Checks that the caller can revoke this token: only one that it could create.
    pub(crate) fn check_revoke(&self, token: &Token) -> Result<(), Problem> {
        let role: Role = token.role.parse().map_err(|()| Problem::not_found("token"))?;
        self.check_grant(role, token.scopes.as_deref()).map_err(|_| {
            let detail = "you cannot revoke a token with more permissions than your own";
            Problem::of(ProblemKind::Forbidden, detail)
        })
    }

    /// How long a link that the caller creates is valid: as long as requested, but not longer than the caller's own token or JWT.
    pub(crate) fn link_seconds(&self, requested: u32, now: Timestamp) -> Result<u32, Problem> {
        let Some(own) = self.expires_at else { return Ok(requested) };
        // One second less, because the database adds it to a time that is a little later than `now`.
        let left = (own.duration_since(now).as_secs() - 1).clamp(0, requested.into());
        let left = u32::try_from(left).unwrap_or(requested);
        if left == 0 { Err(Problem::unauthorized()) } else { Ok(left) }
    }

    /// Checks the expiry of a new token: it must not outlive the caller's own token or JWT.
    pub(crate) fn check_expiry(&self, asked: Option<Timestamp>) -> Result<(), Problem> {
        let Some(own) = self.expires_at else { return Ok(()) };
        if asked.is_some_and(|asked| asked <= own) {
            return Ok(());
        }
        let message = format!("must not be later than {own}, when your own token expires");
        Err(Problem::invalid("/expires_at", message))
    }
}

/// The problem of a caller whose access has ended while its request was processed: the same as at its beginning.
pub(crate) fn creator_problem(error: windlass::Error) -> Problem {
    match error {
        windlass::Error::Unknown { what: "creator" } => Problem::unauthorized(),
        error => error.into(),
    }
}

/// Whether the creator of a link may still create it: one who manages members and can grant this role. A creator that is not
/// stored here is a JWT, with which its links expire, or a person with access to the database.
pub(super) fn may_still_grant(creator: LinkCreator, role: Role) -> bool {
    let Some(name) = creator.role else { return true };
    let Ok(own) = name.parse() else { return false };
    let scopes: Option<Vec<Permission>> =
        creator.scopes.map(|all| all.iter().filter_map(|scope| Permission::from_scope(scope)).collect());
    let held = HeldPermissions { role: own, scopes: scopes.as_deref() };
    held.may(Permission::ManageMembers) && held.check_grant(role, None).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{Caller, Permission, Role};
    use crate::auth::Who;

    fn caller(role: Role, scopes: Option<&[Permission]>) -> Caller {
        let who = Who::Local { user: "test".to_owned(), login: "test".to_owned() };
        Caller { scopes: scopes.map(<[Permission]>::to_vec), ..Caller::new(who, role) }
    }

    /// For every caller, role and scope: a grant is a subset of the permissions and tenants of the caller.
    #[test]
    fn no_grant_exceeds_the_callers_own() {
        for role in Role::ALL {
            for held in [
                None,
                Some(Permission::ManageMembers),
                Some(Permission::ManageTokens),
                Some(Permission::ReadJobs),
            ] {
                let held = held.map(|held| vec![held]);
                let caller = caller(role, held.as_deref());
                for given in Role::ALL {
                    let is_in_reach = given != Role::SuperAdmin || role == Role::SuperAdmin;
                    let is_whole = is_in_reach
                        && Permission::ALL.into_iter().skip(2).all(|permission| {
                            !given.may(permission)
                                || caller.may(permission)
                                || (permission == Permission::Work
                                    && role == Role::TenantAdmin
                                    && held.is_none())
                        });
                    assert_eq!(
                        caller.check_grant(given, None).is_ok(),
                        is_whole,
                        "{role} {held:?} grants {given}"
                    );
                    let is_granted = caller.check_grant(given, Some(&[])).is_ok();
                    assert_eq!(is_granted, is_in_reach, "{role} {held:?} grants {given} without a scope");
                    for scope in Permission::ALL.into_iter().skip(2).filter(|scope| given.may(*scope)) {
                        let is_granted =
                            caller.check_grant(given, Some(&[scope.as_str().to_owned()])).is_ok();
                        let is_worker =
                            scope == Permission::Work && role == Role::TenantAdmin && held.is_none();
                        assert_eq!(
                            is_granted,
                            is_in_reach && (caller.may(scope) || is_worker),
                            "{role} {held:?} grants {given} with {scope:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_token_cannot_create_one_that_outlives_it() {
        let at = |second| jiff::Timestamp::from_second(second).unwrap();
        let mut caller = caller(Role::TenantAdmin, None);
        assert!(caller.check_expiry(None).is_ok());
        caller.expires_at = Some(at(100));
        assert!(caller.check_expiry(Some(at(100))).is_ok());
        assert!(caller.check_expiry(Some(at(101))).is_err());
        assert!(caller.check_expiry(None).is_err());
    }
}
