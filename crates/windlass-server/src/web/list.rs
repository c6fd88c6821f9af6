//! The plain list: a title, perhaps one thing to do, and a table. And the plain form. Pages to manage things are made of
//! these two.

use askama::Template;

use super::frame::Frame;
use super::html::{Html, escape};

#[derive(Template)]
#[template(path = "list.html")]
pub(crate) struct ListPage {
    pub(crate) frame: Frame,
    pub(crate) title: &'static str,
    pub(crate) aside: String,
    pub(crate) act: Option<Link>,
    pub(crate) before: Html,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<ListRow>,
    /// What to say and what to do next where there is nothing.
    pub(crate) empty: (&'static str, &'static str),
    /// Where the list goes on, and what the way there is called.
    pub(crate) next: Option<(String, &'static str)>,
}

pub(crate) struct Link {
    pub(crate) href: &'static str,
    pub(crate) word: &'static str,
}

pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) is_number: bool,
    /// Its name is for screen readers only.
    pub(crate) is_silent: bool,
}

/// Columns by name; `#` in front makes one of numbers, `!` one whose name is not shown.
pub(crate) fn columns(names: &[&'static str]) -> Vec<Column> {
    let column = |name: &&'static str| Column {
        name: name.trim_start_matches(['#', '!']),
        is_number: name.starts_with('#'),
        is_silent: name.starts_with('!'),
    };
    names.iter().map(column).collect()
}

pub(crate) struct ListRow {
    pub(crate) id: String,
    pub(crate) cells: Vec<Cell>,
}

pub(crate) struct Cell {
    pub(crate) class: &'static str,
    pub(crate) name: &'static str,
    pub(crate) html: Html,
}

impl Cell {
    pub(crate) fn text(text: &str) -> Self {
        Self { class: "", name: "", html: Html(format!("<bdi>{}</bdi>", escape(text))) }
    }

    pub(crate) fn code(text: &str) -> Self {
        Self { class: "id", name: "", html: Html(escape(text)) }
    }

    pub(crate) fn number(name: &'static str, text: &str) -> Self {
        Self { class: "num", name, html: Html(escape(text)) }
    }

    pub(crate) fn html(html: impl Into<Html>) -> Self {
        Self { class: "", name: "", html: html.into() }
    }

    pub(crate) fn acts(html: String) -> Self {
        Self { class: "acts", name: "", html: Html(html) }
    }

    pub(crate) fn class(mut self, class: &'static str) -> Self {
        self.class = class;
        self
    }

    pub(crate) fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }
}

/// A status of something that is not a job.
pub(crate) fn badge(role: &str, shape: &str, word: &str) -> Html {
    Html(format!(
        "<span class=\"status is-{role}\"><svg aria-hidden=\"true\"><use href=\"#s-{shape}\"/></svg>{}</span>",
        escape(word)
    ))
}

#[derive(Template)]
#[template(path = "form.html")]
pub(crate) struct FormPage {
    pub(crate) frame: Frame,
    pub(crate) title: String,
    pub(crate) up: (&'static str, &'static str),
    pub(crate) head: Html,
    pub(crate) wrong: Option<String>,
    pub(crate) before: Html,
    pub(crate) action: String,
    pub(crate) fields: Html,
    pub(crate) save: &'static str,
    pub(crate) others: Vec<(&'static str, &'static str)>,
    pub(crate) beside: Html,
    pub(crate) after: Html,
}

/// Fields of a form of our own.
#[derive(Debug, Default)]
pub(crate) struct Fields(String);

impl Fields {
    pub(crate) fn html(self) -> Html {
        Html(self.0)
    }

    #[must_use]
    pub(crate) fn input(mut self, (name, label): (&str, &str), kind: &str, value: &str, hint: &str) -> Self {
        let described =
            if hint.is_empty() { String::new() } else { format!(" aria-describedby=\"f-{name}-hint\"") };
        // `!` after the type: it must be filled in.
        let (kind, must, note) = match kind.strip_suffix('!') {
            Some(kind) => (kind, " required", " <span class=\"required\">required</span>"),
            None => (kind, "", ""),
        };
        self.0.push_str(&format!(
            "<div class=\"field\"><label for=\"f-{name}\">{label}{note}</label><input id=\"f-{name}\" name=\"{name}\" type=\"{kind}\" value=\"{}\"{must}{described}>",
            escape(value)
        ));
        self.hint(name, hint)
    }

    #[must_use]
    pub(crate) fn area(mut self, (name, label): (&str, &str), rows: u8, value: &str, hint: &str) -> Self {
        let described =
            if hint.is_empty() { String::new() } else { format!(" aria-describedby=\"f-{name}-hint\"") };
        self.0.push_str(&format!(
            "<div class=\"field\"><label for=\"f-{name}\">{label}</label><textarea id=\"f-{name}\" name=\"{name}\" rows=\"{rows}\" spellcheck=\"false\"{described}>\n{}</textarea>",
            escape(value)
        ));
        self.hint(name, hint)
    }

    #[must_use]
    pub(crate) fn select(
        mut self,
        (name, label): (&str, &str),
        choices: &[(String, String)],
        value: &str,
        hint: &str,
    ) -> Self {
        self.0.push_str(&format!("<div class=\"field\"><label for=\"f-{name}\">{label}</label><select id=\"f-{name}\" name=\"{name}\">"));
        for (choice, word) in choices {
            let selected = if choice == value { " selected" } else { "" };
            self.0.push_str(&format!(
                "<option value=\"{}\"{selected}>{}</option>",
                escape(choice),
                escape(word)
            ));
        }
        self.0.push_str("</select>");
        self.hint(name, hint)
    }

    #[must_use]
    pub(crate) fn check(mut self, (name, label): (&str, &str), is_on: bool) -> Self {
        let checked = if is_on { " checked" } else { "" };
        self.0.push_str(&format!(
            "<div class=\"field\"><label class=\"check\"><input type=\"checkbox\" name=\"{name}\" value=\"yes\"{checked}> {label}</label></div>"
        ));
        self
    }

    /// Some short fields side by side.
    #[must_use]
    pub(crate) fn row(mut self, fields: &Self) -> Self {
        self.0.push_str(&format!("<div class=\"fields\">{}</div>", fields.0));
        self
    }

    #[must_use]
    pub(crate) fn hidden(mut self, name: &str, value: &str) -> Self {
        self.0.push_str(&format!("<input type=\"hidden\" name=\"{name}\" value=\"{}\">", escape(value)));
        self
    }

    fn hint(mut self, name: &str, hint: &str) -> Self {
        if !hint.is_empty() {
            self.0.push_str(&format!("<p id=\"f-{name}-hint\">{}</p>", escape(hint)));
        }
        self.0.push_str("</div>");
        self
    }
}
