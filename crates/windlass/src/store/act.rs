//! Transactions of callers: as the server's role with one tenant in force, or as the admin's role, which sees all of them. Those of an
//! operator who works on the database are the operator's, for one tenant or for all.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::database::{Database, Session, Statement};
use super::isolation::BEGIN;
use crate::error::Result;

/// A transaction that may write.
pub(crate) async fn write(db: &Database, tenant: Option<Uuid>) -> Result<Session> {
    let mut session = db.session_of(tenant).await?;
    session.begin_with(&format!("{BEGIN}; {}", scope(db, tenant))).await?;
    Ok(session)
}

/// A transaction that only reads, in one snapshot, planned as scope.sql says.
pub(crate) async fn read(db: &Database, tenant: Option<Uuid>) -> Result<Session> {
    let mut session = db.session_of(tenant).await?;
    let begin = "begin isolation level repeatable read, read only";
    session.begin_with(&format!("{begin}; {}; {PLANNED}", scope(db, tenant))).await?;
    Ok(session)
}

/// One statement as the server's role with no tenant in force, which sees no tenant's rows: who is asking has to be known
/// before the tenant is.
pub(crate) async fn identify(
    db: &Database,
    statement: &Statement,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>> {
    let mut session = db.session().await?;
    session.begin_with(&format!("{BEGIN}; {}", scope_as(db, "windlass_server", ""))).await?;
    let rows = session.query(statement, params).await?;
    session.commit().await?;
    Ok(rows)
}

/// As scope.sql says.
const PLANNED: &str = "set local plan_cache_mode = force_custom_plan; set local enable_seqscan = off; \
    set local enable_hashjoin = off; set local enable_mergejoin = off; set local enable_bitmapscan = off; set local jit = off";

/// Makes the rest of a transaction plan as one that only reads.
pub(crate) async fn plan_as_a_list(session: &Session) -> Result<()> {
    session.batch(PLANNED).await
}

/// The words that begin a transaction of a caller's, for what is sent whole.
pub(crate) fn begin_text(db: &Database, tenant: Uuid) -> String {
    format!("{BEGIN}; {}", scope(db, Some(tenant)))
}

/// Set for the transaction alone, so that nothing of it is left on the connection.
fn scope(db: &Database, tenant: Option<Uuid>) -> String {
    match tenant {
        Some(tenant) => scope_as(db, db.acts_as.for_a_tenant(), &tenant.to_string()),
        None => scope_as(db, db.acts_as.for_all(), ""),
    }
}

/// For whom callers' transactions are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ActsAs {
    #[default]
    Server,
    Operator,
}

impl ActsAs {
    fn for_a_tenant(self) -> &'static str {
        match self {
            Self::Server => "windlass_server",
            Self::Operator => "windlass_operator",
        }
    }

    fn for_all(self) -> &'static str {
        match self {
            Self::Server => "windlass_admin",
            Self::Operator => "windlass_operator",
        }
    }
}

impl Database {
    pub(crate) fn acting_as(mut self, acts_as: ActsAs) -> Self {
        self.acts_as = acts_as;
        self
    }
}

/// Longer statements than the timeout are given up by the server.
fn scope_as(db: &Database, role: &str, tenant: &str) -> String {
    let timeout_ms = db.statement_timeout().as_millis();
    format!(
        "set local role {role}; set local windlass.tenant_id = '{tenant}'; set local statement_timeout = {timeout_ms}"
    )
}
