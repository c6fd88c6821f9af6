//! Account operations, for the API and for the pages: a tenant invites an email address, the holder of the link accepts with the
//! account of that address, users change their password, administrators create password reset links.
//!
//! The secret of a link is shown once, to the person who created it, who passes it on.

use uuid::Uuid;
use windlass::admin::{Acting, Action, Actor, INSTALLATION, Member, Reach};
use windlass::internals::{Invitation, InvitedTo, NewAccount, OpenReset, PasswordReset, ResetOf, SessionOf};

use super::caller::{Caller, Who};
use super::grant::may_still_grant;
use super::link::LinkSecret;
use super::member::{MemberRole, email_address, person_name};
use super::password::{hash_password, verify_password};
use super::role::Role;
use super::secret::Secret;
use super::session::{self, Begun, From};
use crate::http::{App, Denial, Problem, ProblemKind};

pub(crate) const INVITATION_SECONDS: u32 = 7 * 24 * 3600;
pub(crate) const MAX_INVITATION_SECONDS: u32 = 30 * 24 * 3600;
const RESET_SECONDS: u32 = 24 * 3600;
/// For one caller, including rejected ones.
const RESETS_PER_MINUTE: u32 = 30;

/// Invites an email address to the caller's tenant, within the caller's transaction.
pub(crate) async fn invite(
    acting: &Acting,
    caller: &Caller,
    email: &str,
    role: MemberRole,
    seconds: u32,
) -> Result<(Invitation, LinkSecret), Problem> {
    if !(60..=MAX_INVITATION_SECONDS).contains(&seconds) {
        let message = format!("must be between 60 and {MAX_INVITATION_SECONDS} (30 days)");
        return Err(Problem::invalid("/expires_in_seconds", message));
    }
    let email = email_address(email)?;
    caller.check_grant(role.role(), None)?;
    let seconds = caller.link_seconds(seconds, acting.now().await?)?;
    let secret = LinkSecret::generate();
    let named = (email.as_str(), role.role().as_str());
    let made = acting.create_invitation(caller.tenant(), named, &secret.hash(), seconds).await?;
    Ok((made, secret))
}

/// The open invitation behind a link.
pub(crate) async fn invitation(app: &App, secret: &str) -> Result<(LinkSecret, InvitedTo), Problem> {
    let invalid = || Problem::of(ProblemKind::NotFound, INVALID_LINK);
    let secret = LinkSecret::parse(secret).ok_or_else(invalid)?;
    let found = app.queue().find_invitation(&secret.hash()).await?;
    found.map(|found| (secret, found)).ok_or_else(invalid)
}

const INVALID_LINK: &str = "the invitation is no longer valid: it was used, replaced or revoked, or it has expired; ask for a new one";

/// Accepts as the user of a session, and switches the session to the new tenant.
pub(crate) async fn accept(
    app: &App,
    (secret, invited): (&LinkSecret, &InvitedTo),
    (user, session): (Uuid, &[u8; 32]),
    from: &From,
) -> Result<Member, Problem> {
    let acting = app.queue().act(Reach::Tenant(invited.tenant_id), &actor(user, from)).await?;
    if !may_still_invite(&acting, invited).await? {
        return Err(Problem::of(ProblemKind::NotFound, INVALID_LINK));
    }
    let member = acting.accept_invitation(invited, &secret.hash(), session).await?;
    let member = member.ok_or_else(|| Problem::of(ProblemKind::NotFound, INVALID_LINK))?;
    acting.commit().await?;
    Ok(member)
}

/// Whether the creator of the invitation may still create it. An invitation gives no more than its creator has now.
async fn may_still_invite(acting: &Acting, invited: &InvitedTo) -> Result<bool, Problem> {
    let creator = acting.lock_link_creator(invited.tenant_id, &invited.created_by).await?;
    let role: Result<Role, ()> = invited.role.parse();
    Ok(creator.is_some_and(|creator| role.is_ok_and(|role| may_still_grant(creator, role))))
}

