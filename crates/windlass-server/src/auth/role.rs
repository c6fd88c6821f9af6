//! Roles, their permissions, and the scopes that restrict a token.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The role of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads the jobs and triggers of a tenant.
    Viewer,
    /// Also enqueues, cancels, retries and emits events.
    Operator,
    /// Also deletes jobs, and manages triggers, retention, tokens and members.
    TenantAdmin,
    /// Claims and settles jobs, and nothing else.
    Worker,
    /// Everything, for every tenant.
    SuperAdmin,
}

/// The permission that a route requires. The names are those of the scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// No credential: health, documentation, sign-in.
    Anyone,
    /// Any valid credential: to read one's own account.
    SignedIn,
    /// Read jobs, attempts and logs.
    ReadJobs,
    /// Enqueue, cancel and retry jobs.
    WriteJobs,
    /// Delete jobs with their history.
    DeleteJobs,
    /// Read triggers and their history.
    ReadTriggers,
    /// Create, change, run and delete triggers.
    WriteTriggers,
    /// Read events.
    ReadEvents,
    /// Emit events, and retry them.
    EmitEvents,
    /// Create, rotate and revoke tokens.
    ManageTokens,
    /// Invite, change and remove members.
    ManageMembers,
    /// Retention rules and legal holds.
    ManageRetention,
    /// Read the audit trail.
    ReadAudit,
    /// The worker protocol.
    Work,
    /// Read the metrics.
    ReadMetrics,
    /// Definitions, tenants, queues, workers, everything across tenants.
    Administer,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 5] =
        [Self::Viewer, Self::Operator, Self::TenantAdmin, Self::Worker, Self::SuperAdmin];

    /// Returns the name used in JSON, tokens and the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::TenantAdmin => "tenant_admin",
            Self::Worker => "worker",
            Self::SuperAdmin => "super_admin",
        }
    }

    /// Returns whether the role has a permission.
    pub const fn may(self, permission: Permission) -> bool {
        use Permission as P;
        match permission {
            P::Anyone | P::SignedIn => true,
            P::ReadJobs | P::ReadTriggers | P::ReadEvents => !matches!(self, Self::Worker),
            P::WriteJobs | P::EmitEvents => {
                matches!(self, Self::Operator | Self::TenantAdmin | Self::SuperAdmin)
            }
            P::DeleteJobs
            | P::WriteTriggers
            | P::ManageTokens
            | P::ManageMembers
            | P::ManageRetention
            | P::ReadAudit => matches!(self, Self::TenantAdmin | Self::SuperAdmin),
            P::Work => matches!(self, Self::Worker | Self::SuperAdmin),
            P::ReadMetrics | P::Administer => matches!(self, Self::SuperAdmin),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|role| role.as_str() == name).ok_or(())
    }
}

impl Permission {
    /// Every permission.
    pub const ALL: [Self; 16] = [
        Self::Anyone,
        Self::SignedIn,
        Self::ReadJobs,
        Self::WriteJobs,
        Self::DeleteJobs,
        Self::ReadTriggers,
        Self::WriteTriggers,
        Self::ReadEvents,
        Self::EmitEvents,
        Self::ManageTokens,
        Self::ManageMembers,
        Self::ManageRetention,
        Self::ReadAudit,
        Self::Work,
        Self::ReadMetrics,
        Self::Administer,
    ];

    /// The name of the scope that grants it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anyone => "anyone",
            Self::SignedIn => "signed-in",
            Self::ReadJobs => "jobs:read",
            Self::WriteJobs => "jobs:write",
            Self::DeleteJobs => "jobs:delete",
            Self::ReadTriggers => "triggers:read",
            Self::WriteTriggers => "triggers:write",
            Self::ReadEvents => "events:read",
            Self::EmitEvents => "events:emit",
            Self::ManageTokens => "tokens:manage",
            Self::ManageMembers => "members:manage",
            Self::ManageRetention => "retention:manage",
            Self::ReadAudit => "audit:read",
            Self::Work => "work",
            Self::ReadMetrics => "metrics:read",
            Self::Administer => "admin",
        }
    }

    /// Why a caller without it is denied.
    pub fn required(self) -> String {
        format!("requires the permission {}", self.as_str())
    }

    /// A scope by its name. `anyone` and `signed-in` are not scopes.
    pub fn from_scope(name: &str) -> Option<Self> {
        Self::ALL.into_iter().skip(2).find(|permission| permission.as_str() == name)
    }
}
