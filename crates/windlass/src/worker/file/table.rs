//! Reads tables of a TOML document with an expected structure, and reports the line of every error.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, Result};

/// The name and text of a file.
pub(crate) struct ConfigText<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

impl<'a> ConfigText<'a> {
    pub(crate) fn parse(&self) -> Result<Spanned<DeTable<'a>>> {
        DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.error(at, String::new(), error.message().to_owned())
        })
    }

    pub(crate) fn error(&self, at: usize, key: String, message: String) -> Error {
        let line = self.text[..at.min(self.text.len())].matches('\n').count() + 1;
        Error::Configuration { file: self.name.to_owned(), line, key, message }
    }
}

/// One value and its position.
#[derive(Clone, Copy)]
pub(crate) struct Item<'a> {
    source: &'a ConfigText<'a>,
    value: &'a Spanned<DeValue<'a>>,
}

/// A table that is being read: keys that were never requested are unknown.
pub(crate) struct Table<'a> {
    source: &'a ConfigText<'a>,
    path: String,
    table: &'a DeTable<'a>,
    at: usize,
    known: BTreeSet<&'static str>,
}

impl<'a> Table<'a> {
    pub(crate) fn root(source: &'a ConfigText<'a>, table: &'a DeTable<'a>) -> Self {
        Self { source, path: String::new(), table, at: 0, known: BTreeSet::new() }
    }

    /// Returns the directory of the file.
    pub(crate) fn directory(&self) -> &Path {
        Path::new(self.source.name).parent().unwrap_or(Path::new(""))
    }

    pub(crate) fn item(&mut self, key: &'static str) -> Option<Item<'a>> {
        self.known.insert(key);
        let (_, value) = self.table.iter().find(|(name, _)| name.get_ref() == key)?;
        Some(Item { source: self.source, value })
    }

    pub(crate) fn text(&mut self, key: &'static str) -> Result<Option<String>> {
        self.item(key).map(|item| self.as_text(key, item)).transpose()
    }

    pub(crate) fn texts(&mut self, key: &'static str) -> Result<Option<Vec<String>>> {
        let Some(items) = self.list(key)? else { return Ok(None) };
        items.into_iter().map(|item| self.as_text(key, item)).collect::<Result<_>>().map(Some)
    }

    pub(crate) fn list(&mut self, key: &'static str) -> Result<Option<Vec<Item<'a>>>> {
        let Some(item) = self.item(key) else { return Ok(None) };
        item.list().map(Some).ok_or_else(|| self.wrong(key, item, "must be a list"))
    }

    pub(crate) fn flag(&mut self, key: &'static str) -> Result<Option<bool>> {
        let Some(item) = self.item(key) else { return Ok(None) };
        item.value.get_ref().as_bool().map(Some).ok_or_else(|| self.wrong(key, item, "must be true or false"))
    }

    pub(crate) fn number<N: TryFrom<i64> + std::fmt::Display + PartialOrd>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<N>,
    ) -> Result<Option<N>> {
        let Some(item) = self.item(key) else { return Ok(None) };
        let number = item.integer().and_then(|number| N::try_from(number).ok()).filter(|n| range.contains(n));
        number.map(Some).ok_or_else(|| {
            let (from, to) = (range.start(), range.end());
            self.wrong(key, item, &format!("must be a whole number from {from} to {to}"))
        })
    }

    /// Reads seconds as a number, or text such as `500ms`, `5s`, `2m`, `1h`.
    pub(crate) fn duration(&mut self, key: &'static str) -> Result<Option<Duration>> {
        let Some(item) = self.item(key) else { return Ok(None) };
        let read = match item.value.get_ref() {
            DeValue::String(text) => parse_duration(text),
            _ => item.integer().and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs),
        };
        let read = read.filter(|duration| *duration <= Duration::from_secs(7 * 24 * 3600));
        let expected =
            "must be a duration up to seven days, such as 500ms, 5s, 2m or 1h, or a number of seconds";
        read.map(Some).ok_or_else(|| self.wrong(key, item, expected))
    }

    /// Reads a number of bytes, or text such as `64KiB`, `512MB`.
    pub(crate) fn bytes(&mut self, key: &'static str) -> Result<Option<u64>> {
        let Some(item) = self.item(key) else { return Ok(None) };
        let read = match item.value.get_ref() {
            DeValue::String(text) => parse_bytes(text),
            _ => item.integer().and_then(|bytes| u64::try_from(bytes).ok()),
        };
        read.map(Some).ok_or_else(|| {
            self.wrong(key, item, "must be a size, such as 64KiB, 512MB or 2GiB, or a number of bytes")
        })
    }

