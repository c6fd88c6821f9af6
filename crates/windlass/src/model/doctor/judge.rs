//! Turns facts into findings. Pure: every threshold is here, with its reason.

mod drift;
mod foreign;
mod rate;
mod set_aside;
mod stuck;

use super::facts::DatabaseFacts;
use super::{Finding, Severity};
use crate::model::server_version::{VersionSupport, standing};

/// Claims have to skip all rows that ended since a transaction this old started …
const OLD_TRANSACTION_SECONDS: i64 = 300;
/// … and after this time the transaction was probably forgotten.
const FORGOTTEN_TRANSACTION_SECONDS: i64 = 3600;
/// The server rejects writes at about two thousand million.
const MAX_TRANSACTION_AGE: i64 = 1_000_000_000;
const MAX_CLOCK_OFF_MS: i64 = 2_000;

pub(crate) fn judge(facts: &DatabaseFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    server(facts, &mut findings);
    settings(facts, &mut findings);
    limits(facts, &mut findings);
    holders(facts, &mut findings);
    foreign::judge(facts, &mut findings);
    if !facts.server.has_schema {
        return findings;
    }
    if let Some(session) = &facts.locked_by {
        findings.push(danger(
            "locks",
            format!("a table of windlass is locked by {session}; what it contains could not be checked"),
            "end that transaction, or its process with `select pg_terminate_backend(PROCESS)`, then run the doctor again; \
             find out why its login takes locks on tables of windlass",
        ));
        return findings;
    }
    schema(facts, &mut findings);
    bloat(facts, &mut findings);
    workers(facts, &mut findings);
    stuck::judge(facts, &mut findings);
    set_aside::judge(facts, &mut findings);
    rate::judge(facts, &mut findings);
    listening(facts, &mut findings);
    findings
}

fn server(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    let server = &facts.server;
    let version = format!("Postgres {}", server.version_text);
    let standing = standing(server.version);
    findings.push(if standing == VersionSupport::TooOld {
        danger("server", version, "upgrade the server: windlass needs Postgres 15 or newer")
    } else if server.is_replica {
        danger(
            "server",
            format!("{version}, a read-only replica"),
            "use the URL of the primary, or list all hosts in one URL so that the writable one is chosen",
        )
    } else if let VersionSupport::Unfixed { fixed_in } = standing {
        warning(
            "server",
            format!("{version} lacks security fixes of row-level security"),
            format!("upgrade the server to {fixed_in} or newer"),
        )
    } else {
        fine("server", version)
    });
    if facts.clock_off_ms.abs() > MAX_CLOCK_OFF_MS {
        findings.push(warning(
            "clock",
            format!("the clock of this machine differs from the database clock by {} ms", -facts.clock_off_ms),
            "synchronize the clock (NTP); the queue does not depend on it, but times in the logs of this machine do not match",
        ));
    }
}

/// The settings that a committed job needs to survive a crash, each with what is lost otherwise.
fn settings(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    let before = findings.len();
    for (name, value) in &facts.server.settings {
        let found = format!("{name} = {value}");
        let change = |to: &str| {
            format!(
                "`alter system set {name} = {to}` and reload the configuration, or restart the server if it requires that"
            )
        };
        let finding = match (name.as_str(), value.as_str()) {
            ("fsync", "off") => danger(
                "durability",
                format!("{found}: a power failure can corrupt the database"),
                change("on"),
            ),
            ("full_page_writes", "off") => danger(
                "durability",
                format!("{found}: a power failure can leave partially written pages"),
                change("on"),
            ),
            ("synchronous_commit", "off") => warning(
                "durability",
                format!("{found}: acknowledged jobs can be lost in a crash"),
                change("on"),
            ),
            ("zero_damaged_pages" | "ignore_checksum_failure", "on") => {
                danger("durability", format!("{found}: corruption is not reported"), change("off"))
            }
            ("autovacuum" | "track_counts", "off") => danger(
                "durability",
                format!("{found}: dead rows accumulate and slow down every claim"),
                change("on"),
            ),
            ("default_transaction_read_only", "on") => {
                danger("durability", format!("{found}: nothing can be enqueued or settled"), change("off"))
            }
            _ => continue,
        };
        findings.push(finding);
    }
    if findings.len() == before {
        findings
            .push(fine("durability", "fsync, full_page_writes, synchronous_commit and autovacuum are on"));
    }
}

fn limits(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    let server = &facts.server;
    let used = format!("{} of {} connections in use", server.connections, server.most_connections);
    findings.push(if server.connections * 10 >= server.most_connections * 9 {
        danger("connections", used, "increase max_connections, use a pooler, or lower `database.connections`")
    } else if server.connections * 4 >= server.most_connections * 3 {
        warning("connections", used, "add a pooler or increase max_connections before you add workers")
    } else {
        fine("connections", used)
    });
    if server.transaction_age > MAX_TRANSACTION_AGE {
        findings.push(danger(
            "wraparound",
            format!("the oldest unfrozen transaction is {} old", server.transaction_age),
            "run `vacuum freeze` on this database, and find out what blocked autovacuum (see transactions)",
        ));
    }
    if server.notification_queue > 0.1 {
        findings.push(warning(
            "notifications",
            format!("the notification queue is {:.0} % full", server.notification_queue * 100.0),
            "a listening session has a long-running transaction: end it (see transactions)",
        ));
    }
}

