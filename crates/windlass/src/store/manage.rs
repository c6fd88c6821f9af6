//! Objects that operators manage: definitions, tenants, members, people, sessions, queues, workers, and reads of the
//! audit trail. Rows are transferred as JSON, in the format of the API.

use serde_json::Value;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::act::identify;
use super::bounded::Slices;
use super::database::{Database, Session, Statement};
use super::list;
use super::token::{from_json, optional};
use crate::error::Result;
use crate::model::account::{Account, Member, NewSession, SessionOf, SignedIn};
use crate::model::audit::{AuditEntry, AuditQuery};
use crate::model::record::WorkerRecord;
use crate::model::tenant::Tenant;

pub(crate) const STATEMENTS: &[&Statement] = &[
    &DEFINITIONS,
    &DEFINITION_CREATE,
    &DEFINITION_CHANGE,
    &DEFINITION,
    &TENANTS,
    &TENANTS_FOUND,
    &TENANTS_COUNTED,
    &TENANT_CREATE,
    &TENANT_CHANGE,
    &TENANT_DELETE,
    &TENANT,
    &TENANTS_PURGE,
    &MEMBERS,
    &MEMBER_REMOVE,
    &USER,
    &SESSION_CREATE,
    &SESSION,
    &SESSION_CHOOSE,
    &SESSION_END,
    &WORKERS,
    &QUEUES,
    &AUDIT,
];

macro_rules! statement {
    ($name:ident, $text:expr $(, $ty:ident)*) => {
        static $name: Statement = Statement { text: $text, types: &[$(Type::$ty),*] };
    };
}

statement!(DEFINITIONS, include_str!("sql/definition/list.sql"));
statement!(DEFINITION, "select windlass.shown_definition($1)", UUID);
statement!(DEFINITION_CREATE, "select windlass.create_definition($1)", JSONB);
statement!(DEFINITION_CHANGE, "select windlass.change_definition($1, $2, $3)", UUID, JSONB, TEXT);
statement!(TENANTS, include_str!("sql/tenant/list.sql"));
statement!(TENANTS_FOUND, include_str!("sql/tenant/find.sql"), TEXT, UUID, INT8);
statement!(TENANTS_COUNTED, include_str!("sql/tenant/count.sql"), TEXT);
statement!(TENANT, "select windlass.shown_tenant($1)", UUID);
statement!(TENANT_CREATE, "select windlass.create_tenant($1)", JSONB);
statement!(TENANT_CHANGE, "select windlass.change_tenant($1, $2)", UUID, JSONB);
statement!(TENANT_DELETE, "select windlass.mark_tenant_deleting($1)", UUID);
statement!(TENANTS_PURGE, "select windlass.purge_deleted_tenants()");
statement!(MEMBERS, "select m from windlass.members_of($1) m", UUID);
statement!(MEMBER_REMOVE, "select windlass.remove_member($1, $2)", UUID, UUID);
statement!(USER, "select windlass.find_user($1)", TEXT);
statement!(
    SESSION_CREATE,
    "select windlass.create_session($1, $2, $3, $4, $5, $6, $7, $8)",
    BYTEA,
    UUID,
    TEXT,
    TEXT,
    BYTEA,
    INT4,
    TEXT,
    TEXT
);
statement!(SESSION, "select windlass.find_session($1)", BYTEA);
statement!(SESSION_CHOOSE, "select windlass.choose_tenant($1, $2)", BYTEA, UUID);
statement!(SESSION_END, "select windlass.end_session($1)", BYTEA);
statement!(WORKERS, include_str!("sql/worker/list.sql"));
statement!(QUEUES, include_str!("sql/queue/list.sql"));
statement!(AUDIT, include_str!("sql/audit/list.sql"), UUID, INT8, TEXT, TEXT, TEXT, TEXT, INT8);

pub(crate) async fn definitions(session: &Session) -> Result<Vec<Value>> {
    Ok(session.query(&DEFINITIONS, &[]).await?.iter().map(|row| row.get(0)).collect())
}

pub(crate) async fn definition(session: &Session, id: Uuid) -> Result<Option<Value>> {
    optional(&session.query(&DEFINITION, &[&id]).await?)
}

pub(crate) async fn create_definition(session: &Session, fields: &Value) -> Result<Option<Value>> {
    optional(&session.query(&DEFINITION_CREATE, &[&fields]).await?)
}

pub(crate) async fn change_definition(
    session: &Session,
    id: Uuid,
    fields: &Value,
    expected: Option<&str>,
) -> Result<Option<Value>> {
    optional(&session.query(&DEFINITION_CHANGE, &[&id, &fields, &expected]).await?)
}

pub(crate) async fn tenants(session: &Session) -> Result<Vec<Tenant>> {
    session.query(&TENANTS, &[]).await?.iter().map(|row| from_json(row.get(0))).collect()
}