    pub(crate) fn table(&mut self, key: &'static str) -> Result<Option<Table<'a>>> {
        let Some(item) = self.item(key) else { return Ok(None) };
        item.table(&join(&self.path, key)).map(Some).ok_or_else(|| self.wrong(key, item, "must be a table"))
    }

    /// Returns the tables of a table, each with a name chosen by the user.
    pub(crate) fn tables(&mut self, key: &'static str) -> Result<Vec<(String, Table<'a>)>> {
        let Some(parent) = self.table(key)? else { return Ok(Vec::new()) };
        let read = |(name, item): (String, Item<'a>)| match item.table(&join(&parent.path, &name)) {
            Some(table) => Ok((name, table)),
            None => Err(parent.wrong(&name, item, "must be a table")),
        };
        parent.items().map(read).collect()
    }

    /// Returns every member, regardless of its name.
    pub(crate) fn items(&self) -> impl Iterator<Item = (String, Item<'a>)> + use<'a> {
        let source = self.source;
        self.table.iter().map(move |(name, value)| (name.get_ref().to_string(), Item { source, value }))
    }

    /// Returns the whole table as JSON.
    pub(crate) fn as_json(&self) -> serde_json::Value {
        table_json(self.table)
    }

    pub(crate) fn as_text(&self, key: &str, item: Item<'a>) -> Result<String> {
        item.text().map(ToOwned::to_owned).ok_or_else(|| self.wrong(key, item, "must be text"))
    }

    /// Returns an error about an invalid value.
    pub(crate) fn wrong(&self, key: &str, item: Item<'_>, message: &str) -> Error {
        self.source.error(item.span().start, join(&self.path, key), message.to_owned())
    }

    /// Returns an error about a missing value.
    pub(crate) fn missing(&self, key: &str, message: &str) -> Error {
        self.source.error(self.at, join(&self.path, key), message.to_owned())
    }

    pub(crate) fn finish(&self) -> Result<()> {
        let unknown = self.table.iter().find(|(name, _)| !self.known.contains(name.get_ref().as_ref()));
        match unknown {
            None => Ok(()),
            Some((name, _)) => {
                let known: Vec<&str> = self.known.iter().copied().collect();
                let message = format!("unknown key; expected one of {}", known.join(", "));
                Err(self.source.error(name.span().start, join(&self.path, name.get_ref()), message))
            }
        }
    }
}

impl<'a> Item<'a> {
    pub(crate) fn text(&self) -> Option<&'a str> {
        self.value.get_ref().as_str()
    }

    pub(crate) fn integer(&self) -> Option<i64> {
        let integer = self.value.get_ref().as_integer()?;
        i64::from_str_radix(integer.as_str(), integer.radix()).ok()
    }

    pub(crate) fn list(&self) -> Option<Vec<Item<'a>>> {
        let source = self.source;
        Some(self.value.get_ref().as_array()?.iter().map(|value| Item { source, value }).collect())
    }

    pub(crate) fn table(&self, path: &str) -> Option<Table<'a>> {
        let table = self.value.get_ref().as_table()?;
        let at = self.span().start;
        Some(Table { source: self.source, path: path.to_owned(), table, at, known: BTreeSet::new() })
    }

    fn span(&self) -> Range<usize> {
        self.value.span()
    }
}

fn join(path: &str, key: &str) -> String {
    match (path, key) {
        ("", key) => key.to_owned(),
        (path, "") => path.to_owned(),
        (path, key) => format!("{path}.{key}"),
    }
}

fn table_json(table: &DeTable<'_>) -> serde_json::Value {
    let member = |(name, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        (name.get_ref().to_string(), value_json(value.get_ref()))
    };
    serde_json::Value::Object(table.iter().map(member).collect())
}

fn value_json(value: &DeValue<'_>) -> serde_json::Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or(serde_json::Value::Null, Into::into)
        }
        DeValue::Float(number) => number.as_str().parse::<f64>().map_or(serde_json::Value::Null, Into::into),
        DeValue::Boolean(flag) => (*flag).into(),
        DeValue::Datetime(at) => at.to_string().into(),
        DeValue::Array(items) => items.iter().map(|item| value_json(item.get_ref())).collect(),
        DeValue::Table(table) => table_json(table),
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    match text[digits..].trim() {
        "ms" => Some(Duration::from_millis(number)),
        "s" | "" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number.checked_mul(60)?)),
        "h" => Some(Duration::from_secs(number.checked_mul(3600)?)),
        _ => None,
    }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        "" | "B" => 1,
        "kB" | "KB" => 1000,
        "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "MiB" => 1 << 20,
        "GB" => 1_000_000_000,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}
