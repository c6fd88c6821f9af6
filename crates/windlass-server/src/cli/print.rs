//! The output for people and scripts: plain tables, JSON as the API returned it, ages instead of instants.

use std::io::{self, IsTerminal, Write};

use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};
use jiff::Timestamp;
use serde_json::Value;

use super::exit::{Exit, Failure};
use super::terminal;

/// One line on standard output.
pub(crate) fn line(text: impl AsRef<str>) -> Result<(), Failure> {
    raw(&terminal::lines(text.as_ref()))
}

/// One line whose parts are safe: it may contain our own colors.
fn raw(text: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{text}")?;
    Ok(())
}

/// One line on standard error, for the person at the terminal.
pub(crate) fn note(text: impl AsRef<str>) {
    // Nothing depends on it, and a failure cannot be reported anywhere.
    let _ = writeln!(io::stderr(), "{}", terminal::lines(text.as_ref()));
}

pub(crate) fn json(value: &Value) -> Result<(), Failure> {
    json_text(&serde_json::to_string_pretty(value).map_err(io::Error::from)?)
}

/// JSON as the server sent it, on one line.
pub(crate) fn json_text(text: &str) -> Result<(), Failure> {
    raw(&terminal::json(text))
}

/// A response: as JSON for scripts, else as text.
pub(crate) fn response(
    is_json: bool,
    body: &Value,
    as_text: impl FnOnce(&Value) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    if is_json {
        json(body)?;
    } else {
        as_text(body)?;
    }
    Ok(Exit::Success)
}

/// The same for a list.
pub(crate) fn list(
    is_json: bool,
    rows: Vec<Value>,
    as_table: fn(&[Value]) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    response(is_json, &Value::Array(rows), |rows| as_table(rows.as_array().map_or(&[], Vec::as_slice)))
}

