//! Duplicate names in an object. The last one counts.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// Whether the names of one object, as written with their quotes, may contain duplicates. A name with an escape may be
/// equal to any other, because it is not decoded here.
pub(super) fn may_repeat(names: &mut [&str]) -> bool {
    names.sort_unstable();
    names.windows(2).any(|two| two[0] == two[1]) || names.iter().any(|name| name.contains('\\'))
}

/// The document without duplicate names. Numbers and strings do not change. Recurses as deep as the limits allow.
pub(super) fn last_of_each(text: &str) -> String {
    let rewritten = |raw: &RawValue| last_of_each(raw.get());
    if let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(text) {
        let member = |(name, value): (&String, &&RawValue)| {
            format!("{}:{}", serde_json::Value::from(name.as_str()), rewritten(value))
        };
        format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
    } else if let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(text) {
        format!("[{}]", elements.into_iter().map(rewritten).collect::<Vec<_>>().join(","))
    } else {
        text.to_owned()
    }
}
