//! The OpenAPI document, made from the handlers' own descriptions and the route table: what is true of every route (its
//! credential, its problems, its headers) is added here, so that no handler can forget it.

use axum::Json;
use axum::http::header;
use axum::response::IntoResponse;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;

use super::Documented;

/// The whole document.
pub fn document() -> Document {
    Documented::openapi()
}

pub(crate) async fn json() -> Json<Document> {
    Json(document())
}

/// A readable page of our own, without anything from elsewhere.
pub(crate) async fn page() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], "<!doctype html><title>windlass API</title>")
}
