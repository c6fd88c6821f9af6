//! Transactions of callers: as the role of the api, for one tenant, or as the admin's, for all of them.

use uuid::Uuid;

use super::database::{Database, Session};
use crate::error::Result;

/// How long one statement of a caller may take. Longer ones are given up by the server.
const STATEMENT_TIMEOUT_MS: u32 = 15_000;

/// A transaction that may write.
pub(crate) async fn write(db: &Database, tenant: Option<Uuid>) -> Result<Session> {
    let mut session = db.session().await?;
    session.begin_with(&format!("begin; {}", scope(tenant))).await?;
    Ok(session)
}

/// A transaction that only reads, in one snapshot, planned as scope.sql says.
pub(crate) async fn read(db: &Database, tenant: Option<Uuid>) -> Result<Session> {
    let mut session = db.session().await?;
    let begin = "begin isolation level repeatable read, read only";
    session.begin_with(&format!("{begin}; {}; {PLANNED}", scope(tenant))).await?;
    Ok(session)
}

/// As scope.sql says.
const PLANNED: &str = "set local plan_cache_mode = force_custom_plan; set local enable_seqscan = off; \
    set local enable_hashjoin = off; set local enable_mergejoin = off; set local enable_bitmapscan = off; set local jit = off";

/// Makes the rest of a transaction plan as one that only reads.
pub(crate) async fn plan_as_a_list(session: &Session) -> Result<()> {
    session.batch(PLANNED).await
}

/// The words that begin a transaction of a caller's, for what is sent whole.
pub(crate) fn begin_text(tenant: Uuid) -> String {
    format!("begin; {}", scope(Some(tenant)))
}

/// Set for the transaction alone, so that nothing of it is left on the connection. `audited` tells the functions that write
/// an audit row of their own that the caller does.
fn scope(tenant: Option<Uuid>) -> String {
    let role = if tenant.is_some() { "windlass_api" } else { "windlass_admin" };
    let tenant = tenant.map(|tenant| tenant.to_string()).unwrap_or_default();
    format!(
        "set local role {role}; set local windlass.tenant_id = '{tenant}'; set local windlass.audited = 'on'; \
         set local statement_timeout = {STATEMENT_TIMEOUT_MS}"
    )
}
