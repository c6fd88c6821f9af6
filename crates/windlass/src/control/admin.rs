//! Management operations: definitions, tenants, members, accounts, sessions, queues and workers.

mod accounts;
mod tokens;

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::control::transaction::{Acting, Reading};
use crate::error::{Error, Result};
use crate::model::account::{Account, Member, NewSession, SignedIn};
use crate::model::audit::{AuditEntry, AuditQuery};
use crate::model::definition;
use crate::model::record::WorkerRecord;
use crate::model::tenant::Tenant;
use crate::queue::Queue;
use crate::store;

/// The maximum length of a search text for tenants, in bytes.
const MAX_SEARCH_LENGTH: usize = 200;

/// Fields to set, by name.
///
/// ```
/// use windlass::admin::Fields;
///
/// let mut fields = Fields::new();
/// fields.insert("max_queued".to_owned(), serde_json::json!(10_000));
/// assert_eq!(fields.len(), 1);
/// ```
pub type Fields = Map<String, Value>;

/// ```no_run
/// # async fn example(acting: &windlass::admin::Acting, tenant: uuid::Uuid, definition: uuid::Uuid) -> windlass::Result<()> {
/// # use windlass::admin::Fields;
/// let fields = |value: serde_json::Value| value.as_object().cloned().unwrap_or_default();
///
/// let report: Fields = fields(serde_json::json!({ "key": "report.build", "queue": "reports" }));
/// acting.create_definition(&report).await?;
/// for known in acting.definitions().await? {
///     println!("{} {}", known["key"], known["version"]);
/// }
/// let before = acting.definition(definition).await?;
/// let slower = fields(serde_json::json!({ "priority": 500 }));
/// acting.change_definition(definition, &slower, before["version"].as_str()).await?;
///
/// let new = acting.create_tenant(&fields(serde_json::json!({ "slug": "acme", "name": "Acme" }))).await?;
/// acting.change_tenant(new.id, &fields(serde_json::json!({ "max_queued": 10_000 }))).await?;
/// println!("{} has {} members", acting.tenant_record(new.id).await?.name, acting.members(new.id).await?.len());
/// acting.delete_tenant(tenant).await?;
///
/// acting.set_paused("mail", true).await?;
/// acting.set_draining("worker-7", true).await?;
/// # Ok(())
/// # }
/// ```
impl Acting {
    /// Creates a definition; its key must be new. `fields` are those of [`crate::Definition`].
    pub async fn create_definition(&self, fields: &Fields) -> Result<Value> {
        definition::check_fields(fields)?;
        let made = store::manage::create_definition(&self.session, &Value::from(fields.clone())).await?;
        self.was_recorded();
        made.ok_or(Error::Unknown { what: "definition" })
    }

    /// Changes some fields of a definition. `expected` is the version that the caller read; if it is not the current
    /// one, the error is [`Error::Changed`].
    pub async fn change_definition(
        &self,
        id: Uuid,
        fields: &Fields,
        expected: Option<&str>,
    ) -> Result<Value> {
        definition::check_fields(fields)?;
        let fields = Value::from(fields.clone());
        let changed = store::manage::change_definition(&self.session, id, &fields, expected).await?;
        self.was_recorded();
        changed.ok_or(Error::Unknown { what: "definition" })
    }

    /// Returns one definition.
    pub async fn definition(&self, id: Uuid) -> Result<Value> {
        store::manage::definition(&self.session, id).await?.ok_or(Error::Unknown { what: "definition" })
    }

    /// Every definition, as JSON with its `version`.
    pub async fn definitions(&self) -> Result<Vec<Value>> {
        store::manage::definitions(&self.session).await
    }

    /// Creates a tenant; its slug must be new.
    pub async fn create_tenant(&self, fields: &Fields) -> Result<Tenant> {
        let made = store::manage::create_tenant(&self.session, &Value::from(fields.clone())).await?;
        self.was_recorded();
        made.ok_or(Error::Unknown { what: "tenant" })
    }

