//! Accounts and their memberships: invitations, which the account accepts, and passwords.
//!
//! An account belongs to a person and can be a member of several tenants. A tenant cannot read or change it: a tenant
//! has an invitation, and a member after the invitation was accepted.

use serde_json::json;
use uuid::Uuid;

use crate::control::transaction::{Acting, Reading};
use crate::error::{Error, Result};
use crate::model::account::{
    Invitation, InvitedTo, LinkCreator, Member, NewAccount, OpenReset, PasswordReset, ResetOf,
};
use crate::queue::Queue;
use crate::store;

#[doc(hidden)]
impl Acting {
    /// Offers a membership to an email address. Only the hash of the link's secret is stored.
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
        self.was_recorded();
        Ok(made)
    }

    /// Revokes an invitation.
    pub async fn revoke_invitation(&self, tenant: Uuid, id: Uuid) -> Result<Invitation> {
        let revoked = store::account::revoke_invitation(&self.session, tenant, id).await?;
        let revoked = revoked.ok_or(Error::Unknown { what: "invitation" })?;
        self.was_recorded();
        Ok(revoked)
    }

    /// Accepts an invitation as the user of a session, and switches the session to the new tenant. Returns none if the
    /// invitation or the session is no longer valid, or the session belongs to another account.
    pub async fn accept_invitation(
        &self,
        invited: &InvitedTo,
        hash: &[u8],
        session: &[u8],
    ) -> Result<Option<Member>> {
        let tenant = invited.tenant_id;
        let member = store::account::accept(&self.session, tenant, hash, session).await?;
        self.was_recorded();
        Ok(member)
    }

    /// Creates the account and accepts for it. Returns none if the invitation is no longer valid, or the address
    /// already has an account.
    pub async fn accept_invitation_as_new(
        &self,
        invited: &InvitedTo,
        hash: &[u8],
        account: &NewAccount,
    ) -> Result<Option<Member>> {
        let member = store::account::accept_as_new(&self.session, invited.tenant_id, hash, account).await?;
        self.was_recorded();
        Ok(member)
    }

    /// Returns what the creator of a link may do now, and locks that until this transaction ends. Returns none if its
    /// token was revoked or has expired, or the member was removed.
    pub async fn lock_link_creator(&self, tenant: Uuid, created_by: &str) -> Result<Option<LinkCreator>> {
        store::account::lock_link_creator(&self.session, tenant, created_by).await
    }

    /// Returns a member and locks it until this transaction ends.
    pub async fn lock_member(&self, tenant: Uuid, user: Uuid) -> Result<Member> {
        let member = store::account::lock_member(&self.session, tenant, user).await?;
        member.ok_or(Error::Unknown { what: "member" })
    }

    /// Changes the role of a member.
    pub async fn set_member_role(&self, tenant: Uuid, user: Uuid, role: &str) -> Result<Member> {
        let member = store::account::set_member_role(&self.session, tenant, user, role).await?;
        let member = member.ok_or(Error::Unknown { what: "member" })?;
        self.was_recorded();
        Ok(member)
    }

    pub async fn remove_member(&self, tenant: Uuid, user: Uuid) -> Result<Member> {
        let removed = store::manage::remove_member(&self.session, tenant, user).await?;
        let removed = removed.ok_or(Error::Unknown { what: "member" })?;
        self.was_recorded();
        Ok(removed)
    }

    /// Sets a password if `old_hash` is still current, and ends all other sessions of the account. Returns false if it
    /// is not.
    pub async fn change_password(
        &self,
        user: Uuid,
        (old_hash, new_hash): (&str, &str),
        keep_session: Option<&[u8]>,
    ) -> Result<bool> {
        let hashes = (old_hash, new_hash);
        let is_set = store::account::change_password(&self.session, user, hashes, keep_session).await?;
        self.was_recorded();
        Ok(is_set)
    }

    /// Creates a link that sets a password, on behalf of a tenant's administrator or of the installation
    /// ([`crate::INSTALLATION`]). Returns none if the account does not exist or this tenant is not allowed to reset it.
    pub async fn create_password_reset(
        &self,
        tenant: Uuid,
        user: Uuid,
        hash: &[u8],
        seconds: u32,
    ) -> Result<Option<PasswordReset>> {
        let by = &self.actor.name;
        let made = store::account::create_reset(&self.session, (tenant, user), hash, seconds, by).await?;
        self.was_recorded();
        Ok(made)
    }

    /// Revokes the link of an account: one of this tenant, or any.
    pub async fn revoke_password_reset(&self, tenant: Option<Uuid>, user: Uuid) -> Result<OpenReset> {
        let revoked = store::account::revoke_reset(&self.session, tenant, user).await?;
        let revoked = revoked.ok_or(Error::Unknown { what: "password reset link" })?;
        self.was_recorded();
        Ok(revoked)
    }

    /// Uses such a link. Returns none if it is no longer valid, or its creator is no longer allowed to reset this
    /// account.
    pub async fn reset_password(&self, hash: &[u8], new_hash: &str) -> Result<Option<Uuid>> {
        let user = store::account::reset_password(&self.session, hash, new_hash).await?;
        self.was_recorded();
        Ok(user)
    }
}

#[doc(hidden)]
impl Reading {
    /// The open invitations of a tenant.
    pub async fn invitations(&self, tenant: Uuid) -> Result<Vec<Invitation>> {
        store::account::invitations(&self.session, tenant).await
    }

    /// The open password reset links of a tenant, or all.
    pub async fn password_resets(&self, tenant: Option<Uuid>) -> Result<Vec<OpenReset>> {
        store::account::resets(&self.session, tenant).await
    }
}

#[doc(hidden)]
impl Queue {
    /// The open invitation of a link.
    pub async fn find_invitation(&self, hash: &[u8]) -> Result<Option<InvitedTo>> {
        store::account::find_invitation(self.database(), hash).await
    }

    /// The account whose password a link sets, if the link is still valid.
    pub async fn find_password_reset(&self, hash: &[u8]) -> Result<Option<ResetOf>> {
        store::account::find_reset(self.database(), hash).await
    }
}