/// Creates the account of the invited address, accepts for it and signs it in.
pub(crate) async fn accept_as_new(
    app: &App,
    (secret, invited): (&LinkSecret, &InvitedTo),
    name: &str,
    password: Secret,
    from: &From,
) -> Result<Begun, Problem> {
    let name = person_name(name)?;
    // Counted as an attempt: the holder of a link must not be able to find out without limit which addresses have accounts.
    let (attempt, slot) = app.attempts().begin(from.address.as_deref(), &invited.email)?.slot()?;
    let (attempt, password_hash) = attempt.after(hash_password(password).await)?;
    let account = NewAccount { id: Uuid::new_v4(), name, password_hash };
    drop(slot);
    let acting = app.queue().act(Reach::Tenant(invited.tenant_id), &actor(account.id, from)).await;
    let (attempt, acting) = attempt.after(acting)?;
    let (attempt, may_invite) = attempt.after(may_still_invite(&acting, invited).await)?;
    if !may_invite {
        return Err(Problem::of(ProblemKind::NotFound, INVALID_LINK));
    }
    let made = acting.accept_invitation_as_new(invited, &secret.hash(), &account).await;
    let (attempt, made) = attempt.after(made)?;
    if made.is_none() {
        drop(acting);
        // Recorded for the installation, so that a tenant that probes accounts with invitations is noticed.
        app.record_denial(Denial::at_invitation(from.address.clone(), invited.id)).await;
        let detail = "no account was created: this address already has one, with which you can sign in, or the invitation is no longer valid";
        return Err(Problem::of(ProblemKind::Conflict, detail));
    }
    let (attempt, ()) = attempt.after(acting.commit().await)?;
    attempt.succeeded();
    let of = SessionOf::User { id: account.id, password_hash: &account.password_hash };
    session::begin(app, of, &format!("user:{}", account.id), from).await
}

/// Revokes an open invitation of the caller's tenant: only one to a role that the caller can grant.
pub(crate) async fn revoke_invitation(app: &App, caller: &Caller, id: Uuid) -> Result<Invitation, Problem> {
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    let revoked = acting.revoke_invitation(caller.tenant(), id).await?;
    let role: Option<Role> = revoked.role.parse().ok();
    if role.is_none_or(|role| caller.check_grant(role, None).is_err()) {
        let detail = "you cannot revoke an invitation to a role with more permissions than your own";
        return Err(Problem::of(ProblemKind::Forbidden, detail));
    }
    acting.commit().await?;
    Ok(revoked)
}

/// Changes the role of a member of the caller's tenant.
pub(crate) async fn set_role(
    app: &App,
    caller: &Caller,
    user: Uuid,
    role: MemberRole,
) -> Result<Member, Problem> {
    caller.check_grant(role.role(), None)?;
    let acting = managed(app, caller, user).await?;
    let member = acting.set_member_role(caller.tenant(), user, role.role().as_str()).await?;
    acting.commit().await?;
    app.authenticator().read_again(caller.tenant());
    Ok(member)
}

pub(crate) async fn remove(app: &App, caller: &Caller, user: Uuid) -> Result<Member, Problem> {
    let acting = managed(app, caller, user).await?;
    let removed = acting.remove_member(caller.tenant(), user).await?;
    acting.commit().await?;
    app.authenticator().read_again(caller.tenant());
    Ok(removed)
}

/// The transaction for a member whom the caller can change: one without more permissions than the caller. The role is locked until
/// the commit.
async fn managed(app: &App, caller: &Caller, user: Uuid) -> Result<Acting, Problem> {
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    let member = acting.lock_member(caller.tenant(), user).await?;
    let role: Option<Role> = member.role.parse().ok();
    if role.is_none_or(|role| caller.check_grant(role, None).is_err()) {
        let detail = "this member has more permissions than you";
        return Err(Problem::of(ProblemKind::Forbidden, detail));
    }
    Ok(acting)
}

