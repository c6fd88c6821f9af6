//! Parses a template: JSON whose strings can contain `{{path}}`, `{{path | default(JSON)}}` or `{{"text"}}` for a
//! literal.

use serde_json::Value;

use super::{Node, Piece, Placeholder, TemplatePath};
use crate::error::Result;
use crate::text::redact::{hides_numbers, is_secret_key};

const MAX_DEPTH: usize = 32;

pub(super) fn node(template: &Value, roots: &[&str], place: &mut TemplatePath) -> Result<Node> {
    if place.segments.len() > MAX_DEPTH {
        return Err(place.refuse(format!("is nested more than {MAX_DEPTH} levels deep")));
    }
    Ok(match template {
        Value::Null | Value::Bool(_) | Value::Number(_) => Node::Plain(template.clone()),
        Value::String(text) => self::text(text, roots, place)?,
        Value::Array(items) => {
            let mut nodes = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                nodes.push(inside(&index.to_string(), item, roots, place)?);
            }
            Node::List(nodes)
        }
        Value::Object(members) => {
            let mut nodes = Vec::with_capacity(members.len());
            for (name, member) in members {
                nodes.push((name.clone(), inside(name, member, roots, place)?));
            }
            Node::Members(nodes)
        }
    })
}

fn inside(segment: &str, template: &Value, roots: &[&str], place: &mut TemplatePath) -> Result<Node> {
    place.enter(segment);
    let node = node(template, roots, place)?;
    place.leave();
    Ok(node)
}

fn text(text: &str, roots: &[&str], place: &TemplatePath) -> Result<Node> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        push_text(&mut pieces, &rest[..start]);
        let inner = &rest[start + 2..];
        let end = end_of(inner).ok_or_else(|| place.refuse("has a {{ without a matching }}".to_owned()))?;
        let written = inner[..end].trim();
        match literal(written) {
            Some(plain) => push_text(&mut pieces, &plain),
            None => pieces.push(Piece::Placeholder(slot(written, roots, place)?)),
        }
        rest = &inner[end + 2..];
    }
    push_text(&mut pieces, rest);
    Ok(match pieces.as_mut_slice() {
        [] => Node::Plain(Value::String(String::new())),
        [Piece::Text(plain)] => Node::Plain(Value::String(std::mem::take(plain))),
        [Piece::Placeholder(slot)] => Node::Whole(slot.clone()),
        _ => Node::Text(pieces),
    })
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(Piece::Text(before)) => before.push_str(text),
        _ => pieces.push(Piece::Text(text.to_owned())),
    }
}

/// Finds the closing `}}`, skipping those in quotes or in a default.
fn end_of(inner: &str) -> Option<usize> {
    let bytes = inner.as_bytes();
    let (mut in_quotes, mut open, mut at) = (false, 0_usize, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_quotes => at += 1,
            b'"' => in_quotes = !in_quotes,
            b'(' if !in_quotes => open += 1,
            b')' if !in_quotes => open = open.saturating_sub(1),
            b'}' if !in_quotes && open == 0 && bytes.get(at + 1) == Some(&b'}') => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

fn literal(written: &str) -> Option<String> {
    written.starts_with('"').then(|| serde_json::from_str(written).ok()).flatten()
}

fn slot(written: &str, roots: &[&str], place: &TemplatePath) -> Result<Placeholder> {
    let (path, filter) = match written.split_once('|') {
        Some((path, filter)) => (path.trim(), Some(filter.trim())),
        None => (written, None),
    };
    let default = filter.map(|filter| {
        let inner = filter.strip_prefix("default(").and_then(|rest| rest.strip_suffix(')'));
        let default = inner.and_then(|inner| serde_json::from_str(inner.trim()).ok());
        default
            .ok_or_else(|| place.refuse(format!("only default(JSON) can follow |, not {:?}", short(filter))))
    });
    let path: Vec<String> = path.split('.').map(str::to_owned).collect();
    let is_segment = |segment: &String| {
        !segment.is_empty()
            && segment.len() <= 200
            && !segment.contains(|c: char| c.is_whitespace() || "{}()[]|\"'".contains(c))
    };
    if !path.iter().all(is_segment) || path.len() > MAX_DEPTH {
        return Err(place.refuse(format!(
            "{:?} is not a path: use names separated by dots, such as event.folder.id",
            short(written)
        )));
    }
    if !roots.contains(&path[0].as_str()) {
        return Err(place.refuse(format!(
            "{:?} does not start with one of {}",
            short(written),
            roots.join(", ")
        )));
    }
    // A value that is redacted because of its name must not get another name, nor a number the name of a count.
    let secret = path[1..].iter().find(|segment| is_secret_key(segment));
    let stays_hidden = match hides_numbers(&path[1..]) {
        true => hides_numbers(&place.segments),
        false => place.segments.iter().any(|segment| is_secret_key(segment)),
    };
    if let Some(secret) = secret.filter(|_| !stays_hidden) {
        return Err(place.refuse(format!(
            "{:?} is a hidden value that would be visible here; use a field name such as {secret}",
            short(written)
        )));
    }
    Ok(Placeholder { path, default: default.transpose()? })
}

fn short(text: &str) -> String {
    text.chars().take(80).collect()
}
