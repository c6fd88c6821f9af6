//! The table on the terminal: a line for each figure as soon as it is measured, and a progress line meanwhile.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use crate::figures::{Figures, LINES, Target, Unit};

pub(crate) struct Table {
    printed: Vec<bool>,
    is_terminal: bool,
    began: Instant,
}

impl Table {
    pub(crate) fn new() -> Self {
        println!("{:<22} {:>12}   {:<32} {:>8}", "figure", "measured", "target", "reached");
        let is_terminal = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        Self { printed: vec![false; LINES.len()], is_terminal, began: Instant::now() }
    }

    /// Prints the figures that are new.
    pub(crate) fn show(&mut self, figures: &Figures) {
        self.clear();
        for (line, printed) in LINES.iter().zip(&mut self.printed) {
            let Some(value) = (line.value)(figures).filter(|_| !*printed) else { continue };
            *printed = true;
            let verdict = line.verdict(figures);
            let reached = match verdict.and_then(|verdict| verdict.share) {
                Some(share) => format!("{share:.2}"),
                None => String::new(),
            };
            let word = match verdict {
                Some(verdict) if verdict.passes => "pass",
                Some(_) => "MISS",
                None => "",
            };
            let (value, target) = (words(value, line.unit), target_words(&line.target, line.unit, figures));
            println!("{:<22} {value:>12}   {target:<32} {reached:>8}  {word}", line.name);
        }
    }

    /// The current step; only on a terminal.
    pub(crate) fn progress(&self, what: &str) {
        if self.is_terminal {
            eprint!("\r\x1b[K{:>4} s  {what}", self.began.elapsed().as_secs());
            // Flushed so that it is visible at once; a failure does not matter.
            let _ = std::io::stderr().flush();
        }
    }

    pub(crate) fn clear(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }
}

fn target_words(target: &Target, unit: Unit, figures: &Figures) -> String {
    match target {
        Target::None => String::new(),
        Target::Share(least, name, limit) => match limit(figures) {
            Some(limit) => format!(">= {least} of {name} ({})", words(limit, unit).trim()),
            None => format!(">= {least} of {name}"),
        },
        Target::AtMost(most) => format!("<= {}", words(*most, unit).trim()),
    }
}

fn words(value: f64, unit: Unit) -> String {
    match unit {
        Unit::PerSecond => format!("{}/s", grouped(value)),
        Unit::Milliseconds => format!("{value:.2} ms"),
        Unit::Bytes => format!("{} B", grouped(value)),
        Unit::Mebibytes => format!("{value:.1} MiB"),
        Unit::Jobs => grouped(value),
    }
}

/// Whole, with a space between thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.max(0.0));
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Unit, grouped, words};

    #[test]
    fn thousands_are_separated() {
        assert_eq!(grouped(0.4), "0");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(grouped(1_234_567.8), "1 234 568");
        assert_eq!(words(0.456, Unit::Milliseconds), "0.46 ms");
    }
}
