"""The client and the worker for asyncio.

The standard library has no HTTP client for asyncio, so the calls run in threads of their own. Heartbeats are sent from a
thread too: a handler that blocks the event loop keeps its lease.
"""

import asyncio
import functools
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import ThreadPoolExecutor
from typing import Any, AsyncIterator, Awaitable, Callable, Iterable, List, Mapping, Optional, TypeVar

from .client import ENDED, Client, Json
from .errors import Canceled, JobFailed, Timeout
from .job import Job
from .worker import Worker

T = TypeVar("T")

AsyncHandler = Callable[[Job[Any]], Awaitable[Any]]

# The maximum number of calls at a time; more wait for a free thread.
MAX_THREADS = 16


class AsyncClient:
    """The methods of `Client` for jobs and events, to be awaited. Close it, or use it with `async with`."""

    def __init__(
        self, url: str, token: Optional[str] = None, tenant: Optional[str] = None, timeout: float = 30.0
    ) -> None:
        self.sync = Client(url, token=token, tenant=tenant, timeout=timeout)
        self._threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="windlass-call")

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        self._threads.shutdown(wait=False)

    async def enqueue(
        self, definition_key: str, payload: Any = None, idempotency_key: Optional[str] = None, **options: Any
    ) -> Json:
        return await self._run(self.sync.enqueue, definition_key, payload, idempotency_key, **options)

    async def enqueue_many(
        self, jobs: Iterable[Mapping[str, Any]], idempotency_key: Optional[str] = None
    ) -> List[Json]:
        return await self._run(self.sync.enqueue_many, jobs, idempotency_key)

    async def emit(
        self, name: str, payload: Any = None, idempotency_key: Optional[str] = None, **options: Any
    ) -> Json:
        return await self._run(self.sync.emit, name, payload, idempotency_key, **options)

    async def job(self, job_id: str) -> Json:
        return await self._run(self.sync.job, job_id)

    async def jobs(self, **filters: Any) -> AsyncIterator[Json]:
        pages = self.sync.jobs(**filters)
        while (job := await self._run(next, pages, None)) is not None:
            yield job

    async def cancel(self, job_id: str) -> Json:
        return await self._run(self.sync.cancel, job_id)

    async def wait(self, job_id: str, timeout: Optional[float] = None) -> Json:
        """As `Client.wait`. It holds no thread while it waits."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        pause = 0.05
        while True:
            job = await self.job(job_id)
            if job["status"] == "succeeded":
                return job
            if job["status"] in ENDED:
                raise JobFailed(job)
            if deadline is not None and loop.time() + pause > deadline:
                raise Timeout(f"job {job_id} is {job['status']} after {timeout} s")
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 2.0)

    async def _run(self, call: Callable[..., T], *args: Any, **options: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, functools.partial(call, *args, **options))


class AsyncWorker(Worker):
    """A worker whose handlers are coroutines of one event loop. When a job should stop, its handler's task is canceled.

    How it stops: cancel the task that awaits `run_async`, or call `stop()`. Each running job holds one waiting thread.
    """

    def __init__(self, client: AsyncClient, handlers: Optional[Mapping[str, AsyncHandler]] = None, **options: Any) -> None:
        super().__init__(client.sync, handlers, **options)
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    async def run_async(self) -> None:
        """Runs jobs until stopped. The application handles its signals: `loop.add_signal_handler(SIGTERM, worker.stop)`."""
        await self._in_thread(lambda: self._run(self._wait_seconds))

    async def run_until_idle_async(self) -> None:
        """Runs the jobs that are queued now, and those that they enqueue, and returns. For tests."""
        await self._in_thread(lambda: self._run(None))

    async def _in_thread(self, work: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, thread_name_prefix="windlass-worker")
        running = self._loop.run_in_executor(thread, work)
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            # In a thread, because it takes locks; then the running jobs get their grace time.
            await self._loop.run_in_executor(None, self.stop)
            await running
            raise
        finally:
            # Does not wait: that would block the event loop, which the handlers of a second cancel still need.
            thread.shutdown(wait=False)

    def _handle(self, job: Job[Any]) -> Any:
        assert self._loop is not None, "set before the first claim"
        future = asyncio.run_coroutine_threadsafe(self._as_task(job), self._loop)
        try:
            return future.result()
        except FutureCancelled:
            raise Canceled(job.why_canceled) from None

    async def _as_task(self, job: Job[Any]) -> Any:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(self._handlers[job.definition_key](job))
        job._call_when_stopped(lambda: loop.call_soon_threadsafe(task.cancel))
        return await task
