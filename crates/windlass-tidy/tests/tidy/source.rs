//! A minimal Rust lexer: separates code from comments and strings, and tests from other code.

/// One Rust file, split up. The texts have the length of the original, so that offsets are the same in each.
pub(crate) struct Source {
    /// The code, with comments and the insides of strings blanked out.
    pub(crate) code: String,
    /// The code and the comments, with the insides of strings blanked out.
    pub(crate) prose: String,
    pub(crate) strings: Vec<Literal>,
    test_parts: Vec<std::ops::Range<usize>>,
}

/// A string literal, as written between its quotes.
pub(crate) struct Literal {
    pub(crate) start: usize,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn read(text: &str) -> Source {
        let mut code = text.as_bytes().to_vec();
        let mut prose = code.clone();
        let mut strings = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let (kind, end) = next_part(text, at);
            match kind {
                Part::Code => {}
                Part::Comment => blank(&mut code[at..end]),
                Part::Text { start, end } => {
                    strings.push(Literal { start, text: text[start..end].to_owned() });
                    blank(&mut code[start..end]);
                    blank(&mut prose[start..end]);
                }
            }
            at = end;
        }
        let text_of = |bytes| String::from_utf8(bytes).expect("whole parts are blanked");
        let code = text_of(code);
        Source { test_parts: test_parts(&code), code, prose: text_of(prose), strings }
    }

    /// Whether the code at the offset is compiled for tests only.
    pub(crate) fn is_test(&self, offset: usize) -> bool {
        self.test_parts.iter().any(|part| part.contains(&offset))
    }

    /// Every path that the code names from `crate`, with its offset: `use crate::{a, b::c}` names two.
    pub(crate) fn crate_paths(&self) -> Vec<(usize, String)> {
        occurrences(&self.code, "crate::")
            .flat_map(|offset| {
                let rest = &self.code[offset + "crate::".len()..];
                expand(rest).into_iter().map(move |path| (offset, path))
            })
            .collect()
    }
}

/// Every offset of the needle.
pub(crate) fn occurrences<'a>(text: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(needle).map(|(offset, _)| offset)
}

/// Every offset of the needle that does not continue an identifier.
pub(crate) fn starts<'a>(text: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    occurrences(text, needle).filter(|&offset| !text[..offset].ends_with(is_name))
}

/// Every offset of the needle as a whole word.
pub(crate) fn words<'a>(text: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    starts(text, needle).filter(move |&offset| !text[offset + needle.len()..].starts_with(is_name))
}

/// The line of an offset, counted from one.
pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count() + 1
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

enum Part {
    Code,
    Comment,
    /// The range between the quotes.
    Text {
        start: usize,
        end: usize,
    },
}

/// The part that starts at the offset, and where it ends.
fn next_part(text: &str, at: usize) -> (Part, usize) {
    let rest = &text[at..];
    let to_end = |found: Option<usize>| found.map_or(text.len(), |length| at + length);
    if rest.starts_with("//") {
        return (Part::Comment, to_end(rest.find('\n')));
    }
    if rest.starts_with("/*") {
        return (Part::Comment, at + block_comment(rest));
    }
    if rest.starts_with('\'') {
        return (Part::Code, at + character(rest));
    }
    if !text[..at].ends_with(is_name)
        && let Some(prefix) = string_prefix(rest)
    {
        let start = at + prefix.len();
        let inside = &text[start..];
        let hashes = prefix.bytes().filter(|&byte| byte == b'#').count();
        let length = if prefix.contains('r') {
            inside.find(&format!("\"{}", "#".repeat(hashes)))
        } else {
            closing_quote(inside)
        };
        let end = length.map_or(text.len(), |length| start + length);
        return (Part::Text { start, end }, text.len().min(end + 1 + hashes));
    }
    (Part::Code, at + rest.chars().next().map_or(1, char::len_utf8))
}