/// Returns a page by name, after another tenant; `text` in lower case.
pub(crate) async fn find_tenants(
    session: &Session,
    text: &str,
    after: Option<Uuid>,
    most: u16,
) -> Result<Vec<Tenant>> {
    let rows = session.query(&TENANTS_FOUND, &[&text, &after, &i64::from(most)]).await?;
    rows.iter().map(|row| from_json(row.get(0))).collect()
}

pub(crate) async fn count_tenants(session: &Session, text: &str) -> Result<i64> {
    Ok(session.query(&TENANTS_COUNTED, &[&text]).await?.first().map_or(0, |row| row.get(0)))
}

pub(crate) async fn tenant(session: &Session, id: Uuid) -> Result<Option<Tenant>> {
    optional(&session.query(&TENANT, &[&id]).await?)
}

pub(crate) async fn create_tenant(session: &Session, fields: &Value) -> Result<Option<Tenant>> {
    optional(&session.query(&TENANT_CREATE, &[&fields]).await?)
}

pub(crate) async fn change_tenant(session: &Session, id: Uuid, fields: &Value) -> Result<Option<Tenant>> {
    optional(&session.query(&TENANT_CHANGE, &[&id, &fields]).await?)
}

pub(crate) async fn mark_tenant_deleting(session: &Session, id: Uuid) -> Result<Option<Tenant>> {
    optional(&session.query(&TENANT_DELETE, &[&id]).await?)
}

/// The number of jobs per batch, so that no transaction is long.
/// Deletes one batch; returns the number of deleted jobs, or `None` if there is no tenant to delete.
pub(crate) async fn purge_deleted_tenants(db: &Database) -> Result<Option<u64>> {
    let purged: i32 = db.query_one(&TENANTS_PURGE, &[]).await?.get(0);
    Ok(u64::try_from(purged).ok())
}

pub(crate) async fn members(session: &Session, tenant: Uuid) -> Result<Vec<Member>> {
    session.query(&MEMBERS, &[&tenant]).await?.iter().map(|row| from_json(row.get(0))).collect()
}

pub(crate) async fn remove_member(session: &Session, tenant: Uuid, user: Uuid) -> Result<Option<Member>> {
    optional(&session.query(&MEMBER_REMOVE, &[&tenant, &user]).await?)
}

pub(crate) async fn account(db: &Database, email: &str) -> Result<Option<Account>> {
    optional(&identify(db, &USER, &[&email]).await?)
}

pub(crate) async fn create_session(session: &Session, new: &NewSession<'_>) -> Result<bool> {
    let (user, token, compared) = match new.of {
        SessionOf::User { id, password_hash } => (Some(id), None, Some(password_hash)),
        SessionOf::Token(id) => (None, Some(id), None),
    };
    let seconds = i32::try_from(new.seconds).unwrap_or(i32::MAX);
    let params: [&(dyn ToSql + Sync); 8] =
        [&new.hash, &user, &token, &compared, &new.replaces, &seconds, &new.from_address, &new.user_agent];
    Ok(session.query(&SESSION_CREATE, &params).await?.first().is_some_and(|row| row.get(0)))
}

pub(crate) async fn session(db: &Database, hash: &[u8]) -> Result<Option<SignedIn>> {
    optional(&identify(db, &SESSION, &[&hash]).await?)
}

pub(crate) async fn choose_tenant(session: &Session, hash: &[u8], tenant: Uuid) -> Result<()> {
    session.query(&SESSION_CHOOSE, &[&hash, &tenant]).await.map(drop)
}

pub(crate) async fn end_session(session: &Session, hash: &[u8]) -> Result<bool> {
    Ok(session.query(&SESSION_END, &[&hash]).await?.first().is_some_and(|row| row.get(0)))
}

pub(crate) async fn workers(session: &Session) -> Result<Vec<WorkerRecord>> {
    session.query(&WORKERS, &[]).await?.iter().map(|row| from_json(row.get(0))).collect()
}

/// Returns the names, and whether they are paused.
pub(crate) async fn queues(session: &Session) -> Result<Vec<(String, bool)>> {
    Ok(list::query_whole(session, &QUEUES).await?.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Returns as many entries as fit on a page, and whether there are more.
pub(crate) async fn audit(
    session: &Session,
    tenant: Option<Uuid>,
    query: &AuditQuery,
) -> Result<(Vec<AuditEntry>, bool)> {
    let mut slices = Slices::new(query.limit);
    while let Some((limit, bytes)) = slices.wanted() {
        let before = slices.last().map(|row| row.get(1)).or(query.before).unwrap_or(i64::MAX);
        let params: [&(dyn ToSql + Sync); 7] =
            [&tenant, &before, &query.actor, &query.action, &query.target, &query.outcome, &limit];
        slices.take(session.query_up_to(bytes, &AUDIT, &params).await?);
    }
    let (rows, has_more) = slices.page();
    let entries: Result<_> = rows.iter().map(|row| from_json(row.get(0))).collect();
    Ok((entries?, has_more))
}
