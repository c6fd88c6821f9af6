//! Every migration and every function file of the product, in the order in which they are installed.
//!
//! Migrations are forward-only and never edited once released. Function files are installed whole whenever one of them
//! changed; their order only matters for the views and grants at the end.

pub(crate) struct Migration {
    pub(crate) version: i32,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// How many versions ahead of this release a database may be: the next release only adds, so our workers continue
/// during its rollout.
pub(crate) const TOLERATED_AHEAD: i32 = 50;

/// Created before the first migration, by the login that migrates; the owner role does not exist yet.
pub(crate) const BOOKKEEPING: &str = "create schema if not exists windlass;
create table if not exists windlass.migration (
  version integer primary key, name text not null, checksum text not null, applied_at timestamptz not null default now());
create table if not exists windlass.installed_functions (
  checksum text not null, installed_at timestamptz not null default now(), release integer not null default 0);
";

/// Run after every migration: the first jobs need their partitions.
pub(crate) const PREPARE: &str = "select windlass.maintain_partitions(2)";

pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "roles", sql: include_str!("../../migrations/0001_roles.sql") },
    Migration { version: 2, name: "catalog", sql: include_str!("../../migrations/0002_catalog.sql") },
    Migration { version: 3, name: "jobs", sql: include_str!("../../migrations/0003_jobs.sql") },
    Migration { version: 4, name: "output", sql: include_str!("../../migrations/0004_output.sql") },
    Migration { version: 5, name: "pull", sql: include_str!("../../migrations/0005_pull.sql") },
    Migration { version: 6, name: "identity", sql: include_str!("../../migrations/0006_identity.sql") },
    Migration { version: 7, name: "triggers", sql: include_str!("../../migrations/0007_triggers.sql") },
    Migration { version: 8, name: "insight", sql: include_str!("../../migrations/0008_insight.sql") },
    Migration { version: 10, name: "accounts", sql: include_str!("../../migrations/0010_accounts.sql") },
    Migration { version: 11, name: "lifecycle", sql: include_str!("../../migrations/0011_lifecycle.sql") },
    Migration { version: 12, name: "keeper", sql: include_str!("../../migrations/0012_keeper.sql") },
    Migration { version: 13, name: "cliffs", sql: include_str!("../../migrations/0013_cliffs.sql") },
    Migration { version: 14, name: "guard", sql: include_str!("../../migrations/0014_guard.sql") },
    Migration { version: 15, name: "gates", sql: include_str!("../../migrations/0015_gates.sql") },
    Migration { version: 16, name: "shares", sql: include_str!("../../migrations/0016_shares.sql") },
    Migration { version: 17, name: "bounds", sql: include_str!("../../migrations/0017_bounds.sql") },
    Migration { version: 18, name: "audit_due", sql: include_str!("../../migrations/0018_audit_due.sql") },
    Migration {
        version: 20,
        name: "closed_workers",
        sql: include_str!("../../migrations/0020_closed_workers.sql"),
    },
    Migration {
        version: 21,
        name: "dependency_order",
        sql: include_str!("../../migrations/0021_dependency_order.sql"),
    },
    Migration {
        version: 22,
        name: "ordering_dependency",
        sql: include_str!("../../migrations/0022_ordering_dependency.sql"),
    },
    Migration { version: 23, name: "audit_acts", sql: include_str!("../../migrations/0023_audit_acts.sql") },
];

/// A number that increases with every change of a file below, and their common checksum, which a test verifies. Two
/// builds are compared by it, because all builds of an unreleased version have the same version number.
pub(crate) const REVISION: &str = include_str!("functions/revision.txt");

/// The objects of a fresh installation: one line each with kind, name and state, separated by tabs. A test compares it, and writes it
/// with `WINDLASS_BLESS=1`.
pub(crate) const CATALOG: &str = include_str!("catalog.txt");

