//! Runs work whose cost depends on the size of text from outside. The threads of the runtime serve all callers, so long
//! work runs on a blocking thread.

/// Below this many bytes, the work is cheaper than moving it to another thread.
pub(crate) const SMALL: usize = 4 * 1024;

/// Runs work on this many bytes: on the current thread if they are few, else on a blocking thread.
pub(crate) async fn by_size<T: Send + 'static>(size: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    if size < SMALL { work() } else { run(work).await }
}

/// Runs work on a blocking thread.
pub(crate) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // It is canceled only while the runtime shuts down; then nothing waits for the result.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_on_many_bytes_leaves_the_thread_of_the_runtime() {
        let here = std::thread::current().id();
        let ran_on = |size| by_size(size, || std::thread::current().id());
        assert_eq!(ran_on(SMALL - 1).await, here);
        assert_ne!(ran_on(SMALL).await, here);
    }
}
