//! Text that must not be printed: it has no `Display`, and its `Debug` shows only a placeholder.

use std::fmt;

/// A secret text.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes the text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The only way to read it; every use can be found by this name.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl<'de> serde::Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Not deserialize_string: its error in serde_json contains the value.
        from.deserialize_any(Text)
    }
}

/// Accepts only strings. The errors of serde contain the invalid value; these do not.
struct Text;

impl serde::de::Visitor<'_> for Text {
    type Value = Secret;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Secret, E> {
        Ok(Secret::new(text))
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<Secret, E> {
        Err(E::custom("must be a string"))
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<Secret, E> {
        Err(E::custom("must be a string"))
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<Secret, E> {
        Err(E::custom("must be a string"))
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<Secret, E> {
        Err(E::custom("must be a string"))
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn a_value_that_is_not_a_string_is_rejected_without_being_printed() {
        for wrong in ["123456789", "-123456789", "1234.56789", "true", "[123456789]", "{\"a\": 123456789}"] {
            let error = serde_json::from_str::<Secret>(wrong).unwrap_err().to_string();
            assert!(
                error.contains("a string") && !error.contains("1234") && !error.contains("true"),
                "{error}"
            );
        }
    }
}