/// How a column gets its text from a row.
pub(crate) enum Show {
    /// The value unchanged.
    Plain(&'static str),
    /// The time since an instant, or until it.
    Age(&'static str),
    /// The headline, cut to this many characters; may be shortened further.
    Cut(&'static str, usize),
    /// Computed from the row.
    With(fn(&Value) -> String),
    /// The same, and may be shortened.
    Free(fn(&Value) -> String),
    /// A sentence, which is wrapped between words on a terminal.
    Wrap(&'static str),
}

/// The space between two columns.
const GAP: usize = 2;
/// A free text is not shortened further; then a column is dropped.
const LEAST: usize = 12;
/// The width of a terminal that does not report one.
const USUAL_WIDTH: usize = 80;

/// A table of JSON objects; a note if there are none. On a terminal, free texts are shortened and the last columns are
/// dropped until a row fits in a line, so that an id is never broken.
pub(crate) fn table(rows: &[Value], columns: &[(&str, Show)], if_empty: &str) -> Result<(), Failure> {
    if rows.is_empty() {
        note(if_empty);
        return Ok(());
    }
    let mut table = Table::new();
    let limit = io::stdout().is_terminal().then(|| match table.width() {
        None | Some(0) => USUAL_WIDTH,
        Some(width) => usize::from(width),
    });
    let texts: Vec<Vec<String>> = rows
        .iter()
        .map(|row| columns.iter().map(|(_, show)| terminal::cell(&show.text(row)).into_owned()).collect())
        .collect();
    let wanted: Vec<WantedColumn> =
        columns.iter().enumerate().map(|(at, column)| wanted(&texts, at, column)).collect();
    let widths =
        limit.map_or_else(|| wanted.iter().map(|column| column.width).collect(), |limit| fit(&wanted, limit));

    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(limit.unwrap_or(usize::MAX)).unwrap_or(u16::MAX));
    table.set_header(
        columns.iter().take(widths.len()).map(|(title, _)| Cell::new(title).add_attribute(Attribute::Bold)),
    );
    for row in &texts {
        table.add_row(row.iter().zip(&wanted).zip(&widths).map(|((text, column), width)| {
            if column.is_free { shorten(text, *width) } else { text.clone() }
        }));
    }
    for ((column, (_, show)), wanted) in table.column_iter_mut().zip(columns).zip(&wanted) {
        column.set_padding((0, 2));
        if wanted.is_number {
            column.set_cell_alignment(CellAlignment::Right);
        }
        if !matches!(show, Show::Wrap(_)) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    for text in table.to_string().lines() {
        raw(text.trim_end())?;
    }
    let dropped: Vec<&str> = columns.iter().skip(widths.len()).map(|(title, _)| *title).collect();
    if !dropped.is_empty() {
        note(format!("not shown on this narrow terminal: {} (--json prints everything)", dropped.join(", ")));
    }
    Ok(())
}

/// What a column needs.
struct WantedColumn {
    width: usize,
    title: usize,
    /// A text that may be shortened.
    is_free: bool,
    /// A text that is wrapped between words.
    is_wrapped: bool,
    is_number: bool,
}

fn wanted(rows: &[Vec<String>], at: usize, (title, show): &(&str, Show)) -> WantedColumn {
    let texts = || rows.iter().map(|row| row[at].as_str());
    let title = width(title);
    WantedColumn {
        width: texts().map(width).max().unwrap_or(0).max(title),
        title,
        is_free: matches!(show, Show::Cut(..) | Show::Free(_)),
        is_wrapped: matches!(show, Show::Wrap(_)),
        is_number: texts().any(|text| !text.is_empty())
            && texts().all(|text| text.is_empty() || text.parse::<f64>().is_ok()),
    }
}

/// The widths of the columns that fit: free texts are shortened, the widest first; if that is not enough, the last column
/// is dropped. The first one stays.
fn fit(columns: &[WantedColumn], limit: usize) -> Vec<usize> {
    let mut shown = columns;
    loop {
        let mut widths: Vec<usize> =
            shown.iter().map(|column| if column.is_wrapped { LEAST } else { column.width }).collect();
        let over =
            |widths: &[usize]| (widths.iter().sum::<usize>() + GAP * widths.len()).saturating_sub(limit);
        while over(&widths) > 0 {
            let widest = shown
                .iter()
                .zip(&mut widths)
                .filter(|(column, width)| column.is_free && **width > LEAST.max(column.title))
                .max_by_key(|(_, width)| **width);
            let Some((_, width)) = widest else { break };
            *width -= 1;
        }
        match shown {
            [kept @ .., _] if over(&widths) > 0 && !kept.is_empty() => shown = kept,
            _ => return widths,
        }
    }
}

/// The columns of a terminal that a text takes; characters from Hangul onwards count as wide.
fn width(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

fn width_of(letter: char) -> usize {
    if letter >= '\u{1100}' && !('\u{2000}'..'\u{2e80}').contains(&letter) { 2 } else { 1 }
}

fn shorten(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut left = most.saturating_sub(1);
    for letter in text.chars() {
        let Some(rest) = left.checked_sub(width_of(letter)) else { break };
        left = rest;
        short.push(letter);
    }
    short + "…"
}

/// `name  value` lines, for one object.
pub(crate) fn facts(facts: &[(&str, String)]) -> Result<(), Failure> {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        let mut lines = value.lines();
        line(format!("{name:width$}  {}", lines.next().unwrap_or_default()))?;
        for rest in lines {
            line(format!("{:width$}  {rest}", ""))?;
        }
    }
    Ok(())
}

impl Show {
    fn text(&self, row: &Value) -> String {
        match self {
            Self::Plain(key) | Self::Wrap(key) => text(at(row, key)),
            Self::Age(key) => age(at(row, key)),
            Self::Cut(key, most) => cut(&text(at(row, key)), *most),
            Self::With(show) | Self::Free(show) => show(row),
        }
    }
}

/// A value in a row, by a key with dots.
pub(crate) fn at<'a>(row: &'a Value, key: &str) -> &'a Value {
    key.split('.').fold(row, |value, part| value.get(part).unwrap_or(&Value::Null))
}

/// A value as plain text.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// `3 min ago`, `in 12 s`; empty for null.
pub(crate) fn age(value: &Value) -> String {
    let instant = value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    instant.map_or_else(String::new, |instant| since(instant, Timestamp::now()))
}

fn since(instant: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - instant.as_second();
    if seconds < 0 { format!("in {}", span(-seconds)) } else { format!("{} ago", span(seconds)) }
}

/// A span in its largest unit.
pub(crate) fn span(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

pub(crate) fn cut(text: &str, most: usize) -> String {
    let first = windlass::internals::headline(text);
    if first.chars().count() <= most {
        return first.to_owned();
    }
    let short: String = first.chars().take(most.saturating_sub(1)).collect();
    format!("{short}…")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::{Show, WantedColumn, at, cut, fit, shorten, since, text, wanted};

    #[test]
    fn ages_show_past_and_future_in_one_unit() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let of = |text: &str| since(text.parse().unwrap(), now);
        assert_eq!(of("2026-03-01T11:58:30Z"), "90 s ago");
        assert_eq!(of("2026-03-01T12:05:00Z"), "in 5 min");
        assert_eq!(of("2026-02-01T12:00:00Z"), "28 d ago");
    }

    #[test]
    fn a_column_reads_into_objects_and_is_empty_for_null() {
        let row = json!({"a": {"b": 3}, "tags": ["x", "y"], "none": null});
        assert_eq!(text(at(&row, "a.b")), "3");
        assert_eq!(Show::Plain("tags").text(&row), "x, y");
        assert_eq!(Show::Plain("a.c.d").text(&row) + &Show::Age("none").text(&row), "");
    }

    #[test]
    fn long_texts_are_cut_at_a_character_and_a_line() {
        assert_eq!(cut("äöüß", 3), "äö…");
        assert_eq!(cut("one\ntwo", 10), "one");
    }

    #[test]
    fn columns_that_do_not_fit_are_shortened_and_then_dropped() {
        let column =
            |width, is_free| WantedColumn { width, title: 4, is_free, is_wrapped: false, is_number: false };
        let columns = [column(36, false), column(30, true), column(9, false), column(20, false)];
        assert_eq!(fit(&columns, 200), [36, 30, 9, 20]);
        assert_eq!(fit(&columns, 100), [36, 27, 9, 20], "a free text is shortened");
        assert_eq!(fit(&columns, 80), [36, 29, 9], "the last column is dropped");
        assert_eq!(fit(&columns, 10), [36], "the id stays whole");
        assert_eq!(shorten("definition", 6), "defin…");
        assert_eq!(shorten("日本語", 5), "日本…");
        let rows = [vec!["12".to_owned()], vec![String::new()]];
        assert!(wanted(&rows, 0, &("N", Show::Plain("n"))).is_number);
        assert!(!wanted(&[vec![String::new()]], 0, &("N", Show::Plain("n"))).is_number);
    }
}
