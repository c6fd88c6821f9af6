//! The rows that callers could change, and the audit rows of their calls.

use uuid::Uuid;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    /// Hashes of every table, and of the rows of one tenant that must not change.
    pub(super) all: String,
    pub(super) theirs: String,
    /// Rows of the audit trail.
    pub(super) done: i64,
    pub(super) denied: i64,
}

/// Tables, and the columns that change on their own.
const TABLES: [(&str, &str); 25] = [
    ("job", ""),
    ("live", ""),
    ("line", ""),
    ("deferred", ""),
    ("blocked", ""),
    ("history", ""),
    ("dedupe", ""),
    ("cancel_request", ""),
    ("pull_lease", " - 'expires_at'"),
    ("job_triggers", ""),
    ("event", ""),
    ("event_pending", ""),
    ("event_dispatch", ""),
    ("fire", ""),
    ("request_keys", ""),
    ("api_tokens", " - 'last_used_at'"),
    ("retention", ""),
    ("legal_hold", ""),
    ("members", ""),
    ("invitations", ""),
    ("password_resets", ""),
    ("tenants", ""),
    ("job_definitions", ""),
    ("users", ""),
    ("queues", ""),
];

/// Tables that belong to no tenant.
const OF_NO_TENANT: [&str; 4] = ["job_definitions", "users", "password_resets", "queues"];

impl State {
    pub(super) async fn of(database: &tokio_postgres::Client, theirs: Uuid) -> Self {
        // One statement, so one snapshot.
        let hash = |table: &str, without: &str, condition: &str| {
            format!(
                "(select coalesce(md5(string_agg((to_jsonb(t){without})::text, '' order by to_jsonb(t)::text)), '-') from windlass.{table} t{condition})"
            )
        };
        let all: Vec<String> = TABLES.iter().map(|(table, without)| hash(table, without, "")).collect();
        let of_tenants = TABLES.iter().filter(|(table, _)| !OF_NO_TENANT.contains(table));
        let of_theirs: Vec<String> = of_tenants
            .map(|(table, without)| {
                let tenant = if *table == "tenants" { "id" } else { "tenant_id" };
                hash(table, without, &format!(" where t.{tenant} = $1"))
            })
            .collect();
        let query = format!(
            "select concat_ws(' ', {}), concat_ws(' ', {}), count(*) filter (where a.outcome = 'done'),
                    count(*) filter (where a.outcome = 'denied') from windlass.audit a",
            all.join(", "),
            of_theirs.join(", ")
        );
        let row = database.query_one(&query, &[&theirs]).await.unwrap();
        Self { all: row.get(0), theirs: row.get(1), done: row.get(2), denied: row.get(3) }
    }
}
