//! `/docs`: the OpenAPI document as one HTML page, without external resources.

use std::sync::LazyLock;

use askama::Template;
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
code{overflow-wrap:anywhere}td{overflow-wrap:anywhere}pre{overflow:auto;padding:.6rem;border:1px solid var(--line);border-radius:6px}";

/// The page and its policy, built once.
static PAGE: LazyLock<(Prebuilt, String)> = LazyLock::new(|| {
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    let policy =
        format!("default-src 'none'; style-src 'sha256-{hash}'; frame-ancestors 'none'; base-uri 'none'");
    let page = render(&document()).unwrap_or_else(|error| {
        tracing::error!(%error, "cannot render the API reference");
        String::new()
    });
    (Prebuilt::new(page, "text/html; charset=utf-8"), policy)
});

/// The page. Only its own style is allowed, by its hash.
pub(crate) async fn page(headers: HeaderMap) -> impl IntoResponse {
    let (page, policy) = &*PAGE;
    let policy = [(header::CONTENT_SECURITY_POLICY, policy.as_str())];
    (policy, page.respond(&headers))
}

#[derive(Template)]
#[template(path = "docs.html")]
struct Reference<'a> {
    /// Without characters that HTML escapes, so its hash is that of what the browser reads.
    style: &'static str,
    version: &'a str,
    paragraphs: Vec<Vec<Span<'a>>>,
    tags: Vec<Tag<'a>>,
    schemas: Vec<Schema<'a>>,
}

/// A part of a text: code, which the document writes between backticks, or plain words.
#[derive(Debug, PartialEq, Eq)]
struct Span<'a> {
    is_code: bool,
    text: &'a str,
}

fn spans(text: &str) -> Vec<Span<'_>> {
    let parts = text.split('`').enumerate().map(|(index, text)| Span { is_code: index % 2 == 1, text });
    parts.filter(|span| !span.text.is_empty()).collect()
}

struct Tag<'a> {
    name: &'a str,
    operations: Vec<Operation<'a>>,
}

struct Operation<'a> {
    path: &'a str,
    method: String,
    permission: &'a str,
    summary: &'a str,
    description: Vec<Span<'a>>,
    parameters: Vec<Parameter<'a>>,
    body: Option<&'a str>,
    example: Option<String>,
    responses: Vec<DocumentedResponse<'a>>,
}

struct Parameter<'a> {
    name: &'a str,
    place: &'a str,
    description: Vec<Span<'a>>,
}

struct DocumentedResponse<'a> {
    status: &'a str,
    description: Vec<Span<'a>>,
    schema: Option<&'a str>,
}

struct Schema<'a> {
    name: &'a str,
    description: Vec<Span<'a>>,
    text: String,
}

fn render(document: &Value) -> askama::Result<String> {
    let mut tags: Vec<Tag<'_>> = Vec::new();
    for (path, methods) in members(&document["paths"]) {
        for (method, operation) in members(methods) {
            let name = text(&operation["tags"][0]);
            let shown = self::operation(path, method, operation, document);
            match tags.iter_mut().find(|tag| tag.name == name) {
                Some(tag) => tag.operations.push(shown),
                None => tags.push(Tag { name, operations: vec![shown] }),
            }
        }
    }
    let reference = Reference {
        style: STYLE,
        version: text(&document["info"]["version"]),
        paragraphs: text(&document["info"]["description"]).split("\n\n").map(spans).collect(),
        tags,
        schemas: members(&document["components"]["schemas"])
            .map(|(name, schema)| Schema {
                name,
                description: spans(text(&schema["description"])),
                text: pretty(schema),
            })
            .collect(),
    };
    reference.render()
}

fn operation<'a>(path: &'a str, method: &str, operation: &'a Value, document: &Value) -> Operation<'a> {
    let body = reference(&operation["requestBody"]["content"]["application/json"]["schema"]);
    let example = body.map(|name| &document["components"]["schemas"][name]["example"]);
    let parameter = |parameter: &'a Value| Parameter {
        name: text(&parameter["name"]),
        place: text(&parameter["in"]),
        description: spans(text(&parameter["description"])),
    };
    let response = |(status, response): (&'a str, &'a Value)| DocumentedResponse {
        status,
        description: spans(text(&response["description"])),
        schema: members(&response["content"]).find_map(|(_, content)| reference(&content["schema"])),
    };
    Operation {
        path,
        method: method.to_uppercase(),
        permission: text(&operation["x-permission"]),
        summary: text(&operation["summary"]),
        description: spans(text(&operation["description"])),
        parameters: operation["parameters"].as_array().into_iter().flatten().map(parameter).collect(),
        body,
        example: example.filter(|example| !example.is_null()).map(pretty),
        responses: members(&operation["responses"]).map(response).collect(),
    }
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

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, Bytes, to_bytes};
    use axum::response::Response;

    use super::super::openapi;
    use super::*;

    async fn body(response: Response<Body>) -> Bytes {
        to_bytes(response.into_body(), usize::MAX).await.unwrap()
    }

    /// Both responses share the same bytes in memory; they are not equal copies.
    #[tokio::test]
    async fn the_description_and_its_page_are_built_once() {
        let no_headers = HeaderMap::new;
        let documents =
            [body(openapi::json(no_headers()).await).await, body(openapi::json(no_headers()).await).await];
        assert_eq!(documents[0].as_ptr(), documents[1].as_ptr());
        let pages = [page(no_headers()).await, page(no_headers()).await].map(IntoResponse::into_response);
        let [first, second] = pages;
        let (first, second) = (body(first).await, body(second).await);
        assert_eq!(first.as_ptr(), second.as_ptr());
    }
}
