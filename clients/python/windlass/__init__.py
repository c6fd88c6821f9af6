"""The Python client of windlass: enqueue jobs, wait for them, and run them in your own process.

    from windlass import Client, Worker

    client = Client("http://localhost:8080", token="wl_...")
    job = client.enqueue("resize", {"image": 7})

    worker = Worker(client)

    @worker.handler("resize")
    def resize(job):
        job.progress(50, "halfway")
        return {"width": 640}

    worker.run()

`AsyncClient` and `AsyncWorker` are the same for asyncio. `enqueue_in` enqueues in the transaction of a database connection.
It uses only the standard library.
"""

from .aio import AsyncClient, AsyncWorker
from .client import Client
from .errors import (
    ApiError,
    Canceled,
    JobFailed,
    LeaseLost,
    Permanent,
    Retry,
    Snooze,
    Timeout,
    WindlassError,
)
from .job import Job
from .transaction import (
    cancel_in,
    cancel_in_async,
    emit_in,
    emit_in_async,
    enqueue_in,
    enqueue_in_async,
    enqueue_many_in,
    enqueue_many_in_async,
)
from .worker import Worker

__all__ = [
    "ApiError",
    "AsyncClient",
    "AsyncWorker",
    "Canceled",
    "Client",
    "Job",
    "JobFailed",
    "LeaseLost",
    "Permanent",
    "Retry",
    "Snooze",
    "Timeout",
    "Worker",
    "WindlassError",
    "cancel_in",
    "cancel_in_async",
    "emit_in",
    "emit_in_async",
    "enqueue_in",
    "enqueue_in_async",
    "enqueue_many_in",
    "enqueue_many_in_async",
]
