//! Enqueueing for external callers: enqueued and audited in one transaction.

use jiff::Timestamp;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::database::{Database, Session, Statement};
use super::enqueue::{Routed, RoutedColumns};
use super::param::JsonText;
use super::{act, audit};
use crate::error::Result;
use crate::model::actor::Actor;
use crate::model::audit::Act;

pub(crate) const STATEMENTS: &[&Statement] = &[&ENQUEUE_AS, &ENQUEUE_AS_MANY];

static ENQUEUE_AS: Statement = Statement {
    text: "select windlass.enqueue_as($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
    types: &[
        Type::UUID,
        Type::UUID,
        Type::INT4,
        Type::INT2,
        Type::JSON,
        Type::JSONB,
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

/// One caller's job, and its audit entry.
pub(crate) struct ByCaller {
    pub(crate) new: Routed<'static>,
    pub(crate) by: Actor,
    pub(crate) act: Act,
}

/// Runs a whole transaction for callers of one tenant: enqueues and audits as the server's role. Returns the creation
/// time of the jobs.
pub(crate) async fn routed_as(
    db: &Database,
    session: &mut Session,
    tenant: Uuid,
    callers: &[&ByCaller],
) -> Result<Timestamp> {
    let begin = act::begin_text(db, tenant);
    let (statement, rows) = match callers {
        [ByCaller { new, by, act }] => {
            let (payload, extra) = (JsonText(&new.payload), new.extra.as_deref().map(JsonText));
            let job: [&(dyn ToSql + Sync); 6] =
                [&new.tenant, &new.job, &new.lane, &new.max_attempts, &payload, &extra];
            let entry = audit::AuditParams::of(tenant, by, act);
            let params = [&job[..], &entry.params()[..]].concat();
            (&ENQUEUE_AS, session.transact(&begin, &ENQUEUE_AS, &params).await?)
        }
        many => {
            let jobs: Vec<&Routed<'_>> = many.iter().map(|caller| &caller.new).collect();
            let jobs = RoutedColumns::of(&jobs);
            let entries =
                audit::AuditColumns::of(tenant, many.iter().map(|caller| (&caller.by, &caller.act)));
            let params = [&jobs.params()[..], &entries.params()[..]].concat();
            (&ENQUEUE_AS_MANY, session.transact(&begin, &ENQUEUE_AS_MANY, &params).await?)
        }
    };
    Ok(statement.row_of(rows)?.get(0))
}

static ENQUEUE_AS_MANY: Statement = Statement {
    text: "select windlass.enqueue_as_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
    types: &[
        Type::UUID_ARRAY,
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
        Type::INT2_ARRAY,
        Type::INT4_ARRAY,
        Type::JSON_ARRAY,
        Type::JSONB_ARRAY,
        Type::UUID,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT,
        Type::TEXT_ARRAY,
        Type::JSONB_ARRAY,
    ],
};
