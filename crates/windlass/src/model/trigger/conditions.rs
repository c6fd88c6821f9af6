//! Conditions on the payload of an event: an object of paths, each with the expected value or with comparisons. All
//! must match. A path without a value matches only `{"exists": false}` and `ne`.

use std::cmp::Ordering;

use serde_json::Value;

use crate::error::{Error, Result};

const MAX: usize = 50;

#[derive(Debug, Clone)]
pub(crate) struct Conditions {
    all: Vec<Condition>,
    bytes: usize,
}

#[derive(Debug, Clone)]
struct Condition {
    path: Vec<String>,
    test: Test,
    value: Value,
}

#[derive(Debug, Clone, Copy)]
enum Test {
    Eq,
    Ne,
    Gt,
    Gte,
    Lt,
    Lte,
    In,
    Prefix,
    Exists,
}

impl Test {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "eq" => Self::Eq,
            "ne" => Self::Ne,
            "gt" => Self::Gt,
            "gte" => Self::Gte,
            "lt" => Self::Lt,
            "lte" => Self::Lte,
            "in" => Self::In,
            "prefix" => Self::Prefix,
            "exists" => Self::Exists,
            _ => return None,
        })
    }

    fn accepts(self, value: &Value) -> bool {
        match self {
            Self::Eq | Self::Ne => true,
            Self::Gt | Self::Gte | Self::Lt | Self::Lte => value.is_number() || value.is_string(),
            Self::In => value.is_array(),
            Self::Prefix => value.is_string(),
            Self::Exists => value.is_boolean(),
        }
    }
}

impl Conditions {
    pub(crate) fn parse(conditions: &Value) -> Result<Self> {
        let refuse = |pointer: &str, message: String| Error::Refused {
            field: "conditions".to_owned(),
            pointer: Some(pointer.to_owned()),
            message,
        };
        let Some(members) = conditions.as_object() else {
            return Err(refuse("", "must be an object of paths and conditions".to_owned()));
        };
        let mut parsed = Vec::new();
        for (path, wanted) in members {
            let pointer = format!("/{path}");
            let segments: Vec<String> = path.split('.').map(str::to_owned).collect();
            if segments.iter().any(String::is_empty) || segments.len() > 32 {
                return Err(refuse(&pointer, "is not a path: use names separated by dots".to_owned()));
            }
            let tests: Vec<(&str, &Value)> = match wanted.as_object() {
                Some(tests) => tests.iter().map(|(name, value)| (name.as_str(), value)).collect(),
                None => vec![("eq", wanted)],
            };
            for (name, value) in tests {
                let test = Test::parse(name).filter(|test| test.accepts(value)).ok_or_else(|| {
                    let known = "eq, ne, gt, gte, lt, lte (a number or text), in (a list), prefix (a text), exists (true or false)";
                    refuse(&pointer, format!("{name:?} with this value is not a condition; expected one of {known}"))
                })?;
                parsed.push(Condition { path: segments.clone(), test, value: value.clone() });
            }
        }
        if parsed.len() > MAX {
            return Err(refuse("", format!("must have at most {MAX} items")));
        }
        Ok(Self { all: parsed, bytes: bytes_of(conditions) })
    }

    pub(crate) fn hold(&self, payload: &Value) -> bool {
        self.all.iter().all(|condition| condition.holds(payload))
    }

    /// Their size in memory, approximately: a measure of the time that a comparison with one event takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Condition {
    fn holds(&self, payload: &Value) -> bool {
        let mut found = Some(payload);
        for segment in &self.path {
            found = match found {
                Some(Value::Object(members)) => members.get(segment),
                Some(Value::Array(items)) => segment.parse().ok().and_then(|index: usize| items.get(index)),
                _ => None,
            };
        }
        let ordered = |wanted: &[Ordering]| {
            found.and_then(|found| compare(found, &self.value)).is_some_and(|order| wanted.contains(&order))
        };
        match self.test {
            Test::Eq => found.is_some_and(|found| same(found, &self.value)),
            Test::Ne => !found.is_some_and(|found| same(found, &self.value)),
            Test::Gt => ordered(&[Ordering::Greater]),
            Test::Gte => ordered(&[Ordering::Greater, Ordering::Equal]),
            Test::Lt => ordered(&[Ordering::Less]),
            Test::Lte => ordered(&[Ordering::Less, Ordering::Equal]),
            Test::In => found.is_some_and(|found| {
                self.value.as_array().is_some_and(|list| list.iter().any(|wanted| same(found, wanted)))
            }),
            Test::Prefix => found
                .and_then(Value::as_str)
                .is_some_and(|text| self.value.as_str().is_some_and(|prefix| text.starts_with(prefix))),
            Test::Exists => found.is_some() == self.value.as_bool().unwrap_or(true),
        }
    }
}

fn bytes_of(value: &Value) -> usize {
    const EACH: usize = 16;
    EACH + match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes_of).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| name.len() + bytes_of(value)).sum(),
    }
}

/// 1 and 1.0 are the same number.
fn same(found: &Value, wanted: &Value) -> bool {
    found == wanted || compare(found, wanted) == Some(Ordering::Equal)
}

fn compare(found: &Value, wanted: &Value) -> Option<Ordering> {
    match (found, wanted) {
        (Value::Number(found), Value::Number(wanted)) => found.as_f64()?.partial_cmp(&wanted.as_f64()?),
        (Value::String(found), Value::String(wanted)) => Some(found.cmp(wanted)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Conditions;

    #[test]
    fn every_condition_must_hold() {
        let event =
            json!({"provider": "dropbox", "size": 12, "folder": {"path": "/photos/a"}, "tags": ["x"]});
        let cases: [(Value, bool); 15] = [
            (json!({}), true),
            (json!({"provider": "dropbox"}), true),
            (json!({"provider": "box"}), false),
            (json!({"provider": "dropbox", "size": 12.0}), true),
            (json!({"size": {"gte": 12, "lt": 13}}), true),
            (json!({"size": {"gt": 12}}), false),
            (json!({"size": {"gt": "1"}}), false),
            (json!({"folder.path": {"prefix": "/photos"}}), true),
            (json!({"folder.path": {"prefix": "/other"}}), false),
            (json!({"provider": {"in": ["box", "dropbox"]}}), true),
            (json!({"missing": {"exists": false}}), true),
            (json!({"missing": {"exists": true}}), false),
            (json!({"missing": {"ne": 1}}), true),
            (json!({"missing": null}), false),
            (json!({"tags.0": "x"}), true),
        ];
        for (conditions, holds) in cases {
            assert_eq!(Conditions::parse(&conditions).unwrap().hold(&event), holds, "{conditions}");
        }
    }

    #[test]
    fn an_invalid_condition_is_rejected() {
        for conditions in [
            json!([]),
            json!({"a..b": 1}),
            json!({"a": {"like": 1}}),
            json!({"a": {"in": 1}}),
            json!({"": 1}),
        ] {
            let error = Conditions::parse(&conditions).unwrap_err().to_string();
            assert!(error.starts_with("conditions"), "{error}");
        }
    }
}
