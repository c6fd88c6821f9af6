//! Renders payloads from a template and an event or a due instant.
//!
//! A template is JSON. `{{path}}` within a string is replaced by the value at that path; a string that consists of one
//! `{{path}}` becomes that value with its type, so that numbers, lists and null are preserved. A path without a value
//! is an error that contains the path, unless there is a default: `{{event.size | default(0)}}`.
//!
//! A template contains no code: values are inserted once and never parsed as a template, and field names never change.
//! The size of the result is counted while it is rendered, so that no more than the limit is ever built, however often a
//! large value is inserted.

mod parse;

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// The maximum size of the result as JSON, in bytes: that of a payload.
const MAX_BYTES: usize = 1024 * 1024;

/// A parsed and checked template.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    root: Node,
}

#[derive(Debug, Clone)]
enum Node {
    Plain(Value),
    /// Keeps the type of the inserted value.
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
    /// Parses a template; every path must start with one of the roots.
    pub(crate) fn parse(template: &Value, roots: &[&str]) -> Result<Self> {
        Ok(Self { root: parse::node(template, roots, &mut TemplatePath::default())? })
    }

    /// Renders the payload of one event or instant. `values` are the values of the roots. Returns `None` if the result
    /// has more than `room` bytes, and an error in it if it has more than any payload may have.
    pub(crate) fn render(&self, values: &[(&str, &Value)], room: usize) -> Option<Rendered> {
        let most = room.min(MAX_BYTES);
        let mut rendering = Rendering { values, left: most, place: TemplatePath::default() };
        match rendering.node(&self.root) {
            Ok(payload) => Some(Rendered { payload: Ok(payload), bytes: most - rendering.left }),
            Err(RenderStop::Refused(error)) => {
                Some(Rendered { payload: Err(error), bytes: most - rendering.left })
            }
            Err(RenderStop::Full) if most < MAX_BYTES => None,
            Err(RenderStop::Full) => {
                let error = rendering.place.refuse(format!("renders to more than {MAX_BYTES} bytes"));
                Some(Rendered { payload: Err(error), bytes: most })
            }
        }
    }
}

/// A payload, or why there is none; and the size of what was rendered in both cases. A limit counts all of it: a payload
/// that is refused later took as much time and memory as one that is accepted.
pub(crate) struct Rendered {
    pub(crate) payload: Result<Value>,
    pub(crate) bytes: usize,
}

impl Rendered {
    /// Nothing was rendered, because the template or the schedule is invalid.
    pub(crate) fn nothing(error: Error) -> Self {
        Self { payload: Err(error), bytes: 0 }
    }
}

/// Why a rendering ended early.
enum RenderStop {
    Refused(Error),
    /// The bytes are used up.
    Full,
}

struct Rendering<'a> {
    values: &'a [(&'a str, &'a Value)],
    /// How many bytes of JSON may still be added.
    left: usize,
    place: TemplatePath,
}

impl<'a> Rendering<'a> {
    fn node(&mut self, node: &Node) -> Result<Value, RenderStop> {
        match node {
            Node::Plain(value) => self.copy(value),
            Node::Whole(slot) => {
                let value = self.find(slot)?;
                self.copy(value)
            }
            Node::Text(pieces) => self.text(pieces).map(Value::String),
            Node::List(items) => {
                // The brackets and the commas.
                self.count(1 + items.len().max(1))?;
                let items = items.iter().enumerate();
                items.map(|(index, item)| self.inside(&index.to_string(), item)).collect()
            }
            Node::Members(members) => {
                self.count(1 + members.len().max(1))?;
                let mut rendered = Map::with_capacity(members.len());
                for (name, member) in members {
                    self.count(text_bytes(name) + 3)?;
                    rendered.insert(name.clone(), self.inside(name, member)?);
                }
                Ok(Value::Object(rendered))
            }
        }
    }

    fn inside(&mut self, segment: &str, node: &Node) -> Result<Value, RenderStop> {
        self.place.enter(segment);
        let rendered = self.node(node)?;
        self.place.leave();
        Ok(rendered)
    }

    /// Counted before it is copied.
    fn copy(&mut self, value: &Value) -> Result<Value, RenderStop> {
        self.count(weight(value, self.left))?;
        Ok(value.clone())
    }

    fn text(&mut self, pieces: &[Piece]) -> Result<String, RenderStop> {
        self.count(2)?;
        let mut text = String::new();
        for piece in pieces {
            let slot = match piece {
                Piece::Text(plain) => {
                    self.count(text_bytes(plain))?;
                    text.push_str(plain);
                    continue;
                }
                Piece::Placeholder(slot) => slot,
            };
            match self.find(slot)? {
                Value::String(inner) => {
                    self.count(text_bytes(inner))?;
                    text.push_str(inner);
                }
                value @ (Value::Number(_) | Value::Bool(_)) => {
                    let plain = value.to_string();
                    self.count(plain.len())?;
                    text.push_str(&plain);
                }
                value @ (Value::Null | Value::Array(_) | Value::Object(_)) => {
                    let message = format!(
                        "{} is {}, which cannot be part of a longer string; make it the whole string",
                        slot.path.join("."),
                        kind(value)
                    );
                    return Err(RenderStop::Refused(self.place.refuse(message)));
                }
            }
        }
        Ok(text)
    }

    fn find<'s>(&self, slot: &'s Placeholder) -> Result<&'s Value, RenderStop>
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
            RenderStop::Refused(
                self.place.refuse(format!("{} is missing and has no default", slot.path.join("."))),
            )
        })
    }

    fn count(&mut self, bytes: usize) -> Result<(), RenderStop> {
        self.left = self.left.checked_sub(bytes).ok_or(RenderStop::Full)?;
        Ok(())
    }
}

/// The size of a value as JSON, in bytes; stops soon after `most`.
fn weight(value: &Value, most: usize) -> usize {
    let mut bytes = 0;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        bytes += match value {
            Value::Null => 4,
            Value::Bool(_) | Value::Number(_) => value.to_string().len(),
            Value::String(text) => text_bytes(text) + 2,
            Value::Array(items) => {
                open.extend(items);
                1 + items.len().max(1)
            }
            Value::Object(members) => {
                open.extend(members.values());
                members.keys().map(|name| text_bytes(name) + 3).sum::<usize>() + 1 + members.len().max(1)
            }
        };
        if bytes > most {
            break;
        }
    }
    bytes
}

/// The size of a text within a JSON string, in bytes.
fn text_bytes(text: &str) -> usize {
    let escapes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        0..0x20 => 5,
        _ => 0,
    });
    text.len() + escapes.sum::<usize>()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The current location in the template, for messages.
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
