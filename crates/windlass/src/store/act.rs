//! Transactions for callers: as the server's role with a current tenant, or as the admin's role for all tenants. For an
//! operator with database access, they run as the operator's role, for one tenant or for all.

use serde_json::json;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::database::{Database, Session, Statement};
use super::isolation::BEGIN;
use crate::error::Result;
use crate::model::actor::Actor;

/// Starts a read-write transaction. Its functions record what they do with the name of the actor (`record_act`).
pub(crate) async fn write(db: &Database, tenant: Option<Uuid>, by: &Actor) -> Result<Session> {
    let mut session = db.session_of(tenant).await?;
    session.begin_with(&format!("{BEGIN}; {}; {}", scope(db, tenant), named(by))).await?;
    Ok(session)
}

/// Not a SET: `pg_stat_statements` has one entry for all calls of a function, but one for every text of a SET.
fn named(by: &Actor) -> String {
    let Actor { name, role, from_address, request_id } = by;
    let named = json!({"name": name, "role": role, "from_address": from_address, "request_id": request_id});
    format!("select pg_catalog.set_config('windlass.actor', {}, true)", literal(&named.to_string()))
}

/// A text as a literal that is read in the same way with every setting of the server.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', r"\\").replace('\'', "''"))
}

/// Starts a read-only transaction with one snapshot and the planner settings of scope.sql.
pub(crate) async fn read(db: &Database, tenant: Option<Uuid>) -> Result<Session> {
    let mut session = db.session_of(tenant).await?;
    let begin = "begin isolation level repeatable read, read only";
    session.begin_with(&format!("{begin}; {}; {PLANNED}", scope(db, tenant))).await?;
    Ok(session)
}

/// Runs one statement as the server's role without a current tenant, which sees no tenant's rows: the caller has to be
/// identified before the tenant is known.
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

/// The planner settings of scope.sql.
const PLANNED: &str = "set local plan_cache_mode = force_custom_plan; set local enable_seqscan = off; \
    set local enable_hashjoin = off; set local enable_mergejoin = off; set local enable_bitmapscan = off";

/// Applies the planner settings of a read-only transaction to the rest of a transaction.
pub(crate) async fn plan_as_a_list(session: &Session) -> Result<()> {
    session.batch(PLANNED).await
}

/// Returns the text that starts a transaction for a caller, for a request that is sent whole.
pub(crate) fn begin_text(db: &Database, tenant: Uuid) -> String {
    format!("{BEGIN}; {}", scope(db, Some(tenant)))
}

/// Set for the transaction only, so that no setting stays on the connection.
fn scope(db: &Database, tenant: Option<Uuid>) -> String {
    match tenant {
        Some(tenant) => scope_as(db, db.acts_as.for_a_tenant(), &tenant.to_string()),
        None => scope_as(db, db.acts_as.for_all(), ""),
    }
}

/// The role for which callers' transactions run.
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

/// The server cancels statements that take longer than the timeout.
fn scope_as(db: &Database, role: &str, tenant: &str) -> String {
    let timeout_ms = db.statement_timeout().as_millis();
    format!(
        "set local role {role}; set local windlass.tenant_id = '{tenant}'; set local statement_timeout = {timeout_ms}; \
         set local jit = off"
    )
}

#[cfg(test)]
mod tests {
    use super::literal;

    #[test]
    fn a_literal_ends_at_its_own_quote() {
        assert_eq!(literal("plain"), "E'plain'");
        assert_eq!(literal("it's"), "E'it''s'");
        assert_eq!(literal(r"\'; drop table x; --"), r"E'\\''; drop table x; --'");
    }
}