    /// Returns one tenant.
    pub async fn tenant_record(&self, id: Uuid) -> Result<Tenant> {
        store::manage::tenant(&self.session, id).await?.ok_or(Error::Unknown { what: "tenant" })
    }

    /// Changes the given fields of a tenant.
    pub async fn change_tenant(&self, id: Uuid, fields: &Fields) -> Result<Tenant> {
        let changed = store::manage::change_tenant(&self.session, id, &Value::from(fields.clone())).await?;
        self.was_recorded();
        changed.ok_or(Error::Unknown { what: "tenant" })
    }

    /// Creates a tenant, or updates the name and weight of the one with this slug. Returns its id, and whether anything
    /// changed.
    pub(super) async fn ensure_tenant(&self, slug: &str, name: &str, weight: i32) -> Result<(Uuid, bool)> {
        let before = store::tenant::by_slug(&self.session, slug).await?;
        if let Some(same) = before.as_ref().filter(|old| old.name == name && old.weight == weight) {
            return Ok((same.id, false));
        }
        let id = store::tenant::ensure(&self.session, slug, name, weight).await?;
        self.was_recorded();
        Ok((id, true))
    }

    /// Marks a tenant for deletion; [`Queue::purge_deleted_tenants`] does the rest, batch by batch.
    pub async fn delete_tenant(&self, id: Uuid) -> Result<Tenant> {
        let marked = store::manage::mark_tenant_deleting(&self.session, id).await?;
        self.was_recorded();
        marked.ok_or(Error::Unknown { what: "tenant" })
    }

    /// The first step of deleting a tenant, which marks it unless some of its data is under a legal hold. Returns the
    /// number of deleted jobs, and whether that was the last step.
    pub(super) async fn begin_purge(&self, id: Uuid, most: i32) -> Result<(i32, bool)> {
        self.tenant_record(id).await?;
        let step = store::tenant::purge(&self.session, id, most).await?;
        self.was_recorded();
        Ok(step)
    }

    /// Returns the members of a tenant.
    pub async fn members(&self, tenant: Uuid) -> Result<Vec<Member>> {
        store::manage::members(&self.session, tenant).await
    }

    /// Pauses or resumes a queue.
    pub async fn set_paused(&self, queue: &str, is_paused: bool) -> Result<()> {
        store::tenant::set_paused(&self.session, queue, is_paused).await?;
        self.was_recorded();
        Ok(())
    }

    /// Drains a worker, or resumes it.
    pub async fn set_draining(&self, worker_id: &str, is_draining: bool) -> Result<()> {
        if !store::worker::set_draining(&self.session, worker_id, is_draining).await? {
            return Err(Error::Unknown { what: "worker" });
        }
        self.was_recorded();
        Ok(())
    }
}

/// ```no_run
/// # async fn example(reading: &windlass::admin::Reading, tenant: uuid::Uuid, definition: uuid::Uuid) -> windlass::Result<()> {
/// use windlass::admin::AuditQuery;
///
/// println!("{} definitions", reading.definitions().await?.len());
/// println!("{}", reading.definition(definition).await?["key"]);
/// for (queue, is_paused) in reading.queues().await? {
///     println!("{queue}{}", if is_paused { " is paused" } else { "" });
/// }
/// for worker in reading.workers().await? {
///     println!("{} runs {} jobs", worker.worker_id, worker.running_count);
/// }
///
/// println!("{} of {} tenants", reading.find_tenants("ac", None, 20).await?.len(), reading.count_tenants("").await?);
/// println!("{}", reading.tenant_record(tenant).await?.slug);
/// println!("{:?}", reading.tenant_of_slug("acme").await?.map(|tenant| tenant.id));
/// for member in reading.members(tenant).await? {
///     println!("{} is {}", member.email, member.role);
/// }
/// for visible in reading.tenants().await? {
///     println!("{}", visible.name);
/// }
///
/// let (entries, has_more) = reading.audit(&AuditQuery::newest(50)).await?;
/// println!("{} entries{}", entries.len(), if has_more { " and more" } else { "" });
/// # Ok(())
/// # }
/// ```
impl Reading {
    /// Every definition, as JSON with its `version`.
    pub async fn definitions(&self) -> Result<Vec<Value>> {
        store::manage::definitions(&self.session).await
    }

