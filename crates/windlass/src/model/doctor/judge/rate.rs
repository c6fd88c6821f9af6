//! Settings of the server that do not fit the rate at which the installation worked in its busiest minute.

use super::{fine, warning};
use crate::model::doctor::Finding;
use crate::model::doctor::facts::DatabaseFacts;

/// With fewer jobs the defaults of Postgres are enough.
const BUSY_PER_SECOND: f64 = 500.0;
/// What a job writes in its whole life, with some output and some full pages; `windlass-bench scale` prints it for the smallest jobs.
const WAL_BYTES_PER_JOB: f64 = 1500.0;
/// What stays of it in tables that vacuum has to read and mark once.
const TABLE_BYTES_PER_JOB: f64 = 600.0;
/// A checkpoint that comes earlier writes many pages twice: once into the log, whole, and once into their table.
const CHECKPOINT_SECONDS: f64 = 300.0;
/// Postgres starts a checkpoint when the log has grown to about half of `max_wal_size`.
const WAL_SHARE: f64 = 0.5;
/// The hot tables collect some hundred thousand dead rows in this time.
const MOST_NAPTIME_SECONDS: f64 = 60.0;
/// The cost of a page that vacuum changes, as in the documentation of Postgres.
const PAGE_COST: f64 = 20.0;
const PAGE_BYTES: f64 = 8192.0;
/// Every commit beside others waits this long.
const MOST_COMMIT_DELAY_MICROSECONDS: f64 = 1000.0;
const MEGABYTE: f64 = 1024.0 * 1024.0;

pub(super) fn judge(facts: &DatabaseFacts, findings: &mut Vec<Finding>) {
    let rate = facts.jobs_per_second;
    let at = format!("{rate:.0} jobs/s in the busiest minute of the last day");
    if rate < BUSY_PER_SECOND {
        findings.push(fine("rate", format!("{at}; the settings of the server are not critical")));
        return;
    }
    let before = findings.len();
    let setting = |name: &str| {
        let value = facts.server.settings.iter().find(|(known, _)| known == name);
        value.and_then(|(_, value)| value.parse::<f64>().ok())
    };
    if let Some(megabytes) = setting("max_wal_size") {
        let timeout = setting("checkpoint_timeout").unwrap_or(CHECKPOINT_SECONDS);
        let filled_in = megabytes * MEGABYTE * WAL_SHARE / (rate * WAL_BYTES_PER_JOB);
        if filled_in < timeout.min(CHECKPOINT_SECONDS) {
            let settings = &facts.server.settings;
            let is_plain = settings.iter().any(|(name, value)| name == "wal_compression" && value == "off");
            let meanwhile =
                if is_plain { "; until then, `wal_compression = lz4` makes whole pages smaller" } else { "" };
            let needed = rate * WAL_BYTES_PER_JOB * CHECKPOINT_SECONDS / WAL_SHARE / MEGABYTE / 1024.0;
            findings.push(warning(
                "rate",
                format!(
                    "max_wal_size = {megabytes:.0} MB: at {at}, a checkpoint starts every {filled_in:.0} s"
                ),
                format!(
                    "`alter system set max_wal_size = '{}GB'` and reload the configuration{meanwhile}",
                    needed.ceil()
                ),
            ));
        }
    }
    if let Some(delay) = setting("commit_delay").filter(|&delay| delay > MOST_COMMIT_DELAY_MICROSECONDS) {
        findings.push(warning(
            "rate",
            format!("commit_delay = {delay:.0} us: every enqueue, claim and end beside others waits for it"),
            "`alter system set commit_delay = 0` and reload the configuration: windlass writes many jobs per commit",
        ));
    }
    if let Some(naptime) = setting("autovacuum_naptime").filter(|&naptime| naptime > MOST_NAPTIME_SECONDS) {
        findings.push(warning(
            "rate",
            format!(
                "autovacuum_naptime = {naptime:.0} s: dead rows of the hot tables stay that long, at {at}"
            ),
            "`alter system set autovacuum_naptime = '30s'` and reload the configuration",
        ));
    }
    if let Some(workers) = setting("autovacuum_max_workers").filter(|&workers| workers < 2.0) {
        findings.push(warning(
            "rate",
            format!(
                "autovacuum_max_workers = {workers:.0}: the hot tables wait while a large one is vacuumed"
            ),
            "`alter system set autovacuum_max_workers = 3` and restart the server",
        ));
    }
    if let Some(bytes) = vacuumed_per_second(&setting).filter(|&bytes| bytes < rate * TABLE_BYTES_PER_JOB) {
        findings.push(warning(
            "rate",
            format!("autovacuum may change {:.1} MB/s, and jobs write more at {at}", bytes / MEGABYTE),
            "`alter system set autovacuum_vacuum_cost_limit = 2000` and reload the configuration",
        ));
    }
    if findings.len() == before {
        findings.push(fine("rate", format!("{at}; the settings of the server fit")));
    }
}

