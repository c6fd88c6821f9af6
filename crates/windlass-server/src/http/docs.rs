//! `/docs`: the OpenAPI document for people, on one page of our own, without anything from elsewhere.

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use base64::Engine as _;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::openapi::document;
use super::prebuilt::Prebuilt;

const STYLE: &str = "\
:root{color-scheme:light dark;--line:color-mix(in srgb,currentColor 18%,transparent)}\
body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}\
h2{margin-top:2.5rem;border-bottom:1px solid var(--line)}code,pre{font:14px/1.5 ui-monospace,monospace}\
details{border:1px solid var(--line);border-radius:6px;margin:.5rem 0;padding:.4rem .8rem}summary{cursor:pointer}\
.m{display:inline-block;min-width:4.2rem;font-weight:600}.p{float:right;opacity:.75}\
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;border-top:1px solid var(--line);padding:.25rem .5rem}\
pre{overflow:auto;padding:.6rem;border:1px solid var(--line);border-radius:6px}";

/// The page and its policy, made once.
static PAGE: LazyLock<(Prebuilt, String)> = LazyLock::new(|| {
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    let policy =
        format!("default-src 'none'; style-src 'sha256-{hash}'; frame-ancestors 'none'; base-uri 'none'");
    (Prebuilt::new(render(&document())), policy)
});

/// The page. Its one style is allowed by its hash; nothing else is.
pub(crate) async fn page(headers: HeaderMap) -> impl IntoResponse {
    let (page, policy) = &*PAGE;
    let policy = [(header::CONTENT_SECURITY_POLICY, policy.as_str())];
    (policy, page.answer(&headers, "text/html; charset=utf-8"))
}

fn render(document: &Value) -> String {
    let mut page = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>windlass API</title><style>{STYLE}</style><h1>windlass API {}</h1>",
        escape(text(&document["info"]["version"]))
    );
    for paragraph in text(&document["info"]["description"]).split("\n\n") {
        let _ = write!(page, "<p>{}</p>", escape(paragraph));
    }
    page.push_str("<p>The whole description as <a href=\"/api/openapi.json\">OpenAPI 3.1</a>.</p>");
    let mut tags: Vec<(String, String)> = Vec::new();
    for (path, methods) in members(&document["paths"]) {
        for (method, operation) in members(methods) {
            let tag = text(&operation["tags"][0]).to_owned();
            let shown = operation_html(path, method, operation, document);
            match tags.iter_mut().find(|(known, _)| *known == tag) {
                Some((_, html)) => html.push_str(&shown),
                None => tags.push((tag, shown)),
            }
        }
    }
    for (tag, html) in tags {
        let _ = write!(page, "<h2>{}</h2>{html}", escape(&tag));
    }
    page.push_str("<h2>schemas</h2>");
    for (name, schema) in members(&document["components"]["schemas"]) {
        let _ = write!(
            page,
            "<details id=\"{0}\"><summary><code>{0}</code> {1}</summary>{2}</details>",
            escape(name),
            escape(text(&schema["description"])),
            code(schema)
        );
    }
    page
}

fn operation_html(path: &str, method: &str, operation: &Value, document: &Value) -> String {
    let mut html = format!(
        "<details><summary><span class=p>{}</span><code><span class=m>{}</span>{}</code> {}</summary>",
        escape(text(&operation["x-permission"])),
        escape(&method.to_uppercase()),
        escape(path),
        escape(text(&operation["summary"]))
    );
    let about = text(&operation["description"]);
    if !about.is_empty() {
        let _ = write!(html, "<p>{}</p>", escape(about));
    }
    let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !parameters.is_empty() {
        html.push_str("<table><tr><th>parameter<th>in<th>");
        for parameter in parameters {
            let _ = write!(
                html,
                "<tr><td><code>{}</code><td>{}<td>{}",
                escape(text(&parameter["name"])),
                escape(text(&parameter["in"])),
                escape(text(&parameter["description"]))
            );
        }
        html.push_str("</table>");
    }
    if let Some(name) = reference(&operation["requestBody"]["content"]["application/json"]["schema"]) {
        let _ = write!(html, "<p>Body: <a href=\"#{0}\"><code>{0}</code></a></p>", escape(name));
        let example = &document["components"]["schemas"][name]["example"];
        if !example.is_null() {
            html.push_str(&code(example));
        }
    }
    html.push_str("<table><tr><th>status<th>");
    for (status, response) in members(&operation["responses"]) {
        let name = members(&response["content"]).find_map(|(_, content)| reference(&content["schema"]));
        let link = name.map(|name| format!(" <a href=\"#{0}\"><code>{0}</code></a>", escape(name)));
        let _ = write!(
            html,
            "<tr><td>{}<td>{}{}",
            escape(status),
            escape(text(&response["description"])),
            link.unwrap_or_default()
        );
    }
    html.push_str("</table></details>");
    html
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

fn reference(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn code(value: &Value) -> String {
    format!("<pre>{}</pre>", escape(&serde_json::to_string_pretty(value).unwrap_or_default()))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
