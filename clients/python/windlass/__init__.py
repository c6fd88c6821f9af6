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

It uses only the standard library.
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
