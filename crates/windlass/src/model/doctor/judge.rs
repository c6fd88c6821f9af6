//! From facts to findings. Pure: every number that decides is here, with its reason.

mod set_aside;

use super::facts::{DatabaseFacts, Stuck};
use super::{Finding, Severity};
use crate::model::server_version::{Standing, standing};

/// A transaction this old already makes claims step over everything that ended meanwhile …
const OLD_TRANSACTION_SECONDS: i64 = 300;
/// … and after this long nobody is going to finish it.
const FORGOTTEN_TRANSACTION_SECONDS: i64 = 3600;
/// The server stops taking writes at about two thousand million.
const MOST_TRANSACTION_AGE: i64 = 1_000_000_000;
const MOST_CLOCK_OFF_MS: i64 = 2_000;

pub(crate) fn judge(facts: &DatabaseFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    server(facts, &mut findings);
    settings(facts, &mut findings);
    limits(facts, &mut findings);
    holders(facts, &mut findings);
    if !facts.server.has_schema {
        findings.push(danger(
            "schema",
            "this database has no windlass schema",
            "run `windlass migrate`, or check that the URL names the right database",
        ));
        return findings;
    }
    schema(facts, &mut findings);
    bloat(facts, &mut findings);
    workers(facts, &mut findings);
    stuck(facts, &mut findings);
    set_aside::judge(facts, &mut findings);
    listening(facts, &mut findings);
    findings
}

fn server(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    let server = &facts.server;
    let version = format!("Postgres {}", server.version_text);
    let standing = standing(server.version);
    findings.push(if standing == Standing::TooOld {
        danger("server", version, "upgrade the server: windlass needs Postgres 15 or newer")
    } else if server.is_replica {
        danger(
            "server",
            format!("{version}, a replica that takes no writes"),
            "name the primary, or all hosts in one URL so that the writable one is chosen",
        )
    } else if let Standing::Unfixed { fixed_in } = standing {
        warning(
            "server",
            format!("{version} lacks fixes that row-level security rests on"),
            format!("upgrade the server to {fixed_in} or newer"),
        )
    } else {
        fine("server", version)
    });
    if facts.clock_off_ms.abs() > MOST_CLOCK_OFF_MS {
        findings.push(warning(
            "clock",
            format!("this machine's clock is {} ms off the database's", -facts.clock_off_ms),
            "set the clock (NTP); nothing in the queue relies on it, but its times on this machine will not match",
        ));
    }
}

/// The settings by which a committed job survives a crash, each with what is lost otherwise.
fn settings(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    let before = findings.len();
    for (name, value) in &facts.server.settings {
        let found = format!("{name} = {value}");
        let change = |to: &str| {
            format!("`alter system set {name} = {to}` and reload, or a restart where the server asks for it")
        };
        let finding = match (name.as_str(), value.as_str()) {
            ("fsync", "off") => {
                danger("durability", format!("{found}: a power cut can destroy the database"), change("on"))
            }
            ("full_page_writes", "off") => {
                danger("durability", format!("{found}: a power cut can tear pages"), change("on"))
            }
            ("synchronous_commit", "off") => warning(
                "durability",
                format!(
                    "{found}: jobs of the last moment before a crash are lost though their enqueue was answered"
                ),
                change("on"),
            ),
            ("zero_damaged_pages" | "ignore_checksum_failure", "on") => {
                danger("durability", format!("{found}: damage is passed over in silence"), change("off"))
            }
            ("autovacuum" | "track_counts", "off") => danger(
                "durability",
                format!("{found}: dead rows stay, and every claim gets slower"),
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
        danger(
            "connections",
            used,
            "raise max_connections, put a pooler in front, or lower `database.connections`",
        )
    } else if server.connections * 4 >= server.most_connections * 3 {
        warning("connections", used, "plan for a pooler or a higher max_connections before the next workers")
    } else {
        fine("connections", used)
    });
    if server.transaction_age > MOST_TRANSACTION_AGE {
        findings.push(danger(
            "wraparound",
            format!("the oldest unfrozen transaction is {} old", server.transaction_age),
            "run `vacuum freeze` on this database and find out what kept autovacuum from it (see transactions)",
        ));
    }
    if server.notification_queue > 0.1 {
        findings.push(warning(
            "notifications",
            format!("the notification queue is {:.0} % full", server.notification_queue * 100.0),
            "a session that listens has a transaction open for long: end it (see transactions)",
        ));
    }
}

fn holders(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    if facts.server.is_blind {
        findings.push(warning(
            "sight",
            "this login is shown its own sessions only: transactions and listeners of other logins were not looked at",
            "`grant pg_read_all_stats to` this login, or examine with one that has it",
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
                "end it in its program, or with `select pg_terminate_backend(PID)`; set idle_in_transaction_session_timeout"
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
            "the functions".to_owned()
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
                "run `windlass migrate` with the newest release that uses this database",
            )),
            Some(_) => findings.push(danger(
                "schema",
                format!("{what} was installed with other contents"),
                "this program and the database come from different sources: use the release that migrated it",
            )),
        }
    }
    let newest = facts.expected.iter().map(|one| one.version).max().unwrap_or(0);
    let ahead = facts.installed.iter().filter(|one| one.version > newest).count();
    if ahead > 0 {
        findings.push(warning(
            "schema",
            format!("the database is {ahead} migrations ahead of this program"),
            "upgrade this program when the roll-out is through",
        ));
    } else if !facts.altered_functions.is_empty() && findings.len() == before {
        findings.push(danger(
            "schema",
            format!("changed by hand: {}", facts.altered_functions.join(", ")),
            "put the release's functions back: `delete from windlass.installed_functions`, then `windlass migrate`",
        ));
    }
    for damage in &facts.damage {
        let advice = match damage.kind.as_str() {
            "invalid index" => "drop it and create it again concurrently (`reindex index concurrently`)",
            _ => "enable and force row level security on it: tenants can read each other's rows in it",
        };
        findings.push(danger("schema", format!("{} {}", damage.kind, damage.name), advice));
    }
    if findings.len() == before {
        findings.push(fine(
            "schema",
            format!("version {newest}, as this release expects, and nothing changed by hand"),
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
                "{} has {} dead rows beside {} live ones ({} MB), vacuumed {vacuumed}",
                table.name,
                table.dead_rows,
                table.live_rows,
                table.bytes / (1024 * 1024)
            ),
            format!(
                "end what holds them (see transactions), then `vacuum (verbose) windlass.{}`",
                table.name
            ),
        ));
    }
    if findings.len() == before {
        findings.push(fine("bloat", "no table has more dead rows than autovacuum keeps up with"));
    }
}

