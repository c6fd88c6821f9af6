//! Headers that decide what a request does, and for whom. If one of them is sent twice with different values, a proxy and this
//! server could each use another one, so the request is rejected.

use axum::http::HeaderMap;

use super::problem::{Problem, ProblemKind};

const DECIDING: [&str; 11] = [
    "Authorization",
    "X-Tenant-Id",
    "Idempotency-Key",
    "If-Match",
    "Last-Event-ID",
    "Content-Type",
    "Origin",
    "Sec-Fetch-Site",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
];

pub(super) fn check(headers: &HeaderMap) -> Result<(), Problem> {
    let differs = |name: &&str| {
        let mut values = headers.get_all(*name).iter();
        let first = values.next();
        values.any(|other| Some(other) != first)
    };
    match DECIDING.into_iter().find(differs) {
        Some(name) => {
            let detail = format!("{name} is sent twice with different values");
            Err(Problem::of(ProblemKind::BadRequest, detail))
        }
        None => Ok(()),
    }
}
