//! Statements for one tenant. Our own processes name the tenant; the login of an application may not, and sets the
//! current tenant instead.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::database::{Database, Statement};
use super::isolation::BEGIN;
use crate::error::Result;

impl Database {
    /// For a login that may act only for the current tenant.
    pub(crate) fn of_an_application(mut self, is_application: bool) -> Self {
        self.is_application = is_application;
        self
    }

    pub(crate) fn is_application(&self) -> bool {
        self.is_application
    }

    /// Runs one statement for a tenant, which becomes the current tenant if the login cannot name one.
    pub(crate) async fn query_for(
        &self,
        tenant: Option<Uuid>,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        match tenant.filter(|_| self.is_application()) {
            Some(tenant) => self.session().await?.transact(&begin_for(Some(tenant)), statement, params).await,
            None => self.query(statement, params).await,
        }
    }
}

/// Returns the text that starts a transaction, with a current tenant if one is given.
pub(crate) fn begin_for(tenant: Option<Uuid>) -> String {
    tenant.map_or_else(
        || BEGIN.to_owned(),
        |tenant| format!("{BEGIN}; set local windlass.tenant_id = '{tenant}'"),
    )
}