/// What one autovacuum may change; nothing if it is not limited. -1 stands for the setting of a manual vacuum.
fn vacuumed_per_second(setting: &impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let either =
        |one: &str, other: &str| setting(one).filter(|&value| value >= 0.0).or_else(|| setting(other));
    let limit = either("autovacuum_vacuum_cost_limit", "vacuum_cost_limit")?;
    let milliseconds =
        either("autovacuum_vacuum_cost_delay", "vacuum_cost_delay").filter(|&delay| delay > 0.0)?;
    Some(limit / PAGE_COST * PAGE_BYTES / (milliseconds / 1000.0))
}

#[cfg(test)]
mod tests {
    use super::super::{Severity, judge};
    use crate::model::doctor::facts::{DatabaseFacts, Server};

    /// The defaults of Postgres 15, in the units of `pg_settings`, with changes.
    fn found(jobs_per_second: f64, changes: &[(&str, &str)]) -> Vec<(Severity, String)> {
        let defaults = [
            ("max_wal_size", "1024"),
            ("checkpoint_timeout", "300"),
            ("wal_compression", "off"),
            ("commit_delay", "0"),
            ("autovacuum_naptime", "60"),
            ("autovacuum_max_workers", "3"),
            ("autovacuum_vacuum_cost_delay", "2"),
            ("autovacuum_vacuum_cost_limit", "-1"),
            ("vacuum_cost_delay", "0"),
            ("vacuum_cost_limit", "200"),
        ];
        let mut settings: Vec<(String, String)> =
            defaults.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        for (name, value) in changes {
            settings.retain(|(known, _)| known != name);
            settings.push(((*name).to_owned(), (*value).to_owned()));
        }
        let server = Server {
            version: 150_018,
            most_connections: 100,
            has_schema: true,
            settings,
            ..Server::default()
        };
        let facts =
            DatabaseFacts { server, notification_arrives: true, jobs_per_second, ..DatabaseFacts::default() };
        let findings = judge(&facts).into_iter().filter(|finding| finding.check == "rate");
        findings
            .map(|finding| {
                (finding.severity, format!("{} {}", finding.found, finding.advice.unwrap_or_default()))
            })
            .collect()
    }

    #[test]
    fn a_small_rate_needs_no_settings() {
        let found = found(499.0, &[("max_wal_size", "64"), ("autovacuum_naptime", "600")]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, Severity::Fine);
    }

    #[test]
    fn the_log_must_hold_five_minutes_of_the_rate() {
        assert_eq!(found(600.0, &[])[0].0, Severity::Fine);
        let low = found(5000.0, &[]);
        assert_eq!((low.len(), low[0].0), (1, Severity::Warning));
        assert!(low[0].1.contains("a checkpoint starts every 72 s") && low[0].1.contains("'5GB'"), "{low:?}");
        assert!(low[0].1.contains("wal_compression = lz4"), "{low:?}");
        assert!(!found(5000.0, &[("wal_compression", "lz4")])[0].1.contains("wal_compression"));
        assert_eq!(found(5000.0, &[("max_wal_size", "8192")])[0].0, Severity::Fine);
    }

    #[test]
    fn each_setting_that_does_not_fit_is_named() {
        for (name, value) in [
            ("commit_delay", "5000"),
            ("autovacuum_naptime", "300"),
            ("autovacuum_max_workers", "1"),
            ("autovacuum_vacuum_cost_limit", "1"),
            ("autovacuum_vacuum_cost_delay", "100"),
        ] {
            let found = found(5000.0, &[("max_wal_size", "8192"), (name, value)]);
            assert_eq!((found.len(), found[0].0), (1, Severity::Warning), "{name}: {found:?}");
            let named = if name.contains("cost") { "autovacuum_vacuum_cost_limit" } else { name };
            assert!(found[0].1.contains(named), "{found:?}");
        }
        let unlimited = [("max_wal_size", "8192"), ("autovacuum_vacuum_cost_delay", "0")];
        assert_eq!(found(50_000.0, &[unlimited[0], unlimited[1]]).len(), 1, "only the log");
    }
}
