//! Nobody gives away what they do not have. Every way to make or change a credential or a role asks here: tokens and their
//! rotation, invitations, roles of members, password resets.

use jiff::Timestamp;

use super::caller::Caller;
use super::role::{Permission, Role};
use crate::http::{Problem, ProblemKind};

impl Caller {
    /// Whether this caller may give somebody this role, held to these scopes. Refuses a role that is above tenants to whoever is
    /// not, whatever its scopes; else by the first permission that the caller does not have.
    pub(crate) fn check_grant(&self, role: Role, scopes: Option<&[String]>) -> Result<(), Problem> {
        if role == Role::SuperAdmin && self.role != Role::SuperAdmin {
            let detail = "only a super-admin may grant the role super_admin, which reaches every tenant";
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
                let detail = format!("you may not grant {}, which you do not have", missing.as_str());
                Err(Problem::of(ProblemKind::Forbidden, detail))
            }
        }
    }

    /// A tenant's administrator makes tokens for workers without being one.
    fn may_grant(&self, permission: Permission) -> bool {
        self.may(permission)
            || (permission == Permission::Work && self.role == Role::TenantAdmin && self.scopes.is_none())
    }

    /// When a token that this caller makes ends: as asked for, but never after the caller's own token or JWT.
    pub(crate) fn check_expiry(&self, asked: Option<Timestamp>) -> Result<(), Problem> {
        let Some(own) = self.expires_at else { return Ok(()) };
        if asked.is_some_and(|asked| asked <= own) {
            return Ok(());
        }
        let message = format!("must not be later than {own}, when your own token expires");
        Err(Problem::invalid("/expires_at", message))
    }
}

#[cfg(test)]
mod tests {
    use super::{Caller, Permission, Role};
    use crate::auth::Who;

    fn caller(role: Role, scopes: Option<&[Permission]>) -> Caller {
        Caller {
            who: Who::Local { user: "test".to_owned() },
            role,
            tenant: None,
            scopes: scopes.map(<[Permission]>::to_vec),
            expires_at: None,
            from_address: None,
            request_id: None,
        }
    }

    /// Every caller × every role × every scope: what is granted is part of what the caller has, permissions and tenants both.
    #[test]
    fn no_grant_is_more_than_the_caller_has() {
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
                        "{role} {held:?} gives {given}"
                    );
                    let is_granted = caller.check_grant(given, Some(&[])).is_ok();
                    assert_eq!(is_granted, is_in_reach, "{role} {held:?} gives {given} without a scope");
                    for scope in Permission::ALL.into_iter().skip(2).filter(|scope| given.may(*scope)) {
                        let is_granted =
                            caller.check_grant(given, Some(&[scope.as_str().to_owned()])).is_ok();
                        let is_worker =
                            scope == Permission::Work && role == Role::TenantAdmin && held.is_none();
                        assert_eq!(
                            is_granted,
                            is_in_reach && (caller.may(scope) || is_worker),
                            "{role} {held:?} gives {given} with {scope:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_token_that_ends_makes_none_that_outlives_it() {
        let at = |second| jiff::Timestamp::from_second(second).unwrap();
        let mut caller = caller(Role::TenantAdmin, None);
        assert!(caller.check_expiry(None).is_ok());
        caller.expires_at = Some(at(100));
        assert!(caller.check_expiry(Some(at(100))).is_ok());
        assert!(caller.check_expiry(Some(at(101))).is_err());
        assert!(caller.check_expiry(None).is_err());
    }
}
