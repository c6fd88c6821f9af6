//! What happens to accounts, for the API and for pages alike: a tenant invites an address, whoever holds the link accepts for
//! the account of that address, people change their password, administrators make links that reset one.
//!
//! A link's secret is shown once, to whoever made the link. They pass it on by their own means.

use uuid::Uuid;
use windlass::{
    Act, Acting, Actor, INSTALLATION, Invitation, InvitedTo, Member, NewAccount, PasswordReset, Reach,
    ResetOf, SessionOf,
};

use super::caller::{Caller, Who};
use super::link::LinkSecret;
use super::member::{MemberRole, email_address, person_name};
use super::password::{hash_password, verify_password};
use super::role::Role;
use super::secret::Secret;
use super::session::{self, Begun, From};
use crate::http::{App, Problem, ProblemKind, Refusal};

pub(crate) const INVITATION_SECONDS: u32 = 7 * 24 * 3600;
pub(crate) const LONGEST_INVITATION_SECONDS: u32 = 30 * 24 * 3600;
const RESET_SECONDS: u32 = 24 * 3600;

/// Offers an address a membership of the caller's tenant, within the caller's transaction.
pub(crate) async fn invite(
    acting: &Acting,
    caller: &Caller,
    email: &str,
    role: MemberRole,
    seconds: u32,
) -> Result<(Invitation, LinkSecret), Problem> {
    if !(60..=LONGEST_INVITATION_SECONDS).contains(&seconds) {
        let message = format!("must be between 60 and {LONGEST_INVITATION_SECONDS}, which is thirty days");
        return Err(Problem::invalid("/expires_in_seconds", message));
    }
    let email = email_address(email)?;
    caller.check_grant(role.role(), None)?;
    let secret = LinkSecret::generate();
    let named = (email.as_str(), role.role().as_str());
    let made = acting.create_invitation(caller.tenant(), named, &secret.hash(), seconds).await?;
    Ok((made, secret))
}

/// The open invitation behind a link.
pub(crate) async fn invitation(app: &App, secret: &str) -> Result<(LinkSecret, InvitedTo), Problem> {
    let gone = || Problem::of(ProblemKind::NotFound, GONE);
    let secret = LinkSecret::parse(secret).ok_or_else(gone)?;
    let found = app.queue().find_invitation(&secret.hash()).await?;
    found.map(|found| (secret, found)).ok_or_else(gone)
}

const GONE: &str =
    "this invitation is not valid: it was used, replaced or revoked, or it has expired; ask for a new one";

/// Accepts as the person of a session, and makes the session look at the new tenant.
pub(crate) async fn accept(
    app: &App,
    (secret, invited): (&LinkSecret, &InvitedTo),
    (user, session): (Uuid, &[u8; 32]),
    from: &From,
) -> Result<Member, Problem> {
    let acting = app.queue().act(Reach::Tenant(invited.tenant_id), &actor(user, from)).await?;
    let member = acting.accept_invitation(invited.tenant_id, &secret.hash(), session).await?;
    let member = member.ok_or_else(|| Problem::of(ProblemKind::NotFound, GONE))?;
    acting.choose_tenant(session, invited.tenant_id).await?;
    acting.commit(&Act::new("invitation.accept", invited.id).after(&member)).await?;
    Ok(member)
}

/// Makes the account of the invited address, accepts for it and signs it in.
pub(crate) async fn accept_as_new(
    app: &App,
    (secret, invited): (&LinkSecret, &InvitedTo),
    name: &str,
    password: Secret,
    from: &From,
) -> Result<Begun, Problem> {
    let name = person_name(name)?;
    // Counted as an attempt: whoever holds a link must not be able to ask without end whether an address has an account.
    let (attempt, place) = app.attempts().begin(from.address.as_deref(), &invited.email)?.place()?;
    let account = NewAccount { id: Uuid::new_v4(), name, password_hash: hash_password(password).await? };
    drop(place);
    let acting = app.queue().act(Reach::Tenant(invited.tenant_id), &actor(account.id, from)).await?;
    let made = acting.accept_invitation_as_new(invited.tenant_id, &secret.hash(), &account).await?;
    let Some(member) = made else {
        drop(acting);
        // In the installation's trail: a tenant that learns by its own invitations who has an account is seen there.
        app.refused(Refusal::at_invitation(from.address.clone(), invited.id)).await;
        let detail = "no account was made: this address has one already, with which you can sign in, or the invitation is not valid any more";
        return Err(Problem::of(ProblemKind::Conflict, detail));
    };
    acting.commit(&Act::new("invitation.accept", invited.id).after(&member)).await?;
    attempt.succeeded();
    let of = SessionOf::User { id: account.id, password_hash: &account.password_hash };
    session::begin(app, of, &format!("user:{}", account.id), from).await
}

/// Gives a member of the caller's tenant another role.
pub(crate) async fn set_role(
    app: &App,
    caller: &Caller,
    user: Uuid,
    role: MemberRole,
) -> Result<Member, Problem> {
    caller.check_grant(role.role(), None)?;
    let (acting, before) = managed(app, caller, user).await?;
    let member = acting.set_member_role(caller.tenant(), user, role.role().as_str()).await?;
    acting.commit(&Act::new("member.role", user).before(&before).after(&member)).await?;
    Ok(member)
}

pub(crate) async fn remove(app: &App, caller: &Caller, user: Uuid) -> Result<Member, Problem> {
    let (acting, _) = managed(app, caller, user).await?;
    let removed = acting.remove_member(caller.tenant(), user).await?;
    acting.commit(&Act::new("member.remove", user).before(&removed)).await?;
    Ok(removed)
}

