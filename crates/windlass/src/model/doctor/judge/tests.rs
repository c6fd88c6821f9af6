use super::{Severity, judge, spell};
use crate::model::doctor::facts::DatabaseFacts;
use crate::model::doctor::facts::{Holder, Server, Stuck, TableFacts, WorkerFacts};

fn healthy() -> DatabaseFacts {
    let server = Server { version: 150_018, most_connections: 100, has_schema: true, ..Server::default() };
    DatabaseFacts { server, notification_arrives: true, ..DatabaseFacts::default() }
}

fn worst(facts: &DatabaseFacts, check: &str) -> Severity {
    let found = judge(facts).into_iter().filter(|finding| finding.check == check);
    found.map(|finding| finding.severity).max().unwrap_or(Severity::Fine)
}

#[test]
fn every_finding_except_ok_gives_advice() {
    let mut facts = healthy();
    facts.server.settings = vec![("fsync".into(), "off".into()), ("autovacuum".into(), "off".into())];
    facts.server.connections = 95;
    for kind in [
        "promote",
        "expire",
        "fold",
        "reap",
        "unblock",
        "unknown run",
        "tenant",
        "retention",
        "partition",
        "paused",
        "unknown key",
    ] {
        facts.stuck.push(Stuck { kind: kind.into(), name: "x".into(), jobs: 1, age_seconds: 9 });
    }
    let findings = judge(&facts);
    assert!(findings.len() > 10);
    for finding in findings {
        assert_eq!(finding.advice.is_none(), finding.severity == Severity::Fine, "{finding:?}");
    }
}

#[test]
fn a_database_without_our_schema_gets_only_that_finding() {
    let mut facts = healthy();
    facts.server.has_schema = false;
    assert_eq!(worst(&facts, "schema"), Severity::Danger);
    assert_eq!(judge(&facts).last().map(|finding| finding.check), Some("schema"));
}

#[test]
fn an_open_transaction_is_a_warning_and_a_forgotten_one_a_danger() {
    for (age, severity) in [(10, Severity::Fine), (400, Severity::Warning), (5000, Severity::Danger)] {
        let mut facts = healthy();
        let (kind, who, doing) = ("transaction".into(), "pid 1".into(), "idle".into());
        facts.holders = vec![Holder { kind, who, age_seconds: Some(age), doing }];
        assert_eq!(worst(&facts, "transactions"), severity, "{age}");
    }
}

#[test]
fn ages_are_shown_in_one_unit() {
    assert_eq!([90, 121, 7200, 200_000].map(spell), ["90 s", "2 min", "2 h", "2 days"]);
}

#[test]
fn each_setting_that_endangers_durability_is_named_with_its_remedy() {
    for (name, value, severity) in [
        ("fsync", "off", Severity::Danger),
        ("full_page_writes", "off", Severity::Danger),
        ("synchronous_commit", "off", Severity::Warning),
        ("zero_damaged_pages", "on", Severity::Danger),
        ("ignore_checksum_failure", "on", Severity::Danger),
        ("autovacuum", "off", Severity::Danger),
        ("track_counts", "off", Severity::Danger),
        ("default_transaction_read_only", "on", Severity::Danger),
    ] {
        let mut facts = healthy();
        facts.server.settings = vec![(name.into(), value.into())];
        let found = judge(&facts).into_iter().find(|finding| finding.check == "durability").unwrap();
        assert_eq!(found.severity, severity, "{name}");
        assert!(found.found.starts_with(&format!("{name} = {value}:")), "{found:?}");
        assert!(found.advice.unwrap().contains(&format!("alter system set {name}")));
    }
    let mut facts = healthy();
    facts.server.settings =
        vec![("fsync".into(), "on".into()), ("synchronous_commit".into(), "local".into())];
    assert_eq!(worst(&facts, "durability"), Severity::Fine);
}

