//! Every migration and every function file of the product, in the order in which they are installed.
//!
//! Migrations are forward-only and never edited once released. Function files are installed whole whenever one of them
//! changed; their order only matters for the views and grants at the end.

pub(crate) struct Migration {
    pub(crate) version: i32,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// How many versions ahead of us a database may be: the next release only adds, so our workers go on while it is rolled out.
pub(crate) const TOLERATED_AHEAD: i32 = 50;

/// Made before the first migration, by whoever migrates; the owner role does not exist yet at that moment.
pub(crate) const BOOKKEEPING: &str = "create schema if not exists windlass;
create table if not exists windlass.migration (
  version integer primary key, name text not null, checksum text not null, applied_at timestamptz not null default now());
create table if not exists windlass.installed_functions (checksum text not null, installed_at timestamptz not null default now());
";

/// Run after every migration: the first jobs need their partitions.
pub(crate) const PREPARE: &str = "select windlass.maintain_partitions(2)";

pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "roles", sql: include_str!("../../migrations/0001_roles.sql") },
    Migration { version: 2, name: "catalog", sql: include_str!("../../migrations/0002_catalog.sql") },
    Migration { version: 3, name: "jobs", sql: include_str!("../../migrations/0003_jobs.sql") },
    Migration { version: 4, name: "output", sql: include_str!("../../migrations/0004_output.sql") },
    Migration { version: 5, name: "remote", sql: include_str!("../../migrations/0005_remote.sql") },
    Migration { version: 6, name: "identity", sql: include_str!("../../migrations/0006_identity.sql") },
    Migration { version: 7, name: "triggers", sql: include_str!("../../migrations/0007_triggers.sql") },
    Migration { version: 8, name: "insight", sql: include_str!("../../migrations/0008_insight.sql") },
];

pub(crate) const FUNCTIONS: &[&str] = &[
    include_str!("functions/base/guard_table.sql"),
    include_str!("functions/base/names.sql"),
    include_str!("functions/base/readable.sql"),
    include_str!("functions/base/small.sql"),
    include_str!("functions/base/tenant_in_force.sql"),
    include_str!("functions/base/uuid7.sql"),
    include_str!("functions/views/standing.sql"),
    include_str!("functions/definition/define.sql"),
    include_str!("functions/definition/read.sql"),
    include_str!("functions/tenant/create.sql"),
    include_str!("functions/tenant/purge.sql"),
    include_str!("functions/queue/pause.sql"),
    include_str!("functions/trigger/create.sql"),
    include_str!("functions/trigger/update.sql"),
    include_str!("functions/trigger/due.sql"),
    include_str!("functions/trigger/fire.sql"),
    include_str!("functions/trigger/fire_one.sql"),
    include_str!("functions/event/emit.sql"),
    include_str!("functions/event/pending.sql"),
    include_str!("functions/event/dispatch.sql"),
    include_str!("functions/retention/rules.sql"),
    include_str!("functions/retention/hold.sql"),
    include_str!("functions/retention/clean_up.sql"),
    include_str!("functions/job/cancel.sql"),
    include_str!("functions/job/claim.sql"),
    include_str!("functions/job/hold_to_running.sql"),
    include_str!("functions/job/enqueue.sql"),
    include_str!("functions/job/enqueue_alike.sql"),
    include_str!("functions/job/enqueue_as.sql"),
    include_str!("functions/job/enqueue_chain.sql"),
    include_str!("functions/job/enqueue_copied.sql"),
    include_str!("functions/job/enqueue_guarded.sql"),
    include_str!("functions/job/enqueue_many.sql"),
    include_str!("functions/job/enqueue_routed.sql"),
    include_str!("functions/job/enqueue_routed_many.sql"),
    include_str!("functions/job/finish_waiting.sql"),
    include_str!("functions/job/leave_line.sql"),
    include_str!("functions/job/progress.sql"),
    include_str!("functions/job/purge.sql"),
    include_str!("functions/job/refuse_json.sql"),
    include_str!("functions/job/refuse_options.sql"),
    include_str!("functions/job/retry.sql"),
    include_str!("functions/job/route.sql"),
    include_str!("functions/job/route_of.sql"),
    include_str!("functions/job/settle.sql"),
    include_str!("functions/job/start_unblocked.sql"),
    include_str!("functions/job/state_of.sql"),
    include_str!("functions/job/ordering.sql"),
    include_str!("functions/job/unblock.sql"),
    include_str!("functions/job/unclaim.sql"),
    include_str!("functions/log/write.sql"),
    include_str!("functions/worker/heartbeat.sql"),
    include_str!("functions/worker/lanes.sql"),
    include_str!("functions/worker/quiet.sql"),
    include_str!("functions/worker/register.sql"),
    include_str!("functions/worker/stop.sql"),
    include_str!("functions/worker/wait.sql"),
    include_str!("functions/insight/sample_activity.sql"),
    include_str!("functions/keeper/expire.sql"),
    include_str!("functions/keeper/fold.sql"),
    include_str!("functions/keeper/lost.sql"),
    include_str!("functions/keeper/partitions.sql"),
    include_str!("functions/keeper/promote.sql"),
    include_str!("functions/keeper/prune.sql"),
    include_str!("functions/keeper/prune_events.sql"),
    include_str!("functions/keeper/reap.sql"),
    include_str!("functions/keeper/unblock_all.sql"),
    include_str!("functions/remote/register.sql"),
    include_str!("functions/remote/touch.sql"),
    include_str!("functions/remote/claim.sql"),
    include_str!("functions/remote/unclaim.sql"),
    include_str!("functions/remote/heartbeat.sql"),
    include_str!("functions/remote/held.sql"),
    include_str!("functions/remote/settle.sql"),
    include_str!("functions/remote/hand_over.sql"),
    include_str!("functions/remote/lost.sql"),
    include_str!("functions/remote/reap.sql"),
    include_str!("functions/views/jobs.sql"),
    include_str!("functions/definition/manage.sql"),
    include_str!("functions/tenant/manage.sql"),
    include_str!("functions/tenant/quota.sql"),
    include_str!("functions/member/manage.sql"),
    include_str!("functions/session/manage.sql"),
    include_str!("functions/token/create.sql"),
    include_str!("functions/token/find.sql"),
    include_str!("functions/token/list.sql"),
    include_str!("functions/token/revoke.sql"),
    include_str!("functions/audit/record.sql"),
    include_str!("functions/audit/seal.sql"),
    include_str!("functions/audit/verify.sql"),
    include_str!("functions/request/remember.sql"),
    include_str!("functions/access/policies.sql"),
    include_str!("functions/access/triggers.sql"),
    include_str!("functions/access/insight.sql"),
    include_str!("functions/access/control_plane.sql"),
];