/// Changes the caller's own password and ends their other sessions.
pub(crate) async fn change_password(
    app: &App,
    caller: &Caller,
    session: Option<[u8; 32]>,
    current: Secret,
    new: Secret,
) -> Result<(), Problem> {
    let Who::User { id, email } = &caller.who else {
        let detail = "only users who sign in with a password can change it";
        return Err(Problem::of(ProblemKind::Forbidden, detail));
    };
    let attempt = app.attempts().begin(caller.from_address.as_deref(), email)?;
    let wrong = || Problem::invalid("/current_password", "is not correct");
    let (attempt, account) = attempt.after(app.queue().account(email).await)?;
    let account = account.filter(|account| account.id == *id);
    let old_hash = account.and_then(|account| account.password_hash).ok_or_else(wrong)?;
    let (attempt, slot) = attempt.slot()?;
    let (attempt, is_right) = attempt.after(verify_password(current, Some(old_hash.clone())).await)?;
    if !is_right {
        app.record_denial(Denial::of_action(caller, Action::PasswordChange, id.to_string())).await;
        return Err(wrong());
    }
    attempt.succeeded();
    let new_hash = hash_new(new).await?;
    drop(slot);
    let acting = app.queue().act(caller.wide_reach(), &caller.actor()).await?;
    let hashes = (old_hash.as_str(), new_hash.as_str());
    if !acting.change_password(*id, hashes, session.as_ref().map(<[u8; 32]>::as_slice)).await? {
        return Err(wrong());
    }
    acting.commit().await?;
    Ok(())
}

/// Both forms call the field `new_password`.
async fn hash_new(password: Secret) -> Result<String, Problem> {
    hash_password(password).await.map_err(|problem| match problem.errors.first() {
        Some(fault) => Problem::invalid("/new_password", fault.message.clone()),
        None => problem,
    })
}

/// A password reset that the caller may create, and the transaction for it.
#[derive(Debug)]
pub(crate) struct NewReset {
    pub(crate) acting: Acting,
    tenant: Uuid,
    user: Uuid,
}

/// Begins a password reset of the account of this address. A super-admin can do it for every account; a tenant admin for a member of
/// the tenant who is not a member of another one and has no more permissions than the admin.
pub(crate) async fn begin_reset(app: &App, caller: &Caller, email: &str) -> Result<NewReset, Problem> {
    let email = email_address(email)?;
    // The result reveals who has an account, so attempts are limited.
    app.rates().take(RESETS_PER_MINUTE, &format!("resets:{}", caller.name()))?;
    let is_super = caller.role == Role::SuperAdmin && caller.scopes.is_none();
    let missing = || if is_super { Problem::not_found("account") } else { not_possible() };
    let user = app.queue().account(&email).await?.ok_or_else(missing)?.id;
    let (tenant, reach) =
        if is_super { (INSTALLATION, Reach::Everything) } else { (caller.tenant(), caller.reach()) };
    let acting = app.queue().act(reach, &caller.actor()).await?;
    if !is_super {
        check_member(&acting, caller, user).await?;
    }
    Ok(NewReset { acting, tenant, user })
}

/// Whose password reset links the caller manages: those that administrators of the tenant have created; for a super-admin also those
/// of the installation, or all (`None`) if no tenant is chosen.
fn resets_of(caller: &Caller) -> (Vec<Option<Uuid>>, Reach) {
    let is_super = caller.role == Role::SuperAdmin && caller.scopes.is_none();
    match (is_super, caller.tenant) {
        (true, None) => (vec![None], Reach::Everything),
        (true, Some(tenant)) => (vec![Some(tenant), Some(INSTALLATION)], Reach::Everything),
        (false, _) => (vec![Some(caller.tenant())], caller.reach()),
    }
}

/// The open password reset links that the caller manages.
pub(crate) async fn resets(app: &App, caller: &Caller) -> Result<Vec<OpenReset>, Problem> {
    let (tenants, reach) = resets_of(caller);
    let reading = app.queue().read(reach).await?;
    let mut resets = Vec::new();
    for tenant in tenants {
        resets.extend(reading.password_resets(tenant).await?);
    }
    reading.end().await?;
    Ok(resets)
}

