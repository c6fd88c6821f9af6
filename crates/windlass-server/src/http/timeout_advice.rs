//! What to do if a database statement timed out. This depends on the request, which the conversion of an error does not know: a
//! list reads less with a narrower filter; anything else reads little, and has waited for the lock of another transaction.

use std::future::Future;

use axum::http::Method;

tokio::task_local! {
    static IS_LIST: bool;
}

/// Runs the handler of a request with this method and route.
pub(super) fn scope<F: Future>(method: &Method, path: &str, handler: F) -> impl Future<Output = F::Output> {
    // A route with an id is about one object.
    IS_LIST.scope(method.is_safe() && !path.contains('{'), handler)
}

/// The detail of the problem.
pub(super) fn after_a_timeout() -> &'static str {
    if IS_LIST.try_with(|is_list| *is_list).unwrap_or(false) {
        "the database statement timed out; use a narrower filter"
    } else {
        "the database statement timed out: another transaction holds a lock that it needs, or the database is busy; try again"
    }
}
