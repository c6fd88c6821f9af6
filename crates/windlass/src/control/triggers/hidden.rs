//! Triggers as they are shown. A template becomes a payload, so the values that are redacted in payloads are redacted
//! in it too; and saving a displayed trigger must not replace the secret with the placeholder.

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::model::trigger::{NewTrigger, Trigger};
use crate::text::redact::{PLACEHOLDER, Redaction, Rules, is_secret_key};

/// The trigger with its template and its conditions redacted.
pub(crate) fn shown(trigger: Trigger) -> Trigger {
    let payload_template = hidden(&trigger, &trigger.fields.payload_template);
    let conditions = hidden(&trigger, &trigger.fields.conditions);
    Trigger { fields: NewTrigger { payload_template, conditions, ..trigger.fields }, ..trigger }
}

/// The same for the rendered template.
pub(crate) fn hidden(trigger: &Trigger, value: &Value) -> Value {
    let rules = trigger.redaction.as_ref().and_then(|redaction| Rules::of(redaction).ok());
    // Rules that cannot be parsed may redact anything.
    rules.map_or(Value::from(PLACEHOLDER), |rules| with_expressions(value, rules.payload(value)))
}

/// The trigger with only those conditions that are shown completely; none if these are all.
pub(crate) fn without_hidden_conditions(trigger: &Trigger) -> Option<Trigger> {
    let all = &trigger.fields.conditions;
    let seen = hidden(trigger, all);
    if seen == *all {
        return None;
    }
    let is_shown = |(path, wanted): &(&String, &Value)| seen.get(path.as_str()) == Some(*wanted);
    let members = all.as_object().into_iter().flatten().filter(is_shown);
    let conditions = members.map(|(path, wanted)| (path.clone(), wanted.clone())).collect();
    let mut partly = trigger.clone();
    partly.fields.conditions = Value::Object(conditions);
    Some(partly)
}

/// Returns the changes, with placeholders replaced by the secrets that they represent.
pub(super) fn restored(old: &Trigger, changes: &Map<String, Value>) -> Result<Map<String, Value>> {
    let seen = shown(old.clone()).fields;
    let mut changes = changes.clone();
    let hiding = [
        ("payload_template", &old.fields.payload_template, &seen.payload_template),
        ("conditions", &old.fields.conditions, &seen.conditions),
    ];
    for (field, old, seen) in hiding {
        if let Some(new) = changes.get_mut(field) {
            *new = kept(new, old, seen, false).map_err(|pointer| refused(field, pointer))?;
        }
    }
    Ok(changes)
}

/// Refuses to move a trigger to a definition that shows a stored value which is hidden now: whoever may edit a trigger could read
/// every secret of it in this way. A value that was entered with the change is not a secret to its sender.
pub(super) fn refuse_unhidden(
    old: &Trigger,
    new: &NewTrigger,
    redaction: Redaction,
    changes: &Map<String, Value>,
) -> Result<()> {
    let moved = Trigger { redaction: Some(redaction), ..old.clone() };
    let moved_to = &new.definition_key;
    for (field, value) in [("payload_template", &new.payload_template), ("conditions", &new.conditions)] {
        let (before, after) = (hidden(old, value), hidden(&moved, value));
        if let Some(pointer) = unhidden(value, &before, &after, changes.get(field)) {
            let message =
                format!("is hidden, and the definition {moved_to:?} does not hide it: enter the value again");
            return Err(Error::Refused { field: field.to_owned(), pointer: Some(pointer), message });
        }
    }
    Ok(())
}

/// The pointer of a value that was not entered, and of which more is shown after than before.
fn unhidden(value: &Value, before: &Value, after: &Value, entered: Option<&Value>) -> Option<String> {
    if before == after || before == value || entered == Some(value) {
        return None;
    }
    match (value, before, after) {
        (Value::Object(members), Value::Object(before), Value::Object(after)) => {
            members.iter().find_map(|(name, value)| {
                let entered = entered.and_then(|entered| entered.get(name));
                let rest = unhidden(value, before.get(name)?, after.get(name)?, entered)?;
                Some(format!("/{}{rest}", name.replace('~', "~0").replace('/', "~1")))
            })
        }
        (Value::Array(items), Value::Array(before), Value::Array(after)) => {
            let items = items.iter().zip(before).zip(after).enumerate();
            items.into_iter().find_map(|(place, ((item, before), after))| {
                let entered = entered.and_then(|entered| entered.get(place));
                Some(format!("/{place}{}", unhidden(item, before, after, entered)?))
            })
        }
        _ => (after != PLACEHOLDER).then(String::new),
    }
}

/// A new trigger has no stored secrets: placeholders that were copied from a displayed trigger are rejected.
pub(super) fn refuse_copied(new: &NewTrigger) -> Result<()> {
    for (field, value) in [("payload_template", &new.payload_template), ("conditions", &new.conditions)] {
        kept(value, &Value::Null, &Value::Null, false).map_err(|pointer| refused(field, pointer))?;
    }
    Ok(())
}

fn refused(field: &str, pointer: String) -> Error {
    let message = format!("is {PLACEHOLDER}, the placeholder of a hidden value: enter the value again");
    Error::Refused { field: field.to_owned(), pointer: Some(pointer), message }
}

