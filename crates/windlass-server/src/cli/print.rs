//! The output for people and scripts: plain tables, JSON as the API returned it, ages instead of instants.

use std::io::{self, Write};

use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};
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
    /// The headline, cut to this many characters.
    Cut(&'static str, usize),
    /// Computed from the row.
    With(fn(&Value) -> String),
}

/// A table of JSON objects; a note if there are none.
pub(crate) fn table(rows: &[Value], columns: &[(&str, Show)], if_empty: &str) -> Result<(), Failure> {
    if rows.is_empty() {
        note(if_empty);
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(columns.iter().map(|(title, _)| Cell::new(title).add_attribute(Attribute::Bold)));
    for row in rows {
        table.add_row(columns.iter().map(|(_, show)| terminal::cell(&show.text(row)).into_owned()));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for text in table.to_string().lines() {
        raw(text.trim_end())?;
    }
    Ok(())
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
            Self::Plain(key) => text(at(row, key)),
            Self::Age(key) => age(at(row, key)),
            Self::Cut(key, most) => cut(&text(at(row, key)), *most),
            Self::With(show) => show(row),
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

    use super::{Show, at, cut, since, text};

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
}
