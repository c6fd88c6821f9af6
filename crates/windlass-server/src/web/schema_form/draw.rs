//! The fields as HTML. Labels, hints and values are foreign text.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::{Field, Kind, Raw};
use crate::web::html::{Html, escape};

/// `wrong`: by the name of a field, what is wrong with it.
pub(crate) fn draw(fields: &[Field], raw: &Raw, wrong: &HashMap<String, String>) -> Html {
    let mut out = String::new();
    let mut next = 0;
    draw_all(&mut out, fields, raw, wrong, &mut next);
    Html(out)
}

fn draw_all(
    out: &mut String,
    fields: &[Field],
    raw: &Raw,
    wrong: &HashMap<String, String>,
    next: &mut usize,
) {
    for field in fields {
        *next += 1;
        let id = format!("p{next}");
        if let Kind::Group(inner) = &field.kind {
            let _ = write!(out, "<fieldset><legend>{}</legend>", escape(&field.label));
            draw_all(out, inner, raw, wrong, next);
            out.push_str("</fieldset>");
            continue;
        }
        draw_one(out, field, raw, wrong.get(&field.name).map(String::as_str), &id);
    }
}

fn draw_one(out: &mut String, field: &Field, raw: &Raw, wrong: Option<&str>, id: &str) {
    let value = escape(raw.get(&field.name).map(String::as_str).unwrap_or_default());
    let name = escape(&field.name);
    let label = escape(&field.label);
    let required = if field.is_required { " <span class=\"required\">required</span>" } else { "" };
    let must = if field.is_required { " required" } else { "" };
    let described = match (wrong.is_some(), field.hint.is_empty()) {
        (true, _) => format!(" aria-invalid=\"true\" aria-describedby=\"{id}-wrong\""),
        (false, false) => format!(" aria-describedby=\"{id}-hint\""),
        (false, true) => String::new(),
    };
    out.push_str("<div class=\"field\">");
    let labelled = format!("<label for=\"{id}\">{label}{required}</label>");
    match &field.kind {
        Kind::Flag => {
            let checked = if value == "true" { " checked" } else { "" };
            let _ = write!(
                out,
                "<label class=\"check\"><input type=\"checkbox\" name=\"{name}\" value=\"true\"{checked}{described}> {label}</label>"
            );
        }
        Kind::Text(kind) => {
            let _ = write!(
                out,
                "{labelled}<input id=\"{id}\" type=\"{kind}\" name=\"{name}\" value=\"{value}\" dir=\"auto\"{must}{described}>"
            );
        }
        Kind::Number { is_whole, least, most } => {
            let bound = |word: &str, bound: &Option<f64>| {
                bound.map(|bound| format!(" {word}=\"{bound}\"")).unwrap_or_default()
            };
            let step = if *is_whole { "1" } else { "any" };
            let _ = write!(
                out,
                "{labelled}<input id=\"{id}\" type=\"number\" name=\"{name}\" value=\"{value}\" step=\"{step}\"{}{}{must}{described}>",
                bound("min", least),
                bound("max", most)
            );
        }
        Kind::Long | Kind::Lines | Kind::Json => {
            let _ = write!(
                out,
                "{labelled}<textarea id=\"{id}\" name=\"{name}\" rows=\"4\" dir=\"auto\"{must}{described}>\n{value}</textarea>"
            );
        }
        Kind::Choice(choices) => {
            let _ = write!(
                out,
                "{labelled}<select id=\"{id}\" name=\"{name}\"{must}{described}><option value=\"\"></option>"
            );
            for (index, choice) in choices.iter().enumerate() {
                let selected = if value == index.to_string() { " selected" } else { "" };
                let text = choice.as_str().map_or_else(|| choice.to_string(), str::to_owned);
                let _ = write!(out, "<option value=\"{index}\"{selected}>{}</option>", escape(&text));
            }
            out.push_str("</select>");
        }
        Kind::Group(_) => {}
    }
    let note = match &field.kind {
        Kind::Lines => "One per line.",
        Kind::Json => "As JSON.",
        _ => "",
    };
    if !field.hint.is_empty() || !note.is_empty() {
        let _ = write!(out, "<p id=\"{id}-hint\" dir=\"auto\">{} {note}</p>", escape(&field.hint));
    }
    if let Some(wrong) = wrong {
        let _ = write!(out, "<p class=\"wrong\" id=\"{id}-wrong\">{label} {}</p>", escape(wrong));
    }
    out.push_str("</div>");
}

/// What a choice was called, for tests and titles.
#[cfg(test)]
pub(super) fn has_text(html: &Html, text: &serde_json::Value) -> bool {
    html.0.contains(&escape(text.as_str().unwrap_or_default()))
}
