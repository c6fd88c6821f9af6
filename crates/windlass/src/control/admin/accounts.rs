//! Accounts and how they come to a tenant: invitations, which the account accepts, and passwords.
//!
//! An account belongs to a person and may be a member of several tenants. No tenant sets or reads anything of it: what a
//! tenant has is an invitation, and after it was accepted a member.

use serde_json::json;
use uuid::Uuid;

use crate::control::transaction::{Acting, Looking};
use crate::error::{Error, Result};
use crate::model::account::{Invitation, InvitedTo, Member, NewAccount, PasswordReset, ResetOf};
use crate::queue::Queue;
use crate::store;

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
        made.ok_or(Error::Unknown { what: "tenant" })
    }

    pub async fn revoke_invitation(&self, tenant: Uuid, id: Uuid) -> Result<Invitation> {
        let revoked = store::account::revoke_invitation(&self.session, tenant, id).await?;
        revoked.ok_or(Error::Unknown { what: "invitation" })
    }

    /// Accepts as the person of a session. None: the invitation is gone, the session is, or it is another account's.
    pub async fn accept_invitation(
        &self,
        tenant: Uuid,
        hash: &[u8],
        session: &[u8],
    ) -> Result<Option<Member>> {
        store::account::accept(&self.session, tenant, hash, session).await
    }

    /// Makes the account and accepts for it. None: the invitation is gone, or the address has an account.
    pub async fn accept_invitation_as_new(
        &self,
        tenant: Uuid,
        hash: &[u8],
        account: &NewAccount,
    ) -> Result<Option<Member>> {
        store::account::accept_as_new(&self.session, tenant, hash, account).await
    }

    /// A member, who stays as they are until this transaction ends.
    pub async fn lock_member(&self, tenant: Uuid, user: Uuid) -> Result<Member> {
        let member = store::account::lock_member(&self.session, tenant, user).await?;
        member.ok_or(Error::Unknown { what: "member" })
    }

    /// Gives a member another role.
    pub async fn set_member_role(&self, tenant: Uuid, user: Uuid, role: &str) -> Result<Member> {
        let member = store::account::set_member_role(&self.session, tenant, user, role).await?;
        member.ok_or(Error::Unknown { what: "member" })
    }

    /// Sets a password, if the old hash is still the account's, and ends all its sessions but this one. False: it is not.
    pub async fn change_password(
        &self,
        user: Uuid,
        (old_hash, new_hash): (&str, &str),
        keep_session: Option<&[u8]>,
    ) -> Result<bool> {
        store::account::change_password(&self.session, user, (old_hash, new_hash), keep_session).await
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
        store::account::create_reset(&self.session, (tenant, user), hash, seconds, by).await
    }

    /// Uses such a link. None: it is gone, or its maker may not reset this account any more.
    pub async fn reset_password(&self, hash: &[u8], new_hash: &str) -> Result<Option<Uuid>> {
        store::account::reset_password(&self.session, hash, new_hash).await
    }
}

impl Looking {
    /// The open invitations of a tenant.
    pub async fn invitations(&self, tenant: Uuid) -> Result<Vec<Invitation>> {
        store::account::invitations(&self.session, tenant).await
    }
}

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
