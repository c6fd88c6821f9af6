//! Invitations and passwords in the database.

use serde_json::Value;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::act::identify;
use super::database::{Database, Session, Statement};
use super::token::{from_json, optional};
use crate::error::Result;
use crate::model::account::Member;
use crate::model::account::{
    Invitation, InvitedTo, LinkCreator, NewAccount, OpenReset, PasswordReset, ResetOf,
};

pub(crate) const STATEMENTS: &[&Statement] = &[
    &INVITE,
    &INVITATIONS,
    &REVOKE,
    &INVITATION,
    &ACCEPT,
    &ACCEPT_AS_NEW,
    &CREATOR,
    &MEMBER,
    &ROLE,
    &PASSWORD,
    &RESET_CREATE,
    &RESETS,
    &RESET_REVOKE,
    &RESET_FIND,
    &RESET,
];

macro_rules! statement {
    ($name:ident, $text:expr $(, $ty:ident)*) => {
        static $name: Statement = Statement { text: $text, types: &[$(Type::$ty),*] };
    };
}

statement!(INVITE, "select windlass.create_invitation($1, $2, $3, $4)", UUID, JSONB, BYTEA, INT4);
statement!(INVITATIONS, "select i from windlass.invitations_of($1) i", UUID);
statement!(REVOKE, "select windlass.revoke_invitation($1, $2)", UUID, UUID);
statement!(INVITATION, "select windlass.find_invitation($1)", BYTEA);
statement!(ACCEPT, "select windlass.accept_invitation($1, $2, $3)", UUID, BYTEA, BYTEA);
statement!(
    ACCEPT_AS_NEW,
    "select windlass.accept_invitation_as_new($1, $2, $3, $4, $5)",
    UUID,
    BYTEA,
    UUID,
    TEXT,
    TEXT
);
statement!(CREATOR, "select windlass.lock_link_creator($1, $2)", UUID, TEXT);
statement!(MEMBER, "select windlass.lock_member($1, $2)", UUID, UUID);
statement!(ROLE, "select windlass.set_member_role($1, $2, $3)", UUID, UUID, TEXT);
statement!(PASSWORD, "select windlass.change_password($1, $2, $3, $4)", UUID, TEXT, TEXT, BYTEA);
statement!(
    RESET_CREATE,
    "select windlass.create_password_reset($1, $2, $3, $4, $5)",
    UUID,
    UUID,
    BYTEA,
    INT4,
    TEXT
);
statement!(RESETS, "select r from windlass.password_resets_of($1) r", UUID);
statement!(RESET_REVOKE, "select windlass.revoke_password_reset($1, $2)", UUID, UUID);
statement!(RESET_FIND, "select windlass.find_password_reset($1)", BYTEA);
statement!(RESET, "select windlass.reset_password($1, $2)", BYTEA, TEXT);

pub(crate) async fn create_invitation(
    session: &Session,
    tenant: Uuid,
    fields: &Value,
    hash: &[u8],
    seconds: u32,
) -> Result<Option<Invitation>> {
    let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
    optional(&session.query(&INVITE, &[&tenant, &fields, &hash, &seconds]).await?)
}

pub(crate) async fn invitations(session: &Session, tenant: Uuid) -> Result<Vec<Invitation>> {
    session.query(&INVITATIONS, &[&tenant]).await?.iter().map(|row| from_json(row.get(0))).collect()
}

pub(crate) async fn revoke_invitation(
    session: &Session,
    tenant: Uuid,
    id: Uuid,
) -> Result<Option<Invitation>> {
    optional(&session.query(&REVOKE, &[&tenant, &id]).await?)
}

/// The open password reset links of a tenant, or all.
pub(crate) async fn resets(session: &Session, tenant: Option<Uuid>) -> Result<Vec<OpenReset>> {
    session.query(&RESETS, &[&tenant]).await?.iter().map(|row| from_json(row.get(0))).collect()
}

pub(crate) async fn revoke_reset(
    session: &Session,
    tenant: Option<Uuid>,
    user: Uuid,
) -> Result<Option<OpenReset>> {
    optional(&session.query(&RESET_REVOKE, &[&tenant, &user]).await?)
}

pub(crate) async fn find_invitation(db: &Database, hash: &[u8]) -> Result<Option<InvitedTo>> {
    optional(&identify(db, &INVITATION, &[&hash]).await?)
}

pub(crate) async fn accept(
    session: &Session,
    tenant: Uuid,
    hash: &[u8],
    of_session: &[u8],
) -> Result<Option<Member>> {
    optional(&session.query(&ACCEPT, &[&tenant, &hash, &of_session]).await?)
}

pub(crate) async fn accept_as_new(
    session: &Session,
    tenant: Uuid,
    hash: &[u8],
    new: &NewAccount,
) -> Result<Option<Member>> {
    optional(&session.query(&ACCEPT_AS_NEW, &[&tenant, &hash, &new.id, &new.name, &new.password_hash]).await?)
}

pub(crate) async fn lock_link_creator(
    session: &Session,
    tenant: Uuid,
    created_by: &str,
) -> Result<Option<LinkCreator>> {
    optional(&session.query(&CREATOR, &[&tenant, &created_by]).await?)
}

pub(crate) async fn lock_member(session: &Session, tenant: Uuid, user: Uuid) -> Result<Option<Member>> {
    optional(&session.query(&MEMBER, &[&tenant, &user]).await?)
}

pub(crate) async fn set_member_role(
    session: &Session,
    tenant: Uuid,
    user: Uuid,
    role: &str,
) -> Result<Option<Member>> {
    optional(&session.query(&ROLE, &[&tenant, &user, &role]).await?)
}

pub(crate) async fn change_password(
    session: &Session,
    user: Uuid,
    (old_hash, new_hash): (&str, &str),
    keep_session: Option<&[u8]>,
) -> Result<bool> {
    let rows = session.query(&PASSWORD, &[&user, &old_hash, &new_hash, &keep_session]).await?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}

pub(crate) async fn create_reset(
    session: &Session,
    (tenant, user): (Uuid, Uuid),
    hash: &[u8],
    seconds: u32,
    by: &str,
) -> Result<Option<PasswordReset>> {
    let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
    optional(&session.query(&RESET_CREATE, &[&tenant, &user, &hash, &seconds, &by]).await?)
}

pub(crate) async fn find_reset(db: &Database, hash: &[u8]) -> Result<Option<ResetOf>> {
    optional(&identify(db, &RESET_FIND, &[&hash]).await?)
}

pub(crate) async fn reset_password(session: &Session, hash: &[u8], new_hash: &str) -> Result<Option<Uuid>> {
    Ok(session.query(&RESET, &[&hash, &new_hash]).await?.first().and_then(|row| row.get(0)))
}
