//! Payloads made from a template and an event or a due instant.
//!
//! A template is JSON. `{{path}}` inside a text stands for the value at that path; a text that is nothing but one
//! `{{path}}` becomes that value with its type, so numbers, lists and null survive. A path that leads nowhere is an error
//! that names it, unless the place gives a default: `{{event.size | default(0)}}`.
//!
//! There is no code in it: values are put in once and never read again as a template, and names of members are never
//! touched. What comes out is bounded, however often a large value is asked for.

mod parse;

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Bytes that the values put in may have together; a payload may not be larger anyway.
const MOST_BYTES: usize = 1024 * 1024;

/// A template that was read and checked.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    root: Node,
}

#[derive(Debug, Clone)]
enum Node {
    Plain(Value),
    /// Keeps the type of what it stands for.
    Whole(Placeholder),
    Text(Vec<Piece>),
    List(Vec<Node>),
    Members(Vec<(String, Node)>),
}

#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Placeholder(Placeholder),
}

/// One `{{…}}`.
#[derive(Debug, Clone)]
struct Placeholder {
    path: Vec<String>,
    default: Option<Value>,
}

impl Template {
    /// Reads a template; every path must begin with one of the roots.
    pub(crate) fn parse(template: &Value, roots: &[&str]) -> Result<Self> {
        Ok(Self { root: parse::node(template, roots, &mut TemplatePath::default())? })
    }

    /// The payload for one event or instant. `values` are the roots with what they stand for.
    pub(crate) fn render(&self, values: &[(&str, &Value)]) -> Result<Value> {
        let mut rendering = Rendering { values, bytes: 0, place: TemplatePath::default() };
        rendering.node(&self.root)
    }
}

struct Rendering<'a> {
    values: &'a [(&'a str, &'a Value)],
    bytes: usize,
    place: TemplatePath,
}

impl<'a> Rendering<'a> {
    fn node(&mut self, node: &Node) -> Result<Value> {
        match node {
            Node::Plain(value) => Ok(value.clone()),
            Node::Whole(slot) => {
                let value = self.find(slot)?;
                self.count(weight(value))?;
                Ok(value.clone())
            }
            Node::Text(pieces) => self.text(pieces).map(Value::String),
            Node::List(items) => {
                let items = items.iter().enumerate();
                items.map(|(index, item)| self.inside(&index.to_string(), item)).collect()
            }
            Node::Members(members) => {
                let mut rendered = Map::with_capacity(members.len());
                for (name, member) in members {
                    rendered.insert(name.clone(), self.inside(name, member)?);
                }
                Ok(Value::Object(rendered))
            }
        }
    }

    fn inside(&mut self, segment: &str, node: &Node) -> Result<Value> {
        self.place.enter(segment);
        let rendered = self.node(node)?;
        self.place.leave();
        Ok(rendered)
    }

    fn text(&mut self, pieces: &[Piece]) -> Result<String> {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Placeholder(slot) => {
                    let value = self.find(slot)?;
                    self.count(weight(value))?;
                    match value {
                        Value::String(inner) => text.push_str(inner),
                        Value::Number(_) | Value::Bool(_) => text.push_str(&value.to_string()),
                        Value::Null | Value::Array(_) | Value::Object(_) => {
                            let message = format!(
                                "{} is {}, which cannot stand inside a text; make it the whole text",
                                slot.path.join("."),
                                kind(value)
                            );
                            return Err(self.place.refuse(message));
                        }
                    }
                }
            }
        }
        Ok(text)
    }

    fn find<'s>(&self, slot: &'s Placeholder) -> Result<&'s Value>
    where
        'a: 's,
    {
        let root = self.values.iter().find(|(name, _)| *name == slot.path[0]).map(|(_, value)| *value);
        let mut found = root;
        for segment in &slot.path[1..] {
            found = match found {
                Some(Value::Object(members)) => members.get(segment),
                Some(Value::Array(items)) => segment.parse().ok().and_then(|index: usize| items.get(index)),
                _ => None,
            };
        }
        found.or(slot.default.as_ref()).ok_or_else(|| {
            self.place
                .refuse(format!("{} is missing, and the template gives no default", slot.path.join(".")))
        })
    }

    fn count(&mut self, bytes: usize) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MOST_BYTES {
            return Err(self.place.refuse(format!("renders to more than {MOST_BYTES} bytes")));
        }
        Ok(())
    }
}

/// About how many bytes a value takes as JSON; never walks far past the limit.
fn weight(value: &Value) -> usize {
    let mut bytes = 0;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        bytes += match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 8,
            Value::String(text) => text.len() + 2,
            Value::Array(items) => {
                open.extend(items);
                items.len() + 2
            }
            Value::Object(members) => {
                open.extend(members.values());
                members.keys().map(|name| name.len() + 4).sum::<usize>() + 2
            }
        };
        if bytes > MOST_BYTES {
            break;
        }
    }
    bytes
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Where in the template we are, for messages.
#[derive(Default)]
struct TemplatePath {
    segments: Vec<String>,
}

impl TemplatePath {
    fn enter(&mut self, segment: &str) {
        self.segments.push(segment.replace('~', "~0").replace('/', "~1"));
    }

    fn leave(&mut self) {
        self.segments.pop();
    }

    fn refuse(&self, message: String) -> Error {
        let pointer: String = self.segments.iter().map(|segment| format!("/{segment}")).collect();
        Error::Refused { field: "payload_template".to_owned(), pointer: Some(pointer), message }
    }
}

#[cfg(test)]
mod tests;
