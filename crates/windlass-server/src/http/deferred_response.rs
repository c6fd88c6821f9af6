//! The response of a handler that has to wait: it returns the rest of its work, which runs after the handler has released its
//! permit and its thread.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;

type Rest = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Work that waits. It must not need much CPU time.
#[derive(Clone)]
pub(crate) struct DeferredResponse(Arc<Mutex<Option<Rest>>>);

impl DeferredResponse {
    pub(crate) fn new<R: IntoResponse>(rest: impl Future<Output = R> + Send + 'static) -> Self {
        let rest: Rest = Box::pin(async { rest.await.into_response() });
        Self(Arc::new(Mutex::new(Some(rest))))
    }
}

impl fmt::Debug for DeferredResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferredResponse").finish_non_exhaustive()
    }
}

impl IntoResponse for DeferredResponse {
    fn into_response(self) -> Response {
        axum::Extension(self).into_response()
    }
}

/// Waits for the rest of a response, if it has one.
pub(super) async fn complete(mut response: Response) -> Response {
    let later = response.extensions_mut().remove::<DeferredResponse>();
    let rest = later.and_then(|later| later.0.lock().take());
    match rest {
        Some(rest) => rest.await,
        None => response,
    }
}
