//! JSON as a tree of `<details>` elements that can be folded: it works without a script, and a large value takes little
//! space on the page.

use askama::Template;
use serde_json::Value;

use super::count::count_words;
use super::html::{Html, visible};

/// The maximum depth and length that are shown; the whole value can be copied.
const MAX_DEPTH: usize = 24;
const MAX_ENTRIES: usize = 200;
const MAX_TEXT_LENGTH: usize = 2000;

/// The approximate number of bytes of markup after which no more entries are shown, so that a page stays small for any
/// value.
const LARGEST: usize = 24_000;

/// The bytes that one entry adds to the page, in addition to its text.
const ENTRY: usize = 60;
const BRANCH: usize = 100;

/// The number of levels that are open at first.
const OPEN: usize = 2;

/// A value to show.
#[derive(Template)]
#[template(path = "json_view.html")]
pub(crate) struct JsonView {
    root: Node,
}

impl JsonView {
    pub(crate) fn new(value: &Value) -> Self {
        Self { root: Node::new(None, value, 0, &mut 0) }
    }

    pub(crate) fn html(&self) -> askama::Result<Html> {
        Html::rendered(self)
    }
}

/// One value with its key.
#[derive(Template)]
#[template(path = "json_view_node.html")]
struct Node {
    key: Option<String>,
    value: ShownJson,
}

enum ShownJson {
    Branch {
        open: char,
        close: char,
        /// "3 keys"
        size: String,
        is_open: bool,
        members: Vec<Node>,
        more: usize,
    },
    Text {
        text: String,
        is_cut: bool,
    },
    Leaf {
        class: &'static str,
        text: String,
    },
    /// An empty object or array.
    Nothing(&'static str),
}

impl Node {
    fn html(&self) -> askama::Result<Html> {
        Html::rendered(self)
    }

    /// `spent`: the approximate number of bytes on the page so far.
    fn new(key: Option<&str>, value: &Value, depth: usize, spent: &mut usize) -> Self {
        *spent += ENTRY + key.map_or(0, str::len);
        let shown = match value {
            Value::Object(map) if !map.is_empty() => {
                let members = map.iter().map(|(key, value)| (Some(key.as_str()), value));
                branch(('{', '}'), (map.len(), "key"), members, depth, spent)
            }
            Value::Array(items) if !items.is_empty() => {
                let members = items.iter().map(|value| (None, value));
                branch(('[', ']'), (items.len(), "item"), members, depth, spent)
            }
            Value::Object(_) => ShownJson::Nothing("{}"),
            Value::Array(_) => ShownJson::Nothing("[]"),
            Value::String(text) => {
                let shown: String = text.chars().take(MAX_TEXT_LENGTH).collect();
                *spent += shown.len();
                ShownJson::Text { is_cut: shown.len() < text.len(), text: visible(&shown) }
            }
            Value::Number(number) => ShownJson::Leaf { class: "num", text: number.to_string() },
            Value::Null | Value::Bool(_) => ShownJson::Leaf { class: "word", text: value.to_string() },
        };
        Self { key: key.map(visible), value: shown }
    }
}

fn branch<'a>(
    (open, close): (char, char),
    (size, noun): (usize, &str),
    members: impl Iterator<Item = (Option<&'a str>, &'a Value)>,
    depth: usize,
    spent: &mut usize,
) -> ShownJson {
    if depth >= MAX_DEPTH {
        return ShownJson::Leaf { class: "size", text: "…".to_owned() };
    }
    *spent += BRANCH;
    let mut shown = Vec::new();
    for (key, value) in members.take(MAX_ENTRIES) {
        if *spent > LARGEST {
            break;
        }
        shown.push(Node::new(key, value, depth + 1, spent));
    }
    ShownJson::Branch {
        open,
        close,
        size: count_words(size, noun),
        is_open: depth < OPEN,
        more: size - shown.len(),
        members: shown,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::JsonView;

    fn json_view(value: &serde_json::Value) -> String {
        JsonView::new(value).html().unwrap().to_string()
    }

    #[test]
    fn keys_and_values_are_escaped() {
        let html = json_view(&json!({"<b>": ["<img src=x onerror=alert(1)>", null, 1]}));
        assert!(html.contains("&#60;b&#62;") && html.contains("&#60;img"), "{html}");
        assert!(!html.contains("<b>") && !html.contains("<img"), "{html}");
    }

    #[test]
    fn a_deep_or_long_value_stays_bounded() {
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        assert!(json_view(&deep).len() < 5_000);
        assert!(json_view(&json!(vec![0; 100_000])).contains("and 99800 more"));
        assert!(json_view(&json!("x".repeat(1_000_000))).len() < 3_000);
        let wide = json!(vec![json!({"a": "x".repeat(500), "b": ["y".repeat(500)]}); 500]);
        let html = json_view(&wide);
        assert!(html.len() < 30_000 && html.contains(" more</li>"), "{}", html.len());
    }
}
