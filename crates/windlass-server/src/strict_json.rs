//! JSON without a duplicate name in any object. Of two claims, or two fields of a definition, with the same name, another reader
//! may use the other one, so such a token or request is rejected. Payloads are data of the application: there the last one counts.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A value in which every name of an object occurs once.
#[derive(Debug)]
pub(crate) struct StrictJson(pub(crate) Value);

impl<'de> Deserialize<'de> for StrictJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Values).map(Self)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without duplicate names")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(StrictJson(value)) = from.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some((name, StrictJson(value))) = from.next_entry::<String, StrictJson>()? {
            if values.contains_key(&name) {
                return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
            }
            values.insert(name, value);
        }
        Ok(Value::Object(values))
    }
}

#[cfg(test)]
mod tests {
    use super::StrictJson;

    #[test]
    fn a_name_that_occurs_twice_in_an_object_is_rejected_at_any_depth() {
        let read = |text: &str| serde_json::from_str::<StrictJson>(text).map(|unique| unique.0);
        let valid = r#"{"a": [1, -2, 0.5, "x", true, null, {"a": {}}], "b": {"a": 1}}"#;
        assert_eq!(read(valid).unwrap(), serde_json::from_str::<serde_json::Value>(valid).unwrap());
        for text in
            [r#"{"a": 1, "a": 1}"#, r#"{"x": {"a": 1, "\u0061": 2}}"#, r#"[{"a": 1, "b": 2, "a": 3}]"#]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
