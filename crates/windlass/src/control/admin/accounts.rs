//! Accounts and how they come to a tenant: invitations, which the account accepts, and passwords.
//!
//! An account belongs to a person and may be a member of several tenants. No tenant sets or reads anything of it: what a
//! tenant has is an invitation, and after it was accepted a member.

use serde_json::json;
use uuid::Uuid;

use crate::control::transaction::{Acting, Looking};
use crate::error::{Error, Result};
use crate::model::account::{Invitation, InvitedTo, Member, NewAccount, PasswordReset, ResetOf};
use crate::model::audit::{Act, Action};
use crate::queue::Queue;
use crate::store;

#[doc(hidden)]
impl Acting {
    /// Offers an address a membership. Only the hash of the link's secret is kept.
    pub async fn create_invitation(
        &self,
        tenant: Uuid,
        (email, role): (&str, &str),
        hash: &[u8],
        seconds: u32,
    ) -> Result<Invitation> {
        let fields = json!({"email": email, "role": role, "created_by": self.actor.name});
        let made = store::account::create_invitation(&self.session, tenant, &fields, hash, seconds).await?;
        let made = made.ok_or(Error::Unknown { what: "tenant" })?;
        self.record(Act::new(Action::InvitationCreate, made.id).after(&made)).await?;
        Ok(made)
    }

    /// Revokes an invitation.
    pub async fn revoke_invitation(&self, tenant: Uuid, id: Uuid) -> Result<Invitation> {
        let revoked = store::account::revoke_invitation(&self.session, tenant, id).await?;
        let revoked = revoked.ok_or(Error::Unknown { what: "invitation" })?;
        self.record(Act::new(Action::InvitationRevoke, id).before(&revoked)).await?;
        Ok(revoked)
    }

    /// Accepts as the person of a session, which then looks at the new tenant. None: the invitation is gone, the session is, or it
    /// is another account's.
    pub async fn accept_invitation(
        &self,
        invited: &InvitedTo,
        hash: &[u8],
        session: &[u8],
    ) -> Result<Option<Member>> {
        let tenant = invited.tenant_id;
        let Some(member) = store::account::accept(&self.session, tenant, hash, session).await? else {
            return Ok(None);
        };
        store::manage::choose_tenant(&self.session, session, tenant).await?;
        self.record(Act::new(Action::InvitationAccept, invited.id).after(&member)).await?;
        Ok(Some(member))
    }

    /// Makes the account and accepts for it. None: the invitation is gone, or the address has an account.
    pub async fn accept_invitation_as_new(
        &self,
        invited: &InvitedTo,
        hash: &[u8],
        account: &NewAccount,
    ) -> Result<Option<Member>> {
        let member = store::account::accept_as_new(&self.session, invited.tenant_id, hash, account).await?;
        if member.is_some() {
            self.record(Act::new(Action::InvitationAccept, invited.id).after(&member)).await?;
        }
        Ok(member)
    }

    /// A member, who stays as they are until this transaction ends.
    pub async fn lock_member(&self, tenant: Uuid, user: Uuid) -> Result<Member> {
        let member = store::account::lock_member(&self.session, tenant, user).await?;
        member.ok_or(Error::Unknown { what: "member" })
    }

    /// Gives a member another role.
    pub async fn set_member_role(&self, tenant: Uuid, user: Uuid, role: &str) -> Result<Member> {
        let before = self.lock_member(tenant, user).await?;
        let member = store::account::set_member_role(&self.session, tenant, user, role).await?;
        let member = member.ok_or(Error::Unknown { what: "member" })?;
        self.record(Act::new(Action::MemberRole, user).before(&before).after(&member)).await?;
        Ok(member)
    }

    pub async fn remove_member(&self, tenant: Uuid, user: Uuid) -> Result<Member> {
        let removed = store::manage::remove_member(&self.session, tenant, user).await?;
        let removed = removed.ok_or(Error::Unknown { what: "member" })?;
        self.record(Act::new(Action::MemberRemove, user).before(&removed)).await?;
        Ok(removed)
    }

    /// Sets a password, if the old hash is still the account's, and ends all its sessions but this one. False: it is not.
    pub async fn change_password(
        &self,
        user: Uuid,
        (old_hash, new_hash): (&str, &str),
        keep_session: Option<&[u8]>,
    ) -> Result<bool> {
        let hashes = (old_hash, new_hash);
        let is_set = store::account::change_password(&self.session, user, hashes, keep_session).await?;
        if is_set {
            self.record(Act::new(Action::PasswordChange, user)).await?;
        }
        Ok(is_set)
    }

    /// Makes a link that sets a password: as a tenant's administrator, or as the installation's ([`crate::INSTALLATION`]).
    /// None: there is no such account, or this tenant may not reset it.
    pub async fn create_password_reset(
        &self,
        tenant: Uuid,
        user: Uuid,
        hash: &[u8],
        seconds: u32,
    ) -> Result<Option<PasswordReset>> {
        let by = &self.actor.name;
        let made = store::account::create_reset(&self.session, (tenant, user), hash, seconds, by).await?;
        if made.is_some() {
            self.record(Act::new(Action::PasswordResetLink, user).after(&made)).await?;
        }
        Ok(made)
    }

    /// Uses such a link. None: it is gone, or its maker may not reset this account any more.
    pub async fn reset_password(&self, hash: &[u8], new_hash: &str) -> Result<Option<Uuid>> {
        let user = store::account::reset_password(&self.session, hash, new_hash).await?;
        if let Some(user) = user {
            self.record(Act::new(Action::PasswordReset, user)).await?;
        }
        Ok(user)
    }
}

#[doc(hidden)]
impl Looking {
    /// The open invitations of a tenant.
    pub async fn invitations(&self, tenant: Uuid) -> Result<Vec<Invitation>> {
        store::account::invitations(&self.session, tenant).await
    }
}

#[doc(hidden)]
impl Queue {
    /// The open invitation behind a link.
    pub async fn find_invitation(&self, hash: &[u8]) -> Result<Option<InvitedTo>> {
        store::account::find_invitation(self.database(), hash).await
    }

    /// Whose password a link sets, if it still may.
    pub async fn find_password_reset(&self, hash: &[u8]) -> Result<Option<ResetOf>> {
        store::account::find_reset(self.database(), hash).await
    }
}