pub(crate) const FUNCTIONS: &[&str] = &[
    include_str!("functions/base/guard_table.sql"),
    include_str!("functions/base/keep_view.sql"),
    include_str!("functions/base/names.sql"),
    include_str!("functions/base/readable.sql"),
    include_str!("functions/base/small.sql"),
    include_str!("functions/base/lists.sql"),
    include_str!("functions/base/current_tenant.sql"),
    include_str!("functions/base/uuid7.sql"),
    include_str!("functions/base/instants.sql"),
    include_str!("functions/base/read_committed.sql"),
    include_str!("functions/base/gate.sql"),
    include_str!("functions/views/standing.sql"),
    include_str!("functions/trouble/note.sql"),
    include_str!("functions/definition/field_rules.sql"),
    include_str!("functions/definition/refuse_definition.sql"),
    include_str!("functions/definition/define.sql"),
    include_str!("functions/definition/read.sql"),
    include_str!("functions/tenant/create.sql"),
    include_str!("functions/tenant/watch.sql"),
    include_str!("functions/tenant/purge.sql"),
    include_str!("functions/queue/pause.sql"),
    include_str!("functions/trigger/refuse_trigger.sql"),
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
    include_str!("functions/job/cancel_as.sql"),
    include_str!("functions/job/claim.sql"),
    include_str!("functions/job/claim_lone.sql"),
    include_str!("functions/job/hold_to_running.sql"),
    include_str!("functions/job/lock_in_lane.sql"),
    include_str!("functions/job/enqueue.sql"),
    include_str!("functions/job/enqueue_alike.sql"),
    include_str!("functions/job/enqueue_as.sql"),
    include_str!("functions/job/enqueue_chain.sql"),
    include_str!("functions/job/enqueue_guarded.sql"),
    include_str!("functions/job/enqueue_many.sql"),
    include_str!("functions/job/enqueue_routed.sql"),
    include_str!("functions/job/enqueue_routed_many.sql"),
    include_str!("functions/job/finish_waiting.sql"),
    include_str!("functions/job/is_line.sql"),
    include_str!("functions/job/late.sql"),
    include_str!("functions/job/leave_line.sql"),
    include_str!("functions/job/lock_jobs.sql"),
    include_str!("functions/job/lock_keys.sql"),
    include_str!("functions/job/progress.sql"),
    include_str!("functions/job/purge.sql"),
    include_str!("functions/job/refuse_json.sql"),
    include_str!("functions/job/refuse_routed.sql"),
    include_str!("functions/job/start_deadline.sql"),
    include_str!("functions/job/refuse_options.sql"),
    include_str!("functions/job/retry.sql"),
    include_str!("functions/job/retry_as.sql"),
    include_str!("functions/job/route.sql"),
    include_str!("functions/job/route_of.sql"),
    include_str!("functions/job/settle.sql"),
    include_str!("functions/job/next_state.sql"),
    include_str!("functions/job/start_unblocked.sql"),
    include_str!("functions/job/state_of.sql"),
    include_str!("functions/job/ordering.sql"),
    include_str!("functions/job/unblock.sql"),
    include_str!("functions/job/unclaim.sql"),
    include_str!("functions/log/write.sql"),
    include_str!("functions/worker/heartbeat.sql"),
    include_str!("functions/worker/lanes.sql"),
    include_str!("functions/worker/drain.sql"),
    include_str!("functions/worker/register.sql"),
    include_str!("functions/worker/stop.sql"),
    include_str!("functions/worker/wait.sql"),
    include_str!("functions/insight/sample_activity.sql"),
    include_str!("functions/keeper/expire.sql"),
    include_str!("functions/keeper/fold.sql"),
    include_str!("functions/keeper/lost.sql"),
    include_str!("functions/keeper/partition_rows.sql"),
    include_str!("functions/keeper/partitions.sql"),
    include_str!("functions/keeper/promote.sql"),
    include_str!("functions/keeper/prune.sql"),
    include_str!("functions/keeper/prune_events.sql"),
    include_str!("functions/keeper/prune_jobs.sql"),
    include_str!("functions/keeper/prune_marks.sql"),
    include_str!("functions/keeper/reap.sql"),
    include_str!("functions/keeper/retire_lanes.sql"),
    include_str!("functions/keeper/turns.sql"),
    include_str!("functions/keeper/unblock_all.sql"),
    include_str!("functions/keeper/unblock_old.sql"),
    include_str!("functions/trouble/list.sql"),
    include_str!("functions/pull/register.sql"),
    include_str!("functions/pull/touch.sql"),
    include_str!("functions/pull/stop.sql"),
    include_str!("functions/pull/claim.sql"),
    include_str!("functions/pull/unclaim.sql"),
    include_str!("functions/pull/heartbeat.sql"),
    include_str!("functions/pull/held.sql"),
    include_str!("functions/pull/settle.sql"),
    include_str!("functions/pull/hand_over.sql"),
    include_str!("functions/pull/lost.sql"),
    include_str!("functions/pull/reap.sql"),
    include_str!("functions/views/jobs.sql"),
    include_str!("functions/definition/manage.sql"),
    include_str!("functions/tenant/manage.sql"),
    include_str!("functions/tenant/quota.sql"),
    include_str!("functions/member/manage.sql"),
    include_str!("functions/account/invite.sql"),
    include_str!("functions/account/accept.sql"),
    include_str!("functions/account/password.sql"),
    include_str!("functions/account/creator.sql"),
    include_str!("functions/session/manage.sql"),
    include_str!("functions/token/create.sql"),
    include_str!("functions/token/find.sql"),
    include_str!("functions/token/list.sql"),
    include_str!("functions/token/revoke.sql"),
    include_str!("functions/audit/record.sql"),
    include_str!("functions/audit/due.sql"),
    include_str!("functions/audit/link.sql"),
    include_str!("functions/audit/seal.sql"),
    include_str!("functions/audit/verify.sql"),
    include_str!("functions/request/remember.sql"),
    include_str!("functions/access/tables.sql"),
    include_str!("functions/access/functions.sql"),
];