/// Revokes the open password reset link of an account, of which there is at most one.
pub(crate) async fn revoke_reset(app: &App, caller: &Caller, user: Uuid) -> Result<OpenReset, Problem> {
    let (tenants, reach) = resets_of(caller);
    let acting = app.queue().act(reach, &caller.actor()).await?;
    for tenant in tenants {
        match acting.revoke_password_reset(tenant, user).await {
            Ok(revoked) => {
                acting.commit().await?;
                return Ok(revoked);
            }
            Err(windlass::Error::Unknown { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Problem::not_found("password reset link"))
}

impl NewReset {
    /// Creates the link.
    pub(crate) async fn create(&self, caller: &Caller) -> Result<(PasswordReset, LinkSecret), Problem> {
        let Self { acting, tenant, user } = self;
        let secret = LinkSecret::generate();
        let seconds = caller.link_seconds(RESET_SECONDS, acting.now().await?)?;
        let made = acting.create_password_reset(*tenant, *user, &secret.hash(), seconds).await?;
        Ok((made.ok_or_else(not_possible)?, secret))
    }
}

/// Checks that the user is a member of the caller's tenant without more permissions than the caller. The role is locked until the
/// commit.
async fn check_member(acting: &Acting, caller: &Caller, user: Uuid) -> Result<(), Problem> {
    let member = match acting.lock_member(caller.tenant(), user).await {
        Err(windlass::Error::Unknown { .. }) => return Err(not_possible()),
        member => member?,
    };
    let role: Role = member.role.parse().map_err(|()| not_possible())?;
    caller.check_grant(role, None)
}

/// The same response for every reason, so that the members of other tenants are not revealed.
fn not_possible() -> Problem {
    let detail = "not possible for this account; ask a super-admin";
    Problem::of(ProblemKind::Forbidden, detail)
}

/// The account of a password reset link.
pub(crate) async fn reset(app: &App, secret: &str) -> Result<(LinkSecret, ResetOf), Problem> {
    let secret = LinkSecret::parse(secret).ok_or_else(invalid_reset)?;
    let found = app.queue().find_password_reset(&secret.hash()).await?;
    found.map(|found| (secret, found)).ok_or_else(invalid_reset)
}

fn invalid_reset() -> Problem {
    let detail = "the link is no longer valid: it was used or replaced, or it has expired; ask for a new one";
    Problem::of(ProblemKind::NotFound, detail)
}

/// Uses such a link: sets the password and ends all sessions of the account.
pub(crate) async fn use_reset(
    app: &App,
    (secret, of): (&LinkSecret, &ResetOf),
    new: Secret,
    from: &From,
) -> Result<(), Problem> {
    let slot = app.attempts().slot(from.address.as_deref())?;
    let new_hash = hash_new(new).await?;
    drop(slot);
    let acting = app.queue().act(Reach::Everything, &actor(of.user_id, from)).await?;
    if !may_still_reset(&acting, of).await? {
        return Err(invalid_reset());
    }
    acting.reset_password(&secret.hash(), &new_hash).await?.ok_or_else(invalid_reset)?;
    acting.commit().await?;
    Ok(())
}

/// Whether the creator of the link may still create it: for the installation a super-admin, for a tenant one who has no less
/// permissions than the member.
async fn may_still_reset(acting: &Acting, of: &ResetOf) -> Result<bool, Problem> {
    let Some(creator) = acting.lock_link_creator(of.tenant_id, &of.created_by).await? else {
        return Ok(false);
    };
    let role = if of.tenant_id == INSTALLATION {
        Role::SuperAdmin
    } else {
        match acting.lock_member(of.tenant_id, of.user_id).await {
            Ok(member) => member.role.parse().unwrap_or(Role::SuperAdmin),
            Err(windlass::Error::Unknown { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    };
    Ok(may_still_grant(creator, role))
}

/// The user of a link, for the audit trail.
fn actor(user: Uuid, from: &From) -> Actor {
    Actor::new(format!("user:{user}")).from_address(from.address.clone())
}
