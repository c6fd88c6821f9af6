//! Queue depths as Prometheus text.

use std::collections::BTreeMap;
use std::fmt::Write;

use uuid::Uuid;
use windlass::{Counts, State};

/// The series written here; `docs/telemetry.md` lists the same, and a test compares the two.
pub const METRICS: &[(&str, &str)] = &[
    ("windlass_jobs", "jobs now, by queue and status"),
    ("windlass_tenant_jobs", "jobs now, by tenant and status, for the largest tenants and `other`"),
];

type Depths<'a> = BTreeMap<&'a str, [i64; State::ALL.len()]>;

/// Jobs by queue and status; and, for the `most` tenants with the most unfinished jobs, by tenant and status. However many
/// tenants there are, at most `most + 1` have series.
#[must_use]
pub fn depths(counts: &[Counts], most: usize) -> String {
    let mut by_queue = Depths::new();
    for row in counts {
        add(by_queue.entry(&row.queue).or_default(), row);
    }
    let mut text = String::new();
    write(&mut text, METRICS[0], "queue", &by_queue);
    if most == 0 {
        return text;
    }

    let mut unfinished: BTreeMap<Uuid, i64> = BTreeMap::new();
    for row in counts {
        let open = State::ALL.iter().filter(|state| !state.is_terminal()).map(|state| row.of(*state));
        *unfinished.entry(row.tenant_id).or_default() += open.sum::<i64>();
    }
    let mut ranked: Vec<(Uuid, i64)> = unfinished.into_iter().collect();
    ranked.sort_by_key(|(tenant, open)| (std::cmp::Reverse(*open), *tenant));
    let named: BTreeMap<Uuid, String> =
        ranked.into_iter().take(most).map(|(tenant, _)| (tenant, tenant.to_string())).collect();
    let mut by_tenant = Depths::new();
    for row in counts {
        let name = named.get(&row.tenant_id).map_or("other", String::as_str);
        add(by_tenant.entry(name).or_default(), row);
    }
    write(&mut text, METRICS[1], "tenant", &by_tenant);
    text
}

fn add(sum: &mut [i64; State::ALL.len()], row: &Counts) {
    for (place, state) in sum.iter_mut().zip(State::ALL) {
        *place += row.of(state);
    }
}

fn write(text: &mut String, (name, meaning): (&str, &str), label: &str, depths: &Depths<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} gauge");
    for (value, counts) in depths {
        for (count, state) in counts.iter().zip(State::ALL) {
            let _ = writeln!(text, "{name}{{{label}=\"{}\",status=\"{state}\"}} {count}", escape(value));
        }
    }
    text.push('\n');
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::{depths, escape};

    #[test]
    fn a_label_cannot_break_out_of_its_quotes() {
        assert_eq!(escape("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }

    #[test]
    fn without_jobs_the_series_are_only_described() {
        assert_eq!(depths(&[], 5).matches("# TYPE").count(), 2);
        assert!(!depths(&[], 0).contains("tenant"));
    }
}
