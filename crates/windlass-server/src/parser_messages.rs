//! The messages of parsers in plain words. A parser names the types of this program and the position in a text that the sender
//! may never have seen; the caller of this knows the name of the field and adds it.

/// A longer value is cut in the message.
const SHOWN: usize = 50;

/// What was expected, for a message of serde, serde_json, toml or the standard library. Any other message stays as it is.
pub(crate) fn plain(message: &str) -> String {
    let whole = message.trim();
    // serde_json ends its messages with a line and a column, toml with a line end.
    let place = whole.rsplit_once(" at line ").filter(|(_, place)| place.contains(" column "));
    let message = place.map_or(whole, |(message, _)| message);
    if let Some(found) = message.strip_prefix("unknown variant `") {
        let (given, known) = found.split_once("`, ").unwrap_or((found, ""));
        let given: String = given.chars().take(SHOWN).collect();
        return format!("must be one of {}, not {given:?}", names(known));
    }
    if let Some(found) = message.strip_prefix("unknown field `") {
        let known = found.split_once("`, ").map(|(_, known)| names(known)).unwrap_or_default();
        return if known.is_empty() {
            "unknown field".to_owned()
        } else {
            format!("unknown field; the known fields are {known}")
        };
    }
    if message.starts_with("missing field `") {
        return "is required".to_owned();
    }
    if message.starts_with("duplicate field `") {
        return "is specified twice".to_owned();
    }
    if message.starts_with("invalid type: ") || message.starts_with("invalid length ") {
        return expected(message).unwrap_or_else(|| "is invalid".to_owned());
    }
    if message.starts_with("invalid value: ") {
        return type_mismatch(message)
            .or_else(|| expected(message))
            .unwrap_or_else(|| "is invalid".to_owned());
    }
    let known = match message {
        // serde_json, about a value in the place of a name from a list.
        "expected value" => "must be a string",
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "must be a whole number"
        }
        "number too large to fit in target type" => "is too large",
        "number too small to fit in target type" => "is too small",
        "invalid float literal" | "cannot parse float from empty string" => "must be a number",
        "provided string was not `true` or `false`" => "must be true or false",
        "invalid socket address syntax" => "must be IP:PORT, such as 127.0.0.1:8080",
        uuid if uuid.contains("UUID parsing failed") => "must be a UUID",
        other => other,
    };
    known.to_owned()
}

/// The field that a message names because it is unknown, missing or given twice.
pub(crate) fn field_of(message: &str) -> Option<&str> {
    let named = ["unknown field `", "duplicate field `", "missing field `"];
    named.iter().find_map(|before| message.strip_prefix(before)?.split('`').next())
}

/// What is wrong with a text that should be JSON, after "is not valid JSON: " or "must be valid JSON: ".
pub(crate) fn json_fault(error: &serde_json::Error) -> String {
    let message = error.to_string();
    match field_of(&message) {
        Some(name) => format!("the name {name:?} is specified twice"),
        None => format!("see line {}, column {}", error.line(), error.column()),
    }
}

/// `must be` and the expectation at the end of a message.
fn expected(message: &str) -> Option<String> {
    let (_, kind) = message.rsplit_once(", expected ")?;
    let words = match kind {
        "a string" | "string" | "str" | "a borrowed string" | "a character" => "a string",
        "a boolean" | "bool" => "true or false",
        "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a sequence" => "a list",
        "a map" | "map" | "any valid JSON object" => "an object",
        uuid if uuid.contains("UUID") => "a UUID",
        number if number.starts_with("a nonzero ") => "a whole number other than 0",
        object if object.starts_with("struct ") || object.starts_with("internally tagged ") => "an object",
        list if list.starts_with("tuple ") || list.starts_with("an array of ") => "a list",
        name if name.contains("variant") || name.starts_with("enum ") || name == "string or map" => {
            "a string"
        }
        other => other,
    };
    Some(format!("must be {words}"))
}

/// An integer that does not fit its type. The range of the type is not the range of the field, so it is not named.
fn type_mismatch(message: &str) -> Option<String> {
    let (found, kind) = message.strip_prefix("invalid value: integer `")?.split_once("`, expected ")?;
    let is_unsigned = matches!(kind, "u8" | "u16" | "u32" | "u64" | "usize");
    if !is_unsigned && !matches!(kind, "i8" | "i16" | "i32" | "i64" | "isize") {
        return None;
    }
    let words = match found.starts_with('-') {
        true if is_unsigned => "must not be negative",
        true => "is too small",
        false => "is too large",
    };
    Some(words.to_owned())
}

/// The names in "expected one of `a`, `b`", "expected `a` or `b`" and "expected `a`".
fn names(expected: &str) -> String {
    expected.split('`').skip(1).step_by(2).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its errors are read")]
    struct Example {
        name: String,
        count: Option<u16>,
        share: Option<f64>,
        is_new: Option<bool>,
        list: Option<Vec<String>>,
        inner: Option<Box<Example>>,
        id: Option<uuid::Uuid>,
        color: Option<Color>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Color {
        Red,
        DarkBlue,
    }

    #[test]
    fn no_type_of_a_program_is_in_a_message() {
        for (json, expected) in [
            (r#"{"name": 1}"#, "must be a string"),
            (r#"{"name": "a", "count": "x, expected y"}"#, "must be a whole number"),
            (r#"{"name": "a", "count": 1.5}"#, "must be a whole number"),
            (r#"{"name": "a", "count": 70000}"#, "is too large"),
            (r#"{"name": "a", "count": -3}"#, "must not be negative"),
            (r#"{"name": "a", "share": "x"}"#, "must be a number"),
            (r#"{"name": "a", "is_new": "yes"}"#, "must be true or false"),
            (r#"{"name": "a", "list": {}}"#, "must be a list"),
            (r#"{"name": "a", "inner": 5}"#, "must be an object"),
            (r#"{"name": "a", "id": 5}"#, "must be a UUID"),
            (r#"{"name": "a", "id": "5"}"#, "must be a UUID"),
            (r#"{"name": "a", "color": 5}"#, "must be a string"),
            (r#"{"name": "a", "color": "pink"}"#, "must be one of red, dark_blue, not \"pink\""),
            (r#"{"name": "a", "name": "b"}"#, "is specified twice"),
            ("{}", "is required"),
            (
                r#"{"nam": "a"}"#,
                "unknown field; the known fields are name, count, share, is_new, list, inner, id, color",
            ),
        ] {
            let error = serde_json::from_str::<Example>(json).unwrap_err();
            assert_eq!(plain(&error.to_string()), expected, "{json}");
        }
        let toml = toml::from_str::<Example>("name = 'a'\ncount = 'x'").unwrap_err();
        assert_eq!(plain(toml.message()), "must be a whole number");
        assert_eq!(plain("must be an instant"), "must be an instant");
    }
}