/// A member whom this caller may change: one who may do nothing that the caller may not. Their role stays until the end.
async fn managed(app: &App, caller: &Caller, user: Uuid) -> Result<(Acting, Member), Problem> {
    let acting = app.queue().act(caller.reach(), &caller.actor()).await?;
    let member = acting.lock_member(caller.tenant(), user).await?;
    let role: Option<Role> = member.role.parse().ok();
    if role.is_none_or(|role| caller.check_grant(role, None).is_err()) {
        let detail = "this member may do more than you may, and is not yours to change";
        return Err(Problem::of(ProblemKind::Forbidden, detail));
    }
    Ok((acting, member))
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
        let detail = "only people who sign in with a password have one to change";
        return Err(Problem::of(ProblemKind::Forbidden, detail));
    };
    let attempt = app.attempts().begin(caller.from_address.as_deref(), email)?;
    let wrong = || Problem::invalid("/current_password", "is not your password");
    let account = app.queue().account(email).await?.filter(|account| account.id == *id);
    let old_hash = account.and_then(|account| account.password_hash).ok_or_else(wrong)?;
    let (attempt, place) = attempt.place()?;
    if !verify_password(current, Some(old_hash.clone())).await? {
        app.refused(Refusal::of_act(caller, "password.change", id.to_string())).await;
        return Err(wrong());
    }
    attempt.succeeded();
    let new_hash = hash_new(new).await?;
    drop(place);
    let acting = app.queue().act(caller.wide_reach(), &caller.actor()).await?;
    let hashes = (old_hash.as_str(), new_hash.as_str());
    if !acting.change_password(*id, hashes, session.as_ref().map(<[u8; 32]>::as_slice)).await? {
        return Err(wrong());
    }
    acting.commit(&Act::new("password.change", id)).await?;
    Ok(())
}

/// The fields of both forms are called so.
async fn hash_new(password: Secret) -> Result<String, Problem> {
    hash_password(password).await.map_err(|problem| match problem.errors.first() {
        Some(fault) => Problem::invalid("/new_password", fault.message.clone()),
        None => problem,
    })
}

/// Makes a link with which the person of this address sets a new password. A super-admin may for every account; a tenant's
/// administrator for a member of theirs that is no member elsewhere and may not do more than they.
pub(crate) async fn create_reset(
    app: &App,
    caller: &Caller,
    email: &str,
) -> Result<(PasswordReset, LinkSecret), Problem> {
    let email = email_address(email)?;
    let secret = LinkSecret::generate();
    let is_super = caller.role == Role::SuperAdmin && caller.scopes.is_none();
    let (tenant, user) = if is_super {
        let account = app.queue().account(&email).await?;
        (INSTALLATION, account.ok_or_else(|| Problem::not_found("account"))?.id)
    } else {
        (caller.tenant(), member_within(app, caller, &email).await?)
    };
    let reach = if is_super { Reach::Everything } else { caller.reach() };
    let acting = app.queue().act(reach, &caller.actor()).await?;
    let made = acting.create_password_reset(tenant, user, &secret.hash(), RESET_SECONDS).await?;
    let made = made.ok_or_else(not_possible)?;
    acting.commit(&Act::new("password.reset_link", user).after(&made)).await?;
    Ok((made, secret))
}

/// A member of the caller's tenant who may do nothing that the caller may not.
async fn member_within(app: &App, caller: &Caller, email: &str) -> Result<Uuid, Problem> {
    let looking = app.queue().look(caller.reach()).await?;
    let members = looking.members(caller.tenant()).await?;
    looking.end().await?;
    let member = members.into_iter().find(|member| member.email == email).ok_or_else(not_possible)?;
    let role: Role = member.role.parse().map_err(|()| not_possible())?;
    caller.check_grant(role, None)?;
    Ok(member.user_id)
}

/// One answer for every reason, so that nobody learns of other tenants' members.
fn not_possible() -> Problem {
    let detail = "not possible for this account; ask the installation's administrator";
    Problem::of(ProblemKind::Forbidden, detail)
}

/// Whose password a link sets.
pub(crate) async fn reset(app: &App, secret: &str) -> Result<(LinkSecret, ResetOf), Problem> {
    let secret = LinkSecret::parse(secret).ok_or_else(reset_gone)?;
    let found = app.queue().find_password_reset(&secret.hash()).await?;
    found.map(|found| (secret, found)).ok_or_else(reset_gone)
}

fn reset_gone() -> Problem {
    let detail = "this link is not valid: it was used or replaced, or it has expired; ask for a new one";
    Problem::of(ProblemKind::NotFound, detail)
}

/// Uses such a link: sets the password and ends every session of the account.
pub(crate) async fn use_reset(
    app: &App,
    (secret, of): (&LinkSecret, &ResetOf),
    new: Secret,
    from: &From,
) -> Result<(), Problem> {
    let place = app.attempts().place(from.address.as_deref())?;
    let new_hash = hash_new(new).await?;
    drop(place);
    let acting = app.queue().act(Reach::Everything, &actor(of.user_id, from)).await?;
    let user = acting.reset_password(&secret.hash(), &new_hash).await?.ok_or_else(reset_gone)?;
    acting.commit(&Act::new("password.reset", user)).await?;
    Ok(())
}

/// The person behind a link, as the audit trail names them.
fn actor(user: Uuid, from: &From) -> Actor {
    Actor { name: format!("user:{user}"), from_address: from.address.clone(), ..Actor::default() }
}
