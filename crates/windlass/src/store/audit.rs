//! The audit trail in the database.

use serde_json::Value;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::database::{Database, Session, Statement};
use super::token::from_json;
use crate::error::Result;
use crate::model::actor::Actor;
use crate::model::audit::{Act, AuditFault, AuditHead};

pub(crate) const STATEMENTS: &[&Statement] = &[&RECORD, &SEAL, &VERIFY, &CHECK, &HEADS];

pub(crate) static RECORD: Statement = Statement {
    text: "select windlass.record_audit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    types: &[
        Type::UUID,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::JSONB,
        Type::JSONB,
    ],
};

/// An action as parameters of the statement.
pub(crate) struct AuditParams<'a> {
    owner: Uuid,
    by: &'a Actor,
    act: &'a Act,
    action: &'static str,
    outcome: &'static str,
}

impl<'a> AuditParams<'a> {
    pub(crate) fn of(owner: Uuid, by: &'a Actor, act: &'a Act) -> Self {
        let outcome = if act.is_denied { "denied" } else { "done" };
        Self { owner, by, act, action: act.action.as_str(), outcome }
    }

    pub(crate) fn params(&self) -> [&(dyn ToSql + Sync); 10] {
        let (by, act) = (self.by, self.act);
        [
            &self.owner,
            &by.name,
            &by.role,
            &by.from_address,
            &by.request_id,
            &self.action,
            &act.target,
            &self.outcome,
            &None::<Value>,
            &act.after,
        ]
    }
}

/// The same action of many callers, as columns for record_audits. None of them is denied or has a before.
pub(crate) struct AuditColumns<'a> {
    owner: Uuid,
    actors: Vec<&'a str>,
    roles: Vec<&'a str>,
    addresses: Vec<Option<&'a str>>,
    request_ids: Vec<Option<&'a str>>,
    action: &'static str,
    targets: Vec<&'a str>,
    afters: Vec<Option<&'a Value>>,
}

impl<'a> AuditColumns<'a> {
    pub(crate) fn of(owner: Uuid, acts: impl Iterator<Item = (&'a Actor, &'a Act)> + Clone) -> Self {
        Self {
            owner,
            actors: acts.clone().map(|(by, _)| by.name.as_str()).collect(),
            roles: acts.clone().map(|(by, _)| by.role.as_str()).collect(),
            addresses: acts.clone().map(|(by, _)| by.from_address.as_deref()).collect(),
            request_ids: acts.clone().map(|(by, _)| by.request_id.as_deref()).collect(),
            action: acts.clone().next().map_or("", |(_, act)| act.action.as_str()),
            targets: acts.clone().map(|(_, act)| act.target.as_str()).collect(),
            afters: acts.map(|(_, act)| act.after.as_ref()).collect(),
        }
    }

    pub(crate) fn params(&self) -> [&(dyn ToSql + Sync); 8] {
        [
            &self.owner,
            &self.actors,
            &self.roles,
            &self.addresses,
            &self.request_ids,
            &self.action,
            &self.targets,
            &self.afters,
        ]
    }
}

pub(crate) async fn record(session: &Session, owner: Uuid, by: &Actor, act: &Act) -> Result<()> {
    session.query(&RECORD, &AuditParams::of(owner, by, act).params()).await?;
    Ok(())
}

static SEAL: Statement = Statement { text: "select moved, has_more from windlass.seal_audit()", types: &[] };

/// Returns how many rows were chained, and whether there are more.
pub(crate) async fn seal(db: &Database) -> Result<(i32, bool)> {
    let row = db.query_one(&SEAL, &[]).await?;
    Ok((row.get(0), row.get(1)))
}

static VERIFY: Statement =
    Statement { text: "select tenant_id, place, audit_id, problem from windlass.verify_audit()", types: &[] };

pub(crate) async fn verify(session: &Session) -> Result<Vec<AuditFault>> {
    Ok(session.query(&VERIFY, &[]).await?.iter().map(fault).collect())
}

static CHECK: Statement = Statement {
    text: "select tenant_id, place, audit_id, problem from windlass.verify_checkpoint($1, $2, $3)",
    types: &[Type::UUID_ARRAY, Type::INT8_ARRAY, Type::BYTEA_ARRAY],
};

pub(crate) async fn verify_checkpoint(session: &Session, heads: &[AuditHead]) -> Result<Vec<AuditFault>> {
    let tenants: Vec<Uuid> = heads.iter().map(|head| head.tenant_id).collect();
    let positions: Vec<i64> = heads.iter().map(|head| head.position).collect();
    let hashes: Vec<Vec<u8>> = heads.iter().map(AuditHead::hash_bytes).collect();
    let rows = session.query(&CHECK, &[&tenants, &positions, &hashes]).await?;
    Ok(rows.iter().map(fault).collect())
}

static HEADS: Statement = Statement { text: "select h from windlass.heads_of($1) h", types: &[Type::UUID] };

pub(crate) async fn heads(session: &Session, tenant: Option<Uuid>) -> Result<Vec<AuditHead>> {
    session.query(&HEADS, &[&tenant]).await?.iter().map(|row| from_json(row.get(0))).collect()
}

fn fault(row: &tokio_postgres::Row) -> AuditFault {
    AuditFault { tenant_id: row.get(0), position: row.get(1), audit_id: row.get(2), problem: row.get(3) }
}
