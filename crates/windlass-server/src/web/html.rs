//! HTML that is finished: made by this crate's own code with every foreign text escaped, so a template prints it as it is.

use std::fmt::{self, Write as _};

/// Markup, ready to be printed. Whoever makes one has escaped what came from outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Html(pub(crate) String);

impl fmt::Display for Html {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl askama::FastWritable for Html {
    fn write_into(&self, dest: &mut dyn fmt::Write, _: &dyn askama::Values) -> askama::Result<()> {
        Ok(dest.write_str(&self.0)?)
    }
}

impl askama::filters::HtmlSafe for Html {}

/// Adds text as text: it can be neither a tag nor the end of an attribute.
pub(crate) fn escape_into(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // The parser would end the text, or drop them; and no reader could see them.
            '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}' if character != '\r' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
}

pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    escape_into(&mut out, text);
    out
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn nothing_that_acts_is_left_of_a_hostile_text() {
        let text = escape("\"><script>alert('&')</script>\0");
        assert_eq!(text, "&quot;&gt;&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;\\u0000");
    }
}