fn workers(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    let alive = facts.workers.iter().filter(|worker| worker.is_alive).count();
    if alive == 0 {
        findings.push(warning(
            "workers",
            "no worker is alive",
            "start one: `windlass worker`, or an application that embeds one",
        ));
    } else {
        findings.push(fine("workers", format!("{alive} alive")));
    }
    for worker in facts.workers.iter().filter(|worker| !worker.is_alive) {
        findings.push(warning(
            "stale workers",
            format!(
                "{} fell silent {} ago without a goodbye, with {} jobs in hand",
                worker.worker_id,
                spell(worker.silent_seconds),
                worker.running_count
            ),
            "look at that machine (killed, out of memory, cut off?); its jobs are taken back by the reaper",
        ));
    }
}

fn stuck(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    findings.extend(facts.stuck.iter().map(stuck_one));
    if !facts.stuck.iter().any(|stuck| !matches!(stuck.kind.as_str(), "paused" | "tenant")) {
        findings.push(fine("stuck jobs", "none"));
    }
}

fn stuck_one(stuck: &Stuck) -> Finding {
    let (jobs, age) = (stuck.jobs, spell(stuck.age_seconds));
    let keeper = "no keeper does this duty: run `windlass keeper`, or a worker without `--no-keeper`; its log says why it fails";
    match stuck.kind.as_str() {
        "promote" => danger(
            "stuck jobs",
            format!("{jobs} jobs are due since up to {age} and were not promoted"),
            keeper,
        ),
        "expire" => danger(
            "stuck jobs",
            format!("{jobs} deadlines passed up to {age} ago and nothing happened"),
            keeper,
        ),
        "fold" => warning("stuck jobs", format!("{jobs} counter rows wait to be folded"), keeper),
        "reap" => danger(
            "stuck jobs",
            format!("{jobs} jobs of {}, dead since {age}, were not taken back", stuck.name),
            keeper,
        ),
        "unblock" => danger(
            "stuck jobs",
            format!("{jobs} jobs ended up to {age} ago and those that wait for them were not released"),
            keeper,
        ),
        "unknown run" => warning(
            "stuck jobs",
            format!(
                "{} is alive and holds {jobs} jobs more than it says it runs, for up to {age}",
                stuck.name
            ),
            "if that stays so, stop that worker: its jobs are taken back at once; please report it",
        ),
        "tenant" => warning(
            "deleted tenants",
            format!("the deletion of {} cannot go on", stuck.name),
            "release what is under legal hold, or see the keeper's log for the error; other tenants are not affected",
        ),
        "partition" => {
            warning("partitions", format!("next week's (from {}) is not there yet", stuck.name), keeper)
        }
        "paused" => warning(
            "paused queues",
            format!("queue {} is paused since {age}, with {jobs} jobs in line", stuck.name),
            format!("`windlass queues resume {}` when it may go on", stuck.name),
        ),
        _ => danger(
            "stuck jobs",
            format!("{jobs} jobs of {} are in line and no live worker knows that key", stuck.name),
            format!(
                "start a worker that has `{}`, or cancel them: `windlass jobs cancel --definition {}`",
                stuck.name, stuck.name
            ),
        ),
    }
}

fn listening(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    let alive = facts.workers.iter().filter(|worker| worker.is_alive).count();
    findings.push(if !facts.is_heard {
        danger(
            "listen",
            "a notification sent to ourselves did not arrive",
            "the direct address leads to a transaction pooler: set `database.direct_url` to the server itself",
        )
    } else if alive > 0 && facts.listeners == 0 && !facts.server.is_blind {
        warning(
            "listen",
            format!("{alive} workers are alive and no session listens"),
            "they find work by polling only, a second late: set `database.direct_url` where they run, and see their logs",
        )
    } else {
        let pooled = if facts.is_pooled { ", statements go through a pooler" } else { "" };
        fine("listen", format!("notifications arrive; {} sessions listen{pooled}", facts.listeners))
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
