//! Locks the keys of a batch before its first job takes one, so that two batches cannot deadlock (decision 0020).

use std::collections::BTreeMap;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::database::{Session, Statement};
use crate::error::Result;
use crate::model::new_job::NewJob;

pub(crate) const STATEMENTS: &[&Statement] = &[&LOCK, &UNLOCK];

static LOCK: Statement = Statement {
    text: "select windlass.lock_keys($1, $2, $3, $4, $5)",
    types: &[Type::UUID, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::UUID_ARRAY],
};

static UNLOCK: Statement = Statement {
    text: "select windlass.unlock_keys($1, $2, $3, $4)",
    types: &[Type::UUID, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY],
};

/// The keys and dependencies of the jobs of a batch, by tenant. Empty if there is only one job, or no key: then there is
/// nothing to lock before the jobs are enqueued, in the order of the caller.
pub(crate) struct BatchKeys<'a>(BTreeMap<Option<Uuid>, TenantKeys<'a>>);

#[derive(Default)]
struct TenantKeys<'a> {
    idempotency: Vec<&'a str>,
    dedupe: Vec<&'a str>,
    ordering: Vec<&'a str>,
    needs: Vec<Uuid>,
}

impl TenantKeys<'_> {
    fn is_empty(&self) -> bool {
        let Self { idempotency, dedupe, ordering, needs } = self;
        idempotency.is_empty() && dedupe.is_empty() && ordering.is_empty() && needs.is_empty()
    }
}

impl<'a> BatchKeys<'a> {
    pub(crate) fn of(jobs: impl Iterator<Item = &'a NewJob>) -> Self {
        let mut tenants: BTreeMap<_, TenantKeys<'a>> = BTreeMap::new();
        let mut count = 0;
        for job in jobs {
            let options = &job.options;
            let keys = tenants.entry(options.tenant).or_default();
            keys.idempotency.extend(options.idempotency_key.as_deref());
            keys.dedupe.extend(options.dedupe_key.as_deref());
            keys.ordering.extend(options.ordering_key.as_deref());
            keys.needs.extend(&options.depends_on);
            count += 1;
        }
        tenants.retain(|_, keys| count > 1 && !keys.is_empty());
        Self(tenants)
    }

    pub(crate) async fn lock(&self, session: &Session) -> Result<()> {
        for (tenant, keys) in &self.0 {
            let TenantKeys { idempotency, dedupe, ordering, needs } = keys;
            session.query(&LOCK, &[tenant, idempotency, dedupe, ordering, needs]).await?;
        }
        Ok(())
    }

    /// After the last job, in the same transaction: releases the keys that no job has taken.
    pub(crate) async fn unlock(&self, session: &Session) -> Result<()> {
        for (tenant, keys) in &self.0 {
            let TenantKeys { idempotency, dedupe, ordering, needs: _ } = keys;
            session.query(&UNLOCK, &[tenant, idempotency, dedupe, ordering]).await?;
        }
        Ok(())
    }
}
