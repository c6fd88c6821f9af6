//! What operators manage, as values and as verbs: definitions, tenants, members, people, sessions, queues and workers.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::act::{Acting, Looking};
use crate::definition;
use crate::error::{Error, Result};
use crate::queue::Queue;
use crate::store;

/// A tenant as operators see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tenant {
    pub id: Uuid,
    pub slug: String,
    pub name: String,
    /// `active`, `suspended` or `deleting`.
    pub status: String,
    pub weight: i32,
    pub timezone: String,
    pub max_queued: Option<i64>,
    pub max_running: Option<i32>,
    pub requests_per_minute: Option<i32>,
    /// The most combinations of definition, queue and priority that its jobs may use.
    pub max_lanes: i32,
    /// The most queue names that its jobs may use.
    pub max_queue_names: i32,
    /// The most triggers that it may have.
    pub max_triggers: i32,
    /// How many of its jobs are gone, while it is being deleted.
    pub purged_jobs: i64,
    /// Why its deletion cannot go on, if so: something of it is under legal hold, or the error that it met.
    pub purge_blocked: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A person with a role in a tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    pub tenant_id: Uuid,
    pub user_id: Uuid,
    pub email: String,
    pub name: String,
    pub role: String,
    pub is_active: bool,
    pub created_at: Timestamp,
}

/// A person as signing in needs them. The hash never leaves: it has no place in what is shown.
#[derive(Clone, Deserialize)]
pub struct Account {
    pub id: Uuid,
    pub email: String,
    pub name: String,
    pub password_hash: Option<String>,
    pub is_super_admin: bool,
    pub is_active: bool,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").field("id", &self.id).field("email", &self.email).finish_non_exhaustive()
    }
}

/// Who is behind a browser's session.
#[derive(Debug, Clone, Deserialize)]
pub struct SignedIn {
    pub user_id: Option<Uuid>,
    pub token_id: Option<String>,
    pub chosen_tenant: Option<Uuid>,
    pub email: Option<String>,
    pub name: Option<String>,
    pub is_super_admin: bool,
    pub members: Vec<Membership>,
}

/// One tenant that a signed-in person may look at.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Membership {
    pub tenant_id: Uuid,
    pub slug: String,
    pub name: String,
    pub role: String,
    pub requests_per_minute: Option<u32>,
}

/// A worker process as operators see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerRecord {
    pub worker_id: String,
    pub hostname: String,
    pub version: String,
    pub queues: Vec<String>,
    pub definition_keys: Vec<String>,
    pub started_at: Timestamp,
    pub last_seen_at: Timestamp,
    pub lease_expires_at: Timestamp,
    pub lease_seconds: i32,
    pub running_count: i32,
    pub is_quiet: bool,
    pub stopped_at: Option<Timestamp>,
    pub metadata: Value,
    /// `alive`, `quiet`, `stale` (its lease has run out), `lost` (and others were given its jobs) or `stopped`.
    pub status: String,
    /// It fell silent without a goodbye: it is stale or lost.
    pub is_stale: bool,
    pub seen_seconds_ago: f64,
}

/// One row of the audit trail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    pub id: i64,
    pub at: Timestamp,
    pub tenant_id: Uuid,
    pub actor: String,
    pub role: Option<String>,
    pub action: String,
    pub target: String,
    /// `done` or `denied`.
    pub outcome: String,
    pub from_address: Option<String>,
    pub request_id: Option<String>,
    pub detail: Value,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// Which rows of the audit trail.
#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    pub actor: Option<String>,
    pub action: Option<String>,
    pub target: Option<String>,
    pub outcome: Option<String>,
    /// Only rows with a smaller id: the last one of the page before.
    pub before: Option<i64>,
    pub limit: u16,
}

/// Bytes of a text that tenants are looked for by.
const LONGEST_SEARCH: usize = 200;

/// Fields to be set, by name.
pub type Fields = Map<String, Value>;

impl Acting {
    /// Makes a definition; its key must be new. `fields` are those of [`crate::Definition`].
    pub async fn create_definition(&self, fields: &Fields) -> Result<Value> {
        definition::check_fields(fields)?;
        let made = store::manage::create_definition(&self.session, &Value::from(fields.clone())).await?;
        made.ok_or(Error::Unknown { what: "definition" })
    }

    /// Changes some fields of a definition. `expected` is the version that was seen; another one is [`Error::Changed`].
    pub async fn change_definition(
        &self,
        id: Uuid,
        fields: &Fields,
        expected: Option<&str>,
    ) -> Result<Value> {
        definition::check_fields(fields)?;
        let fields = Value::from(fields.clone());
        let changed = store::manage::change_definition(&self.session, id, &fields, expected).await?;
        changed.ok_or(Error::Unknown { what: "definition" })
    }

    pub async fn definition(&self, id: Uuid) -> Result<Value> {
        store::manage::definition(&self.session, id).await?.ok_or(Error::Unknown { what: "definition" })
    }

    /// Makes a tenant; its slug must be new.
    pub async fn create_tenant(&self, fields: &Fields) -> Result<Tenant> {
        let made = store::manage::create_tenant(&self.session, &Value::from(fields.clone())).await?;
        made.ok_or(Error::Unknown { what: "tenant" })
    }

    pub async fn tenant_record(&self, id: Uuid) -> Result<Tenant> {
        store::manage::tenant(&self.session, id).await?.ok_or(Error::Unknown { what: "tenant" })
    }

    pub async fn change_tenant(&self, id: Uuid, fields: &Fields) -> Result<Tenant> {
        let changed = store::manage::change_tenant(&self.session, id, &Value::from(fields.clone())).await?;
        changed.ok_or(Error::Unknown { what: "tenant" })
    }