    /// Returns one definition.
    pub async fn definition(&self, id: Uuid) -> Result<Value> {
        store::manage::definition(&self.session, id).await?.ok_or(Error::Unknown { what: "definition" })
    }

    /// The tenants that are visible to this transaction.
    pub async fn tenants(&self) -> Result<Vec<Tenant>> {
        store::manage::tenants(&self.session).await
    }

    /// A page of the tenants whose name or slug contains a text, ordered by name: those after a given one, or the
    /// first.
    pub async fn find_tenants(&self, text: &str, after: Option<Uuid>, most: u16) -> Result<Vec<Tenant>> {
        let text = crate::text::storable(text.trim().to_lowercase().as_bytes(), MAX_SEARCH_LENGTH);
        store::manage::find_tenants(&self.session, &text, after, most).await
    }

    /// Returns how many tenants have a name or slug that contains a text.
    pub async fn count_tenants(&self, text: &str) -> Result<i64> {
        let text = crate::text::storable(text.trim().to_lowercase().as_bytes(), MAX_SEARCH_LENGTH);
        store::manage::count_tenants(&self.session, &text).await
    }

    /// Returns the tenant with this slug.
    pub async fn tenant_of_slug(&self, slug: &str) -> Result<Option<Tenant>> {
        store::tenant::by_slug(&self.session, slug).await
    }

    /// Returns one tenant.
    pub async fn tenant_record(&self, id: Uuid) -> Result<Tenant> {
        store::manage::tenant(&self.session, id).await?.ok_or(Error::Unknown { what: "tenant" })
    }

    /// Returns the members of a tenant.
    pub async fn members(&self, tenant: Uuid) -> Result<Vec<Member>> {
        store::manage::members(&self.session, tenant).await
    }

    /// Returns the workers.
    pub async fn workers(&self) -> Result<Vec<WorkerRecord>> {
        store::manage::workers(&self.session).await
    }

    /// The names of the queues, and whether they are paused.
    pub async fn queues(&self) -> Result<Vec<(String, bool)>> {
        store::manage::queues(&self.session).await
    }

    /// One page of the audit trail, newest first, and whether there are more. A page ends after about 4 MiB.
    pub async fn audit(&self, query: &AuditQuery) -> Result<(Vec<AuditEntry>, bool)> {
        store::manage::audit(&self.session, self.reach.tenant(), query).await
    }
}

#[doc(hidden)]
impl Queue {
    /// An account by its email address, for signing in.
    pub async fn account(&self, email: &str) -> Result<Option<Account>> {
        store::manage::account(self.database(), email).await
    }

    /// Returns the session with this hash.
    pub async fn session_of(&self, hash: &[u8]) -> Result<Option<SignedIn>> {
        store::manage::session(self.database(), hash).await
    }

    /// Deletes one batch of a tenant that is marked for deletion. Returns the number of deleted jobs, or none if no
    /// tenant is marked. A duty of the keeper.
    pub async fn purge_deleted_tenants(&self) -> Result<Option<u64>> {
        store::manage::purge_deleted_tenants(self.database()).await
    }
}

#[doc(hidden)]
impl Acting {
    /// Starts a session. Returns false if the password has been changed, or the account or the token is no longer
    /// valid.
    pub async fn create_session(&self, new: &NewSession<'_>) -> Result<bool> {
        let has_begun = store::manage::create_session(&self.session, new).await?;
        self.was_recorded();
        Ok(has_begun)
    }

    /// Switches a session to another tenant.
    pub async fn choose_tenant(&self, hash: &[u8], tenant: Uuid) -> Result<()> {
        store::manage::choose_tenant(&self.session, hash, tenant).await?;
        self.was_recorded();
        Ok(())
    }

    /// Ends a session of the actor. Returns false if it does not exist.
    pub async fn end_session(&self, hash: &[u8]) -> Result<bool> {
        let has_ended = store::manage::end_session(&self.session, hash).await?;
        self.was_recorded();
        Ok(has_ended)
    }
}
