"""Windlass from Python: enqueue jobs and wait for them, and run them in a process of your own.

    from windlass import Client, Worker

    client = Client("http://localhost:8080", token="wl_...")
    job = client.enqueue("resize", {"image": 7})

    worker = Worker(client)

    @worker.handler("resize")
    def resize(job):
        job.progress(50, "half of it")
        return {"width": 640}

    worker.run()

Only the standard library is used.
"""

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
from .worker import Job, Worker

__all__ = [
    "ApiError",
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
]
