//! JSON as a tree that folds, in plain `<details>`: it works without script, and a large value stays small on the page.

use serde_json::Value;

use super::html::{Html, escape_into};

/// Deeper and longer than this nobody reads; the whole value is one copy away.
const DEEPEST: usize = 24;
const MOST_ENTRIES: usize = 200;
const LONGEST_TEXT: usize = 2000;

/// Bytes of markup after which no more entries are added: a page stays small whatever it shows.
const LARGEST: usize = 24_000;

/// Levels that are open at first.
const OPEN: usize = 2;

pub(crate) fn json_view(value: &Value) -> Html {
    let mut out =
        String::from("<div class=\"json\" dir=\"ltr\" tabindex=\"0\" role=\"group\" aria-label=\"JSON\">");
    write_value(&mut out, None, value, 0);
    out.push_str("</div>");
    Html(out)
}

fn write_value(out: &mut String, key: Option<&str>, value: &Value, depth: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let entries = map.iter().map(|(key, value)| (Some(key.as_str()), value));
            write_branch(out, key, ('{', '}'), map.len(), entries, depth);
        }
        Value::Array(items) if !items.is_empty() => {
            write_branch(out, key, ('[', ']'), items.len(), items.iter().map(|value| (None, value)), depth);
        }
        leaf => {
            write_key(out, key);
            write_leaf(out, leaf);
        }
    }
}

fn write_branch<'a>(
    out: &mut String,
    key: Option<&str>,
    (open, close): (char, char),
    size: usize,
    entries: impl Iterator<Item = (Option<&'a str>, &'a Value)>,
    depth: usize,
) {
    if depth >= DEEPEST {
        write_key(out, key);
        out.push_str("<span class=\"size\">…</span>");
        return;
    }
    out.push_str(if depth < OPEN { "<details open><summary>" } else { "<details><summary>" });
    write_key(out, key);
    let noun = match (open, size) {
        ('{', 1) => "1 key".to_owned(),
        ('{', _) => format!("{size} keys"),
        (_, 1) => "1 item".to_owned(),
        _ => format!("{size} items"),
    };
    out.push(open);
    out.push_str(" <span class=\"size\">");
    out.push_str(&noun);
    out.push_str("</span></summary><ul>");
    let mut shown = 0;
    for (key, value) in entries.take(MOST_ENTRIES) {
        if out.len() > LARGEST {
            break;
        }
        out.push_str("<li>");
        write_value(out, key, value, depth + 1);
        out.push_str("</li>");
        shown += 1;
    }
    if size > shown {
        out.push_str(&format!("<li class=\"size\">and {} more</li>", size - shown));
    }
    out.push_str("</ul>");
    out.push(close);
    out.push_str("</details>");
}

fn write_key(out: &mut String, key: Option<&str>) {
    let Some(key) = key else { return };
    out.push_str("<span class=\"key\">");
    escape_into(out, key);
    out.push_str("</span>: ");
}

fn write_leaf(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => {
            out.push_str("<span class=\"text\" dir=\"auto\">");
            let shown: String = text.chars().take(LONGEST_TEXT).collect();
            escape_into(out, &format!("\"{shown}\""));
            if shown.len() < text.len() {
                out.push_str("<span class=\"size\"> and more</span>");
            }
            out.push_str("</span>");
        }
        Value::Number(number) => out.push_str(&format!("<span class=\"num\">{number}</span>")),
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        Value::Null | Value::Bool(_) => out.push_str(&format!("<span class=\"word\">{value}</span>")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::json_view;

    #[test]
    fn keys_and_values_are_text_only() {
        let html = json_view(&json!({"<b>": ["<img src=x onerror=alert(1)>", null, 1]})).0;
        assert!(html.contains("&lt;b&gt;") && html.contains("&lt;img"), "{html}");
        assert!(!html.contains("<b>") && !html.contains("<img"), "{html}");
    }

    #[test]
    fn a_deep_or_long_value_stays_bounded() {
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        assert!(json_view(&deep).0.len() < 5_000);
        assert!(json_view(&json!(vec![0; 100_000])).0.contains("and 99800 more"));
        assert!(json_view(&json!("x".repeat(1_000_000))).0.len() < 3_000);
        let wide = json!(vec![json!({"a": "x".repeat(500), "b": ["y".repeat(500)]}); 500]);
        let html = json_view(&wide).0;
        assert!(html.len() < 30_000 && html.contains(" more</li>"), "{}", html.len());
    }
}
