//! Builds the exact argv from a command's template and one job. Pure, and without a shell.
//!
//! One placeholder fills one element, or the part after `--option=` of one. A payload can therefore never become two
//! elements, another option or another program. The program would read a value that starts with `-` as an option, so it
//! is refused unless the template allows it or a literal `--` precedes it.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::value::RawValue;
use uuid::Uuid;

/// The maximum length of an element; Linux allows 128 KiB.
const ELEMENT_BYTES: usize = 100 * 1024;
/// The maximum length of all elements together.
const ALL_BYTES: usize = 1024 * 1024;
const MAX_ELEMENTS: usize = 4096;

/// The values of placeholders.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlaceholderValues<'a> {
    pub(crate) tenant: Uuid,
    pub(crate) job: Uuid,
    pub(crate) attempt: i32,
    pub(crate) payload: &'a str,
}

/// One element of the configuration: a constant, `{placeholder}` or `--option={placeholder}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Element {
    text: String,
    source: Option<Name>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Tenant,
    Job,
    Attempt,
    Payload(Vec<String>),
}

impl Element {
    pub(crate) fn parse(written: &str) -> Result<Self, String> {
        if written.contains('\0') {
            return Err("must not contain NUL".to_owned());
        }
        let Some(open) = placeholder_start(written) else {
            return Ok(Self { text: written.replace("{{", "{").replace("}}", "}"), source: None });
        };
        let before = &written[..open];
        let Some(name) = written[open + 1..].strip_suffix('}') else {
            return Err(
                "a placeholder must be at the end of its element; write {{ for a literal brace".to_owned()
            );
        };
        if !(before.is_empty() || before.ends_with('=')) {
            return Err("a placeholder must be a whole element, or everything after `--option=`".to_owned());
        }
        let source = match name {
            "tenant.id" => Name::Tenant,
            "job.id" => Name::Job,
            "attempt" => Name::Attempt,
            _ => match name.strip_prefix("payload.") {
                Some(path) if path.split('.').all(is_name) => {
                    Name::Payload(path.split('.').map(ToOwned::to_owned).collect())
                }
                _ => {
                    return Err(format!(
                        "unknown placeholder `{{{name}}}`; use {{tenant.id}}, {{job.id}}, {{attempt}} or {{payload.field}}"
                    ));
                }
            },
        };
        Ok(Self { text: before.replace("{{", "{").replace("}}", "}"), source: Some(source) })
    }

    pub(crate) fn constant_of(text: &str) -> Self {
        Self { text: text.to_owned(), source: None }
    }

    pub(crate) fn is_constant(&self) -> bool {
        self.source.is_none()
    }

    pub(crate) fn constant(&self) -> &str {
        &self.text
    }

    fn names_payload(&self) -> bool {
        matches!(self.source, Some(Name::Payload(_)))
    }

    fn fills_whole(&self) -> bool {
        self.source.is_some() && self.text.is_empty()
    }

    /// Returns the element with its value, for an environment variable.
    pub(crate) fn fill(&self, facts: &PlaceholderValues<'_>) -> Result<Option<String>, String> {
        match self.value(facts)? {
            Value::Absent => Ok(None),
            Value::One(value) => Ok(Some(format!("{}{value}", self.text))),
            Value::Many(_) => Err(format!("{} is a list", self.what())),
        }
    }

    fn value(&self, facts: &PlaceholderValues<'_>) -> Result<Value, String> {
        let Some(source) = &self.source else { return Ok(Value::One(String::new())) };
        match source {
            Name::Tenant => Ok(Value::One(facts.tenant.to_string())),
            Name::Job => Ok(Value::One(facts.job.to_string())),
            Name::Attempt => Ok(Value::One(facts.attempt.to_string())),
            Name::Payload(path) => match find(facts.payload, path) {
                None => Ok(Value::Absent),
                Some(found) => read(found).map_err(|problem| format!("{} {problem}", self.what())),
            },
        }
    }

    fn what(&self) -> String {
        match &self.source {
            Some(Name::Payload(path)) => format!("payload.{}", path.join(".")),
            Some(Name::Tenant) => "tenant.id".to_owned(),
            Some(Name::Job) => "job.id".to_owned(),
            Some(Name::Attempt) => "attempt".to_owned(),
            None => self.text.clone(),
        }
    }
}

/// One or more elements that belong together, and when they are included.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) elements: Vec<Element>,
    pub(crate) when: When,
    pub(crate) rule: Rule,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// A missing field is an error.
    Always,
    /// Omitted if its field is absent or null.
    Present,
    /// Once for each item of a list.
    Each,
}

/// Restrictions on a value.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rule {
    pub(crate) may_begin_with_dash: bool,
    pub(crate) one_of: Option<Vec<String>>,
    pub(crate) pattern: Option<Regex>,
}

impl Part {
    /// Checks the rules of a template beyond those of its elements.
    pub(crate) fn check(&self) -> Result<(), String> {
        let fields = self.elements.iter().filter(|element| element.names_payload()).count();
        match self.when {
            When::Always => Ok(()),
            When::Present | When::Each if fields == 1 => Ok(()),
            When::Present | When::Each => Err("must name exactly one field of the payload".to_owned()),
        }
    }
}

