//! The numbers people read first. One that is fine is quiet; one that needs a person says what to do and leads there.

use windlass::{Counts, State};

use super::when::span;

pub(crate) struct Card {
    pub(crate) key: &'static str,
    pub(crate) name: &'static str,
    pub(crate) shape: &'static str,
    pub(crate) value: String,
    pub(crate) beside: String,
    pub(crate) tone: &'static str,
    pub(crate) href: String,
}

/// What the cards are made from.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) oldest_queued: Option<f64>,
    pub(crate) workers: Option<i64>,
    /// Attempts of the last hour.
    pub(crate) succeeded_lately: i64,
    pub(crate) failed_lately: i64,
    pub(crate) p95_wait: Option<f64>,
}

/// A wait that somebody should look at.
const SLOW: f64 = 60.0;

pub(crate) fn cards(counts: &[Counts], facts: &Facts, href: impl Fn(State) -> String) -> Vec<Card> {
    let total = |state: State| counts.iter().map(|each| each.of(state)).sum::<i64>();
    let card = |key, name, shape, state: State, beside: String, tone| Card {
        key,
        name,
        shape,
        value: grouped(total(state)),
        beside,
        tone: if total(state) == 0 { "calm" } else { tone },
        href: href(state),
    };
    let is_slow = facts.oldest_queued.is_some_and(|age| age > SLOW);
    let oldest = facts.oldest_queued.map(|age| format!("oldest {}", span(age))).unwrap_or_default();
    let workers = facts
        .workers
        .map(|count| if count == 1 { "on 1 worker".to_owned() } else { format!("on {count} workers") });
    let rate = facts.failed_lately as f64 / (facts.failed_lately + facts.succeeded_lately).max(1) as f64;
    let failing = match facts.failed_lately {
        0 => "no failed attempt in 1 h".to_owned(),
        some => format!("{} attempts in 1 h, {}", grouped(some), percent(rate)),
    };
    let dead = if total(State::DeadLetter) > 0 { "see what they died of" } else { "" };
    let dead = Card {
        href: "/ui/dead-letters".to_owned(),
        ..card("dead", "Dead letters", "square", State::DeadLetter, dead.to_owned(), "bad")
    };
    let waits = Card {
        key: "wait",
        name: "Wait, p95",
        shape: "clock",
        value: facts.p95_wait.map_or_else(|| "–".to_owned(), span),
        beside: "before the first start".to_owned(),
        tone: match facts.p95_wait {
            None => "calm",
            Some(wait) if wait > SLOW => "slow",
            Some(_) => "",
        },
        href: "/ui/queues".to_owned(),
    };
    let lately = format!("{} in 1 h", grouped(facts.succeeded_lately));
    vec![
        card("queued", "Queued", "ring", State::Queued, oldest, if is_slow { "slow" } else { "" }),
        card("running", "Running", "turn", State::Running, workers.unwrap_or_default(), ""),
        waits,
        card("scheduled", "Scheduled", "clock", State::Scheduled, String::new(), ""),
        card("failed", "Failed", "cross", State::Failed, failing, "bad"),
        dead,
        card("succeeded", "Succeeded", "tick", State::Succeeded, lately, ""),
    ]
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 1.0 { "under 1 %".to_owned() } else { format!("{percent:.0} %") }
}

/// `1 284 033`, with thin spaces that do not break.
pub(crate) fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    if number < 0 { format!("-{out}") } else { out }
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(
            [0, 999, 1284, 1_284_033, -12_345].map(grouped),
            ["0", "999", "1\u{202f}284", "1\u{202f}284\u{202f}033", "-12\u{202f}345"]
        );
    }
}