fn holders(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    if facts.server.is_blind {
        findings.push(warning(
            "visibility",
            "this login can see only its own sessions: transactions and listeners of other logins were not checked",
            "grant `pg_read_all_stats` to this login, or use a login that has it",
        ));
    }
    let before = findings.len();
    for holder in &facts.holders {
        let age = holder.age_seconds;
        if age.is_some_and(|age| age < OLD_TRANSACTION_SECONDS) {
            continue;
        }
        let since = age.map(|age| format!(", open for {}", spell(age))).unwrap_or_default();
        let found = format!("{} ({}){since}: {}", holder.kind, holder.who, holder.doing);
        let advice = match holder.kind.as_str() {
            "prepared transaction" => "commit or roll it back by its name (`rollback prepared '…'`)",
            "replication slot" => "start its consumer, or drop the slot with `pg_drop_replication_slot`",
            _ => {
                "end it in the application, or with `select pg_terminate_backend(PID)`; set idle_in_transaction_session_timeout"
            }
        };
        let is_forgotten = age.is_none_or(|age| age >= FORGOTTEN_TRANSACTION_SECONDS);
        findings.push(if is_forgotten {
            danger("transactions", found, advice)
        } else {
            warning("transactions", found, advice)
        });
    }
    if findings.len() == before {
        let oldest = facts.holders.iter().filter_map(|holder| holder.age_seconds).max();
        let oldest = oldest.map_or("no transaction is open".to_owned(), |age| {
            format!("the oldest transaction is {} old", spell(age))
        });
        findings.push(fine("transactions", oldest));
    }
}

fn schema(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    let before = findings.len();
    for expected in &facts.expected {
        let installed = facts.installed.iter().find(|one| one.version == expected.version);
        let what = if expected.version == 0 {
            "the set of functions".to_owned()
        } else {
            format!("migration {} ({})", expected.version, expected.name)
        };
        match installed {
            None => {
                findings.push(danger("schema", format!("{what} is not installed"), "run `windlass migrate`"));
            }
            Some(one) if one.checksum == expected.checksum => {}
            Some(_) if expected.version == 0 => findings.push(warning(
                "schema",
                "the functions are those of another release",
                "run `windlass migrate` of the newest release that uses this database",
            )),
            Some(_) => findings.push(danger(
                "schema",
                format!("{what} was installed with different contents"),
                "this program was not built from the release that migrated the database: use that release",
            )),
        }
    }
    let newest = facts.expected.iter().map(|one| one.version).max().unwrap_or(0);
    let ahead = facts.installed.iter().filter(|one| one.version > newest).count();
    if ahead > 0 {
        findings.push(warning(
            "schema",
            format!("the database is {ahead} migrations ahead of this program"),
            "upgrade this program to complete the rollout",
        ));
    } else if findings.len() == before {
        drift::judge(facts, findings);
    }
    for damage in &facts.damage {
        let advice = "drop it and create it again concurrently (`reindex index concurrently`)";
        findings.push(danger("schema", format!("{} {}", damage.kind, damage.name), advice));
    }
    if findings.len() == before {
        findings.push(fine(
            "schema",
            format!("version {newest}, as expected by this release; no manual changes"),
        ));
    }
}

fn bloat(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    let before = findings.len();
    for table in &facts.tables {
        if table.dead_rows < 100_000 || table.dead_rows < table.live_rows * 2 {
            continue;
        }
        let vacuumed = table.vacuumed_seconds.map_or("never".to_owned(), |age| format!("{} ago", spell(age)));
        findings.push(warning(
            "bloat",
            format!(
                "{} has {} dead rows and {} live rows ({} MB), vacuumed {vacuumed}",
                table.name,
                table.dead_rows,
                table.live_rows,
                table.bytes / (1024 * 1024)
            ),
            format!(
                "end the transactions that prevent their removal (see transactions), then `vacuum (verbose) windlass.{}`",
                table.name
            ),
        ));
    }
    if findings.len() == before {
        findings.push(fine("bloat", "no table has an excessive number of dead rows"));
    }
}

fn workers(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    let alive = facts.workers.iter().filter(|worker| worker.is_alive).count();
    if alive == 0 {
        findings.push(warning(
            "workers",
            "no worker is active",
            "start one: `windlass worker`, or an application that embeds one",
        ));
    } else {
        findings.push(fine("workers", format!("{alive} active")));
    }
    for worker in facts.workers.iter().filter(|worker| !worker.is_alive) {
        findings.push(warning(
            "stale workers",
            format!(
                "{} has missed its heartbeats for {} and did not unregister; it held {} jobs",
                worker.worker_id,
                spell(worker.silent_seconds),
                worker.running_count
            ),
            "check that machine (killed, out of memory, disconnected?); the reaper recovers its jobs",
        ));
    }
}

fn listening(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    let alive = facts.workers.iter().filter(|worker| worker.is_alive).count();
    findings.push(if !facts.notification_arrives {
        danger(
            "listen",
            "a test notification did not arrive",
            "`database.direct_url` is a transaction pooler: set it to the Postgres server",
        )
    } else if alive > 0 && facts.listeners == 0 && !facts.server.is_blind {
        warning(
            "listen",
            if alive == 1 {
                "1 worker is active and no session listens".to_owned()
            } else {
                format!("{alive} workers are active and no session listens")
            },
            "they find jobs by polling only, up to a second late: set `database.direct_url` for them, and check their logs",
        )
    } else {
        let pooled = if facts.is_pooled { "; statements use a pooler" } else { "" };
        fine("listen", format!("notifications work; {} sessions listen{pooled}", facts.listeners))
    });
}

fn fine(check: &'static str, found: impl Into<String>) -> Finding {
    Finding { check, severity: Severity::Fine, found: found.into(), advice: None }
}

fn warning(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { check, severity: Severity::Warning, found: found.into(), advice: Some(advice.into()) }
}

fn danger(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { check, severity: Severity::Danger, found: found.into(), advice: Some(advice.into()) }
}

/// `90 s`, `12 min`, `3 h`, `2 days`: one unit, rounded down.
fn spell(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{} s", seconds.max(0)),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests;