#[test]
fn many_dead_rows_are_bloat_and_a_few_are_not() {
    for (live_rows, dead_rows, severity) in
        [(10, 99_999, Severity::Fine), (80_000, 150_000, Severity::Fine), (10, 150_000, Severity::Warning)]
    {
        let mut facts = healthy();
        let (name, bytes, vacuumed_seconds) = ("live".into(), 1 << 20, None);
        facts.tables = vec![TableFacts { name, live_rows, dead_rows, bytes, vacuumed_seconds }];
        assert_eq!(worst(&facts, "bloat"), severity, "{dead_rows} beside {live_rows}");
    }
}

#[test]
fn a_prepared_transaction_and_an_unused_slot_get_advice() {
    for (kind, age, word) in [
        ("prepared transaction", Some(4000), "rollback prepared"),
        ("replication slot", None, "pg_drop_replication_slot"),
    ] {
        let mut facts = healthy();
        let (who, doing) = ("x".into(), "waits".into());
        facts.holders = vec![Holder { kind: kind.into(), who, age_seconds: age, doing }];
        let found = judge(&facts).into_iter().find(|finding| finding.check == "transactions").unwrap();
        assert_eq!(found.severity, Severity::Danger);
        assert!(found.advice.unwrap().contains(word));
    }
}

#[test]
fn listen_fails_if_nothing_arrives_and_warns_without_listeners() {
    let mut facts = healthy();
    facts.notification_arrives = false;
    assert_eq!(worst(&facts, "listen"), Severity::Danger);
    let mut facts = healthy();
    let worker_id = "w".into();
    facts.workers = vec![WorkerFacts { worker_id, silent_seconds: 0, running_count: 0, is_alive: true }];
    assert_eq!(worst(&facts, "listen"), Severity::Warning);
    facts.listeners = 1;
    assert_eq!(worst(&facts, "listen"), Severity::Fine);
}

#[test]
fn the_requirements_of_the_server_are_checked_first() {
    let mut facts = healthy();
    facts.server.version = 140_012;
    assert_eq!(worst(&facts, "server"), Severity::Danger, "X-06: an old server");
    facts.server.version = 160_003;
    assert_eq!(worst(&facts, "server"), Severity::Warning, "X-06: one that lacks fixes");
    facts = healthy();
    facts.server.is_replica = true;
    assert_eq!(worst(&facts, "server"), Severity::Danger);
    facts = healthy();
    facts.clock_off_ms = 5000;
    assert_eq!(worst(&facts, "clock"), Severity::Warning);
    facts = healthy();
    facts.server.transaction_age = 1_500_000_000;
    assert_eq!(worst(&facts, "wraparound"), Severity::Danger);
    facts = healthy();
    facts.server.notification_queue = 0.5;
    assert_eq!(worst(&facts, "notifications"), Severity::Warning);
}

#[test]
fn advice_about_jobs_without_a_handler_names_the_tenant_option() {
    for (jobs, words) in [(1, "1 job is queued for resize"), (4, "4 jobs are queued for resize")] {
        let mut facts = healthy();
        facts.stuck = vec![Stuck { kind: "unknown key".into(), name: "resize".into(), jobs, age_seconds: 0 }];
        let found = judge(&facts).into_iter().find(|finding| finding.check == "stuck jobs").unwrap();
        assert!(found.found.starts_with(words), "{found:?}");
        assert!(found.advice.unwrap().contains("--definition resize --tenant TENANT"));
    }
}

#[test]
fn a_skipped_tenant_is_named_once() {
    let id = uuid::Uuid::from_u128(7);
    let mut facts = healthy();
    let (duty, subject, reason) = ("purge_tenants".to_owned(), id.to_string(), "held".to_owned());
    facts.problems =
        vec![crate::model::record::Problem { duty, tenant_id: Some(id), subject, reason, since: None }];
    let found = judge(&facts).into_iter().find(|finding| finding.check == "skipped rows").unwrap();
    assert_eq!(found.found.matches(&id.to_string()).count(), 1, "{found:?}");
}