/// The opening of a string literal, up to and with its quote: `"`, `b"`, `r#"`.
fn string_prefix(rest: &str) -> Option<&str> {
    let letters = rest.find(|letter| !matches!(letter, 'b' | 'c' | 'r'))?;
    let raw = rest[..letters].ends_with('r');
    let hashes = if raw { rest[letters..].bytes().take_while(|&byte| byte == b'#').count() } else { 0 };
    let quote = letters + hashes;
    (letters <= 2 && rest[quote..].starts_with('"')).then(|| &rest[..=quote])
}

fn closing_quote(inside: &str) -> Option<usize> {
    let mut escaped = false;
    inside.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest.as_bytes()[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.as_bytes()[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// The length of a character literal, or of the quote alone if it starts a lifetime.
fn character(rest: &str) -> usize {
    let mut letters = rest.char_indices().skip(1);
    match (letters.next(), letters.next()) {
        (Some((_, '\\')), Some((escaped, _))) => {
            rest[escaped + 1..].find('\'').map_or(rest.len(), |length| escaped + 1 + length + 1)
        }
        (Some(_), Some((close, '\''))) => close + 1,
        _ => 1,
    }
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().filter(|byte| **byte != b'\n') {
        *byte = b' ';
    }
}

/// The items under a `cfg` attribute with `test`, from the attribute to the closing brace.
fn test_parts(code: &str) -> Vec<std::ops::Range<usize>> {
    let whole = occurrences(code, "#![cfg(test)]").map(|_| 0..code.len());
    let items = occurrences(code, "#[cfg(").filter_map(|start| {
        let attribute = &code[start..start + code[start..].find(']')?];
        let asks = words(attribute, "test").next().is_some() && !attribute.contains("not(test");
        asks.then(|| start..item_end(code, start + attribute.len()))
    });
    whole.chain(items).collect()
}

/// Where the item that starts at the offset ends.
pub(crate) fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return offset + 1,
            b'}' => depth -= 1,
            b';' if depth == 0 => return offset + 1,
            _ => {}
        }
    }
    code.len()
}

/// The paths at the start of the text, groups in braces written out.
pub(crate) fn expand(text: &str) -> Vec<String> {
    let plain: String = text.chars().take_while(|&letter| is_name(letter) || letter == ':').collect();
    if !text[plain.len()..].starts_with('{') {
        return vec![plain];
    }
    let mut paths = Vec::new();
    let mut depth = 0_usize;
    let inside = plain.len() + 1;
    let mut from = inside;
    for (offset, letter) in text.char_indices().skip_while(|(offset, _)| *offset < inside) {
        let closes = letter == '}' && depth == 0;
        if closes || (letter == ',' && depth == 0) {
            let inner = text[from..offset].trim_start();
            if !inner.is_empty() {
                paths.extend(expand(inner).into_iter().map(|path| format!("{plain}{path}")));
            }
            from = offset + 1;
        }
        match letter {
            _ if closes => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_not_code() {
        let source = Source::read(r###"a("x // y", r#"z"w"#, b"\"q", '"', 'l: loop); // c"d" /* e */ é"###);
        assert_eq!(source.code.trim_end(), r###"a("      ", r#"   "#, b"   ", '"', 'l: loop);"###);
        assert_eq!(
            source.strings.iter().map(|literal| literal.text.as_str()).collect::<Vec<_>>(),
            ["x // y", "z\"w", "\\\"q"]
        );
        assert!(source.prose.ends_with(r#"// c"d" /* e */ é"#));
    }

    #[test]
    fn block_comments_nest() {
        assert_eq!(Source::read("/* a /* b */ c */ d").code.trim(), "d");
    }

    #[test]
    fn a_test_module_ends_with_its_brace() {
        let source = Source::read("fn a() {}\n#[cfg(test)]\nmod tests { fn b() {} }\nfn c() {}\n");
        let at = |name| source.is_test(source.code.find(name).expect("the name exists"));
        assert!(!at("fn a") && at("fn b") && !at("fn c"));
    }

    #[test]
    fn grouped_uses_are_expanded() {
        let source = Source::read("use crate::{\n    a,\n    b::{c, d::e},\n};\nlet x = crate::f::g();");
        let paths: Vec<String> = source.crate_paths().into_iter().map(|(_, path)| path).collect();
        assert_eq!(paths, ["a", "b::c", "b::d::e", "f::g"]);
    }
}