/// A text that is nothing but the name of a value, such as `{{event.token}}`, is not a secret.
fn with_expressions(value: &Value, hidden: Value) -> Value {
    match (value, hidden) {
        (Value::String(text), _) if is_bare_expression(text) => value.clone(),
        (Value::Array(items), Value::Array(hidden)) => {
            items.iter().zip(hidden).map(|(item, hidden)| with_expressions(item, hidden)).collect()
        }
        (Value::Object(members), Value::Object(hidden)) => {
            let member = |(name, hidden): (String, Value)| {
                let hidden =
                    members.get(&name).map_or(hidden.clone(), |value| with_expressions(value, hidden));
                (name, hidden)
            };
            Value::Object(hidden.into_iter().map(member).collect())
        }
        (_, hidden) => hidden,
    }
}

fn is_bare_expression(text: &str) -> bool {
    let name = text.strip_prefix("{{").and_then(|text| text.strip_suffix("}}"));
    name.is_some_and(|name| {
        name.trim().chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '[' | ']'))
    })
}

/// Returns the new value, with the old secrets where it still has the placeholders that were shown. Otherwise returns
/// the pointer of a placeholder that represents no known value.
fn kept(new: &Value, old: &Value, seen: &Value, is_secret: bool) -> Result<Value, String> {
    match new {
        Value::String(text) if text.contains(PLACEHOLDER) => {
            let hides = seen.as_str().is_some_and(|seen| seen.contains(PLACEHOLDER));
            match hides {
                true if new == seen => Ok(old.clone()),
                true => Err(String::new()),
                false if is_secret && text == PLACEHOLDER => Err(String::new()),
                false => Ok(new.clone()),
            }
        }
        Value::Array(items) => {
            let item = |(place, item): (usize, &Value)| {
                kept(item, &old[place], &seen[place], is_secret).map_err(|rest| format!("/{place}{rest}"))
            };
            items.iter().enumerate().map(item).collect()
        }
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                let is_secret = is_secret || is_secret_key(name);
                let kept = kept(value, &old[name.as_str()], &seen[name.as_str()], is_secret);
                let pointer = |rest| format!("/{}{rest}", name.replace('~', "~0").replace('/', "~1"));
                Ok((name.clone(), kept.map_err(pointer)?))
            };
            members.iter().map(member).collect::<Result<Map<_, _>, String>>().map(Value::Object)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(new.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_shown_placeholder_keeps_its_value_and_others_are_rejected() {
        let old = json!({"api_key": "k-123456", "to": [{"token": "t-123456"}], "n": 1});
        let seen = json!({"api_key": PLACEHOLDER, "to": [{"token": PLACEHOLDER}], "n": 1});
        assert_eq!(kept(&seen, &old, &seen, false).unwrap(), old);
        let new = json!({"api_key": "k-new", "to": [{"token": PLACEHOLDER}], "note": PLACEHOLDER});
        let saved = json!({"api_key": "k-new", "to": [{"token": "t-123456"}], "note": PLACEHOLDER});
        assert_eq!(kept(&new, &old, &seen, false).unwrap(), saved);
        for (new, pointer) in [
            (json!({"api_key": "x [redacted]"}), "/api_key"),
            (json!({"to": [{"a": 1}, {"token": PLACEHOLDER}]}), "/to/1/token"),
            (json!({"pass/word": PLACEHOLDER, "password": PLACEHOLDER}), "/pass~1word"),
        ] {
            assert_eq!(kept(&new, &old, &seen, false).unwrap_err(), pointer);
        }
    }

    #[test]
    fn a_value_that_was_hidden_and_would_be_shown_is_found_unless_it_was_entered() {
        let value = json!({"pin": "4711", "to": [{"iban": "DE12 of Ada"}], "n": 1});
        let before = json!({"pin": PLACEHOLDER, "to": [{"iban": "[redacted] of Ada"}], "n": 1});
        let found = |after: &Value, entered: Option<&Value>| unhidden(&value, &before, after, entered);
        assert_eq!(found(&before, None), None, "the same rules");
        assert_eq!(found(&json!(PLACEHOLDER), None), None, "everything is hidden");
        assert_eq!(found(&value, None).as_deref(), Some("/pin"));
        assert_eq!(found(&value, Some(&json!({"pin": PLACEHOLDER}))).as_deref(), Some("/pin"), "kept");
        assert_eq!(found(&value, Some(&json!({"pin": "4711"}))).as_deref(), Some("/to/0/iban"));
        assert_eq!(found(&value, Some(&value)), None, "entered again");
        let partly = json!({"pin": PLACEHOLDER, "to": [{"iban": "DE12 of [redacted]"}], "n": 1});
        assert_eq!(found(&partly, None).as_deref(), Some("/to/0/iban"), "another part of it is shown");
        assert_eq!(unhidden(&value, &value, &before, None), None, "more is hidden");
    }

    #[test]
    fn the_name_of_a_value_is_not_a_secret() {
        let template = json!({"token": "{{ event.token }}", "password": "{{event.x}}-salt", "list": [{"secret": "{{a[0]}}"}]});
        let hidden =
            json!({"token": "{{ event.token }}", "password": PLACEHOLDER, "list": [{"secret": "{{a[0]}}"}]});
        assert_eq!(with_expressions(&template, crate::text::redact::payload(&template)), hidden);
    }
}
