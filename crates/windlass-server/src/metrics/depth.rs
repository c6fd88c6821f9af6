//! Job counts as Prometheus text.

use std::collections::BTreeMap;
use std::fmt::Write;

use windlass::admin::{Overview, Summary};

/// The series written here; `docs/telemetry.md` lists the same, and a test compares the two.
pub const METRICS: &[(&str, &str)] = &[
    (
        "windlass_jobs",
        "current jobs, by queue and status, for the 100 queues with the most unfinished jobs and `other`",
    ),
    (
        "windlass_oldest_queued_seconds",
        "how long the oldest queued job has been due, by queue, for the same queues",
    ),
    (
        "windlass_jobs_enqueued_total",
        "all jobs ever enqueued, by definition_key, from any source: programs, SQL, triggers, other jobs",
    ),
    ("windlass_tenant_jobs", "current jobs, by tenant and status, for the largest tenants and `other`"),
];

/// The number of queues with their own series. Tenants choose queue names, so there can be any number of queues.
const MAX_QUEUES: usize = 100;
const OTHER: &str = "other";

/// Jobs by queue and status, for the queues with the most unfinished jobs; and the same for the `most` largest tenants. The rest is
/// counted as `other`, so that the number of series is limited.
#[must_use]
pub(crate) fn depths(overview: &Overview, most: usize) -> String {
    let mut text = String::new();
    let queues = largest(&overview.queues, MAX_QUEUES);
    describe(&mut text, METRICS[0]);
    for (queue, summary) in &queues {
        write_counts(&mut text, METRICS[0].0, "queue", queue, &counts(summary));
    }
    describe(&mut text, METRICS[1]);
    for (queue, summary) in &queues {
        let age = summary.oldest_queued_age_seconds.unwrap_or(0.0).max(0.0);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}{{queue=\"{}\"}} {age}", METRICS[1].0, escape(queue));
    }
    describe(&mut text, METRICS[2]);
    for (key, count) in &overview.enqueued {
        let _ = writeln!(text, "{}{{definition_key=\"{}\"}} {count}", METRICS[2].0, escape(key));
    }
    if most > 0 {
        describe(&mut text, METRICS[3]);
        for (tenant, summary) in largest(&overview.tenants, most) {
            write_counts(&mut text, METRICS[3].0, "tenant", &tenant, &counts(&summary));
        }
    }
    text
}

type Statuses = [(&'static str, i64); 8];

fn counts(summary: &Summary) -> Statuses {
    [
        ("scheduled", summary.scheduled),
        ("blocked", summary.blocked),
        ("queued", summary.queued),
        ("running", summary.running),
        ("succeeded", summary.succeeded),
        ("failed", summary.failed),
        ("dead_letter", summary.dead_letter),
        ("canceled", summary.canceled),
    ]
}

/// Those with the most unfinished jobs by name, and the sum of the rest as `other`. One that is itself named `other` belongs to the
/// rest: two series must not have the same labels.
fn largest<K: Ord + ToString>(all: &BTreeMap<K, Summary>, most: usize) -> Vec<(String, Summary)> {
    let unfinished =
        |summary: &Summary| summary.scheduled + summary.blocked + summary.queued + summary.running;
    let mut ranked: Vec<(String, &Summary)> =
        all.iter().map(|(name, summary)| (name.to_string(), summary)).collect();
    ranked.sort_by(|(name, a), (other, b)| {
        let order = |name: &str, summary: &Summary| (name == OTHER, std::cmp::Reverse(unfinished(summary)));
        order(name, a).cmp(&order(other, b)).then_with(|| name.cmp(other))
    });
    let named = ranked.iter().take(most).take_while(|(name, _)| name != OTHER).count();
    let rest = ranked.split_off(named);
    let mut shown: Vec<(String, Summary)> =
        ranked.into_iter().map(|(name, summary)| (name, summary.clone())).collect();
    if !rest.is_empty() {
        let mut other = Summary::default();
        for (_, summary) in rest {
            other.merge(summary);
        }
        shown.push((OTHER.to_owned(), other));
    }
    shown
}

fn describe(text: &mut String, (name, meaning): (&str, &str)) {
    let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
    let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} {kind}");
}

fn write_counts(text: &mut String, name: &str, label: &str, value: &str, counts: &Statuses) {
    for (status, count) in counts {
        let _ = writeln!(text, "{name}{{{label}=\"{}\",status=\"{status}\"}} {count}", escape(value));
    }
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use windlass::admin::{Overview, Summary};

    use super::{depths, escape};

    #[test]
    fn a_label_cannot_break_out_of_its_quotes() {
        assert_eq!(escape("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }

    #[test]
    fn without_jobs_the_series_are_only_described() {
        assert_eq!(depths(&Overview::default(), 5).matches("# TYPE").count(), 4);
        assert!(!depths(&Overview::default(), 0).contains("tenant"));
    }

    #[test]
    fn thirty_thousand_queues_create_at_most_a_hundred_and_one_series() {
        let mut overview = Overview::default();
        for n in 0..30_000_u32 {
            let mut summary = Summary::default();
            summary.queued = i64::from(n);
            summary.oldest_queued_age_seconds = Some(f64::from(n));
            overview.queues.insert(format!("q{n}"), summary);
        }
        let mut other = Summary::default();
        other.queued = 1_000_000;
        overview.queues.insert("other".to_owned(), other);
        let text = depths(&overview, 5);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines.len(), 101 * 8 + 101);
        assert!(lines.contains(&r#"windlass_jobs{queue="q29999",status="queued"} 29999"#));
        let below: i64 = (0..29_900).sum();
        let other = format!(r#"windlass_jobs{{queue="other",status="queued"}} {}"#, below + 1_000_000);
        assert!(lines.contains(&&*other), "{other}");
        assert!(lines.contains(&r#"windlass_oldest_queued_seconds{queue="other"} 29899"#));
        let different: std::collections::BTreeSet<&str> =
            lines.iter().map(|line| line.rsplit_once(' ').unwrap().0).collect();
        assert_eq!(different.len(), lines.len(), "two series have the same labels");
    }
}