/// Builds the argv of one job; returns an error if that is not possible.
pub(crate) fn build(parts: &[Part], facts: &PlaceholderValues<'_>) -> Result<Vec<String>, String> {
    let mut argv: Vec<String> = Vec::with_capacity(parts.len());
    let mut after_dashes = false;
    for part in parts {
        for round in rounds(part, facts)? {
            for (element, value) in part.elements.iter().zip(round) {
                part.rule.check(element, &value, after_dashes)?;
                after_dashes |= element.is_constant() && element.text == "--" && !argv.is_empty();
                argv.push(format!("{}{value}", element.text));
            }
        }
    }
    if argv.len() > MAX_ELEMENTS {
        return Err(format!("the command has {} arguments; at most {MAX_ELEMENTS} are allowed", argv.len()));
    }
    let bytes: usize = argv.iter().map(String::len).sum();
    if bytes > ALL_BYTES {
        return Err(format!("the command has {bytes} bytes of arguments; at most {ALL_BYTES} are allowed"));
    }
    Ok(argv)
}

/// Returns the values of the part's elements, for each time that it is included.
fn rounds(part: &Part, facts: &PlaceholderValues<'_>) -> Result<Vec<Vec<String>>, String> {
    let values = part.elements.iter().map(|element| element.value(facts)).collect::<Result<Vec<_>, _>>()?;
    let absent = part.elements.iter().zip(&values).find(|(_, value)| matches!(value, Value::Absent));
    if let Some((element, _)) = absent {
        return match part.when {
            When::Always => Err(format!("{} is missing", element.what())),
            When::Present | When::Each => Ok(Vec::new()),
        };
    }
    let many = part.elements.iter().zip(&values).find_map(|(element, value)| match value {
        Value::Many(items) => Some((element, items.clone())),
        Value::One(_) | Value::Absent => None,
    });
    let as_round = |item: Option<&String>| -> Vec<String> {
        let one = |value: &Value| match value {
            Value::One(value) => value.clone(),
            Value::Many(_) | Value::Absent => item.cloned().unwrap_or_default(),
        };
        values.iter().map(one).collect()
    };
    match (part.when, many) {
        (When::Each, Some((_, items))) => Ok(items.iter().map(|item| as_round(Some(item))).collect()),
        (When::Each, None) => {
            let what = part.elements.iter().find(|element| element.names_payload()).map(Element::what);
            Err(format!("{} must be a list", what.unwrap_or_default()))
        }
        (When::Always | When::Present, Some((element, _))) => Err(format!("{} is a list", element.what())),
        (When::Always | When::Present, None) => Ok(vec![as_round(None)]),
    }
}

impl Rule {
    fn check(&self, element: &Element, value: &str, after_dashes: bool) -> Result<(), String> {
        if element.is_constant() {
            return Ok(());
        }
        if value.contains('\0') {
            return Err(format!("{} contains NUL", element.what()));
        }
        if value.len() > ELEMENT_BYTES {
            return Err(format!(
                "{} has {} bytes; at most {ELEMENT_BYTES} are allowed",
                element.what(),
                value.len()
            ));
        }
        if !element.names_payload() {
            return Ok(());
        }
        if value.starts_with('-') && element.fills_whole() && !self.may_begin_with_dash && !after_dashes {
            return Err(format!(
                "{} starts with `-`, which the command would read as an option",
                element.what()
            ));
        }
        if self.one_of.as_ref().is_some_and(|allowed| allowed.iter().all(|one| one != value)) {
            return Err(format!("{} is not one of the allowed values", element.what()));
        }
        if self.pattern.as_ref().is_some_and(|pattern| !pattern.is_match(value)) {
            return Err(format!("{} does not match the pattern of the command", element.what()));
        }
        Ok(())
    }
}

enum Value {
    Absent,
    One(String),
    Many(Vec<String>),
}

/// Returns the exact text of a scalar: a number keeps its digits as stored.
fn read(found: &RawValue) -> Result<Value, String> {
    let text = found.get();
    match text.as_bytes().first() {
        Some(b'n') => Ok(Value::Absent),
        Some(b'{') => Err("is an object".to_owned()),
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| error.to_string())?;
            let one = |item: &RawValue| match read(item)? {
                Value::One(value) => Ok(value),
                Value::Absent => Err("is null".to_owned()),
                Value::Many(_) => Err("is a list".to_owned()),
            };
            Ok(Value::Many(items.into_iter().map(one).collect::<Result<_, _>>()?))
        }
        Some(b'"') => serde_json::from_str(text).map(Value::One).map_err(|error| error.to_string()),
        _ => Ok(Value::One(text.to_owned())),
    }
}

fn find<'a>(payload: &'a str, path: &[String]) -> Option<&'a RawValue> {
    let mut at: &RawValue = serde_json::from_str(payload).ok()?;
    for name in path {
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(at.get()).ok()?;
        at = members.get(name)?;
    }
    Some(at)
}

fn is_name(part: &str) -> bool {
    !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

/// Returns the position of the first brace that is not doubled.
fn placeholder_start(written: &str) -> Option<usize> {
    let bytes = written.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'{' if bytes.get(at + 1) == Some(&b'{') => at += 2,
            b'{' => return Some(at),
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests;
