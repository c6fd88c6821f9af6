//! Queue depths as Prometheus text.

use std::collections::BTreeMap;
use std::fmt::Write;

use uuid::Uuid;
use windlass::{Overview, Summary};

/// The series written here; `docs/telemetry.md` lists the same, and a test compares the two.
pub const METRICS: &[(&str, &str)] = &[
    ("windlass_jobs", "jobs now, by queue and status"),
    ("windlass_oldest_queued_seconds", "how long the job that is queued longest could have run, by queue"),
    (
        "windlass_jobs_enqueued_total",
        "jobs that ever came in, by definition_key, whoever enqueued them: a program, SQL, a trigger, another job",
    ),
    ("windlass_tenant_jobs", "jobs now, by tenant and status, for the largest tenants and `other`"),
];

/// Jobs by queue and status; and, for the `most` tenants with the most unfinished jobs, by tenant and status. However many
/// tenants there are, at most `most + 1` have series.
#[must_use]
pub fn depths(overview: &Overview, most: usize) -> String {
    let mut text = String::new();
    describe(&mut text, METRICS[0]);
    for (queue, summary) in &overview.queues {
        write_counts(&mut text, METRICS[0].0, "queue", queue, &counts(summary));
    }
    describe(&mut text, METRICS[1]);
    for (queue, summary) in &overview.queues {
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
        for (tenant, counts) in largest(&overview.tenants, most) {
            write_counts(&mut text, METRICS[3].0, "tenant", &tenant, &counts);
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

/// Those with the most work before them by name, the others as one.
fn largest(tenants: &BTreeMap<Uuid, Summary>, most: usize) -> Vec<(String, Statuses)> {
    let mut ranked: Vec<(&Uuid, &Summary)> = tenants.iter().collect();
    let unfinished =
        |summary: &Summary| summary.scheduled + summary.blocked + summary.queued + summary.running;
    ranked.sort_by_key(|(tenant, summary)| (std::cmp::Reverse(unfinished(summary)), **tenant));
    let rest = ranked.split_off(most.min(ranked.len()));
    let mut shown: Vec<(String, Statuses)> =
        ranked.into_iter().map(|(tenant, summary)| (tenant.to_string(), counts(summary))).collect();
    let mut other = counts(&Summary::default());
    for (_, summary) in &rest {
        for (sum, (_, count)) in other.iter_mut().zip(counts(summary)) {
            sum.1 += count;
        }
    }
    if !rest.is_empty() {
        shown.push(("other".to_owned(), other));
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
    use windlass::Overview;

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
}
