//! The only type for text that is HTML. Templates escape every value that they print, except an [`Html`].

use std::fmt::{self, Write as _};

use askama::Template;

/// Markup that a template prints unchanged. It comes from a template, which escaped its values, or from the chart
/// renderer, which draws numbers and escapes names; a tidy test checks both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Html(String);

impl Html {
    /// A template within a template, for trees: a macro cannot call itself.
    pub(super) fn rendered(template: &impl Template) -> askama::Result<Self> {
        template.render().map(Self)
    }

    /// A drawing of the chart renderer.
    pub(super) fn drawn(svg: String) -> Self {
        Self(svg)
    }
}

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

/// Escapes text for a drawing, so that it cannot contain a tag or end an attribute.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for character in visible(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(character),
        }
    }
    out
}

/// Writes control characters as `\u0007`, because browsers do not show them.
pub(super) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn hostile_text_is_escaped() {
        let text = escape("\"><script>alert('&')</script>\0");
        assert_eq!(text, "&quot;&gt;&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;\\u0000");
    }
}