    /// Marks a tenant for deletion; [`Queue::purge_deleted_tenants`] does the rest, batch by batch.
    pub async fn delete_tenant(&self, id: Uuid) -> Result<Tenant> {
        let marked = store::manage::mark_tenant_deleting(&self.session, id).await?;
        marked.ok_or(Error::Unknown { what: "tenant" })
    }

    pub async fn members(&self, tenant: Uuid) -> Result<Vec<Member>> {
        store::manage::members(&self.session, tenant).await
    }

    pub async fn remove_member(&self, tenant: Uuid, user: Uuid) -> Result<Member> {
        let removed = store::manage::remove_member(&self.session, tenant, user).await?;
        removed.ok_or(Error::Unknown { what: "member" })
    }

    /// Makes a person, or changes the one with this address. Fields: email, name, password_hash, is_super_admin.
    pub async fn put_user(&self, fields: &Fields) -> Result<Uuid> {
        store::manage::put_user(&self.session, &Value::from(fields.clone())).await
    }

    /// Pauses or resumes a queue.
    pub async fn set_paused(&self, queue: &str, is_paused: bool) -> Result<()> {
        store::tenant::set_paused_in(&self.session, queue, is_paused).await
    }

    /// Asks a worker to take nothing new, or to go on.
    pub async fn set_quiet(&self, worker_id: &str, is_quiet: bool) -> Result<()> {
        let is_there = store::worker::set_quiet_in(&self.session, worker_id, is_quiet).await?;
        if is_there { Ok(()) } else { Err(Error::Unknown { what: "worker" }) }
    }
}

impl Looking {
    /// Every definition, as JSON with its `version`.
    pub async fn definitions(&self) -> Result<Vec<Value>> {
        store::manage::definitions(&self.session).await
    }

    pub async fn definition(&self, id: Uuid) -> Result<Value> {
        store::manage::definition(&self.session, id).await?.ok_or(Error::Unknown { what: "definition" })
    }

    /// The tenants this view reaches.
    pub async fn tenants(&self) -> Result<Vec<Tenant>> {
        store::manage::tenants(&self.session).await
    }

    /// A page of the tenants whose name or slug holds a text, by name: those after another one, or the first.
    pub async fn find_tenants(&self, text: &str, after: Option<Uuid>, most: u16) -> Result<Vec<Tenant>> {
        let text = crate::text::storable(text.trim().to_lowercase().as_bytes(), LONGEST_SEARCH);
        store::manage::find_tenants(&self.session, &text, after, most).await
    }

    /// How many tenants have a name or slug that holds a text.
    pub async fn count_tenants(&self, text: &str) -> Result<i64> {
        let text = crate::text::storable(text.trim().to_lowercase().as_bytes(), LONGEST_SEARCH);
        store::manage::count_tenants(&self.session, &text).await
    }

    pub async fn tenant_record(&self, id: Uuid) -> Result<Tenant> {
        store::manage::tenant(&self.session, id).await?.ok_or(Error::Unknown { what: "tenant" })
    }

    pub async fn members(&self, tenant: Uuid) -> Result<Vec<Member>> {
        store::manage::members(&self.session, tenant).await
    }

    pub async fn workers(&self) -> Result<Vec<WorkerRecord>> {
        store::manage::workers(&self.session).await
    }

    /// Names of queues, and whether they are paused.
    pub async fn queues(&self) -> Result<Vec<(String, bool)>> {
        store::manage::queues(&self.session).await
    }

    /// One page of the audit trail, newest first, and whether there is more. It ends after about 4 MiB.
    pub async fn audit(&self, query: &AuditQuery) -> Result<(Vec<AuditEntry>, bool)> {
        store::manage::audit(&self.session, self.reach.tenant(), query).await
    }
}

impl Queue {
    /// A person by their address, for signing in.
    pub async fn account(&self, email: &str) -> Result<Option<Account>> {
        store::manage::account(self.database(), email).await
    }

    pub async fn session_of(&self, hash: &[u8]) -> Result<Option<SignedIn>> {
        store::manage::session(self.database(), hash).await
    }

    /// Deletes one batch of a tenant that is marked for deletion. Answers how many jobs went; none, if no tenant is left
    /// to delete. A duty of the keeper.
    pub async fn purge_deleted_tenants(&self) -> Result<Option<u64>> {
        store::manage::purge_deleted_tenants(self.database(), 1000).await
    }
}

/// Whose session.
#[derive(Debug, Clone, Copy)]
pub enum SessionOf<'a> {
    /// A person's, whose password was compared with this hash.
    User { id: Uuid, password_hash: &'a str },
    /// That of a token's holder.
    Token(&'a str),
}

/// A session to begin. Only the hash of its secret is kept.
#[derive(Debug, Clone, Copy)]
pub struct NewSession<'a> {
    pub hash: &'a [u8],
    pub of: SessionOf<'a>,
    pub seconds: u32,
    /// The session that the browser had, which ends.
    pub replaces: Option<&'a [u8]>,
    pub from_address: Option<&'a str>,
    pub user_agent: Option<&'a str>,
}

impl Acting {
    /// Begins a session. False: the password is another one by now, or the account or the token has ended.
    pub async fn create_session(&self, new: &NewSession<'_>) -> Result<bool> {
        store::manage::create_session(&self.session, new).await
    }

    /// Makes a session look at another tenant.
    pub async fn choose_tenant(&self, hash: &[u8], tenant: Uuid) -> Result<()> {
        store::manage::choose_tenant(&self.session, hash, tenant).await
    }

    /// Ends a session. False: there was none.
    pub async fn end_session(&self, hash: &[u8]) -> Result<bool> {
        store::manage::end_session(&self.session, hash).await
    }
}
