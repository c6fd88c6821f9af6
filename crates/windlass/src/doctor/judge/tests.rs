use super::{Severity, judge, spell};
use crate::doctor::facts::{Facts, Holder, Server, Stuck};

fn healthy() -> Facts {
    let server = Server { version: 150_000, most_connections: 100, has_schema: true, ..Server::default() };
    Facts { server, is_heard: true, ..Facts::default() }
}

fn worst(facts: &Facts, check: &str) -> Severity {
    let found = judge(facts).into_iter().filter(|finding| finding.check == check);
    found.map(|finding| finding.severity).max().unwrap_or(Severity::Fine)
}

#[test]
fn everything_but_fine_says_what_to_do() {
    let mut facts = healthy();
    facts.server.settings = vec![("fsync".into(), "off".into()), ("autovacuum".into(), "off".into())];
    facts.server.connections = 95;
    for kind in ["promote", "expire", "fold", "reap", "partition", "paused", "unknown key"] {
        facts.stuck.push(Stuck { kind: kind.into(), name: "x".into(), jobs: 1, age_seconds: 9 });
    }
    let findings = judge(&facts);
    assert!(findings.len() > 10);
    for finding in findings {
        assert_eq!(finding.advice.is_none(), finding.severity == Severity::Fine, "{finding:?}");
    }
}

#[test]
fn a_database_without_our_schema_is_told_so_and_nothing_more_is_guessed() {
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
fn ages_are_spelled_in_one_unit() {
    assert_eq!([90, 121, 7200, 200_000].map(spell), ["90 s", "2 min", "2 h", "2 days"]);
}
