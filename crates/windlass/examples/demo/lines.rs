//! The view as plain lines, for logs and pipes, and the summary at the end.

use std::io::{self, Write};

use windlass::State;

use crate::figures::{Figures, Row};

/// One line per tenant.
pub(crate) fn tick(figures: &Figures, out: &mut impl Write) -> io::Result<()> {
    let totals = figures.totals();
    for tenant in figures.tenants() {
        if let Some(total) = totals.get(&tenant.id) {
            writeln!(
                out,
                "{:>4} s  {:<12} {}",
                figures.started.elapsed().as_secs(),
                tenant.name,
                counts(total, |_| true)
            )?;
        }
    }
    out.flush()
}

/// What was done and what is left.
pub(crate) fn summary(figures: &Figures, out: &mut impl Write) -> io::Result<()> {
    let totals = figures.totals();
    for tenant in figures.tenants() {
        let Some(total) = totals.get(&tenant.id) else { continue };
        let left = counts(total, |state| !state.is_terminal());
        writeln!(
            out,
            "{:<12} {} finished ({}); left: {}",
            tenant.name,
            total.finished(),
            counts(total, State::is_terminal),
            if left.is_empty() { "nothing" } else { &left }
        )?;
    }
    writeln!(out, "what is left waits in the database and goes on with the next start")?;
    out.flush()
}

/// `queued 3, running 1`: the states that were asked for and are not empty.
fn counts(row: &Row, wanted: impl Fn(State) -> bool) -> String {
    let shown = State::ALL.into_iter().filter(|state| wanted(*state) && row.count(*state) != 0);
    shown.map(|state| format!("{state} {}", row.count(state))).collect::<Vec<_>>().join(", ")
}
