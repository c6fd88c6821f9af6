//! Work whose cost follows the size of texts that others choose. The runtime's threads serve everybody, so long work goes to
//! a thread where nothing else waits for it.

/// Up to this many bytes the work takes less time than handing it over is worth.
pub(crate) const SMALL: usize = 4 * 1024;

/// Runs the work for so many bytes: here if they are few, else on a thread for blocking work.
pub(crate) async fn by_size<T: Send + 'static>(size: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    if size < SMALL {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only a runtime that is being shut down cancels it, and then nobody waits for us either.
            Err(_) => std::future::pending().await,
        },
    }
}
