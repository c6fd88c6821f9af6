"""The exceptions of this package, and those that a handler can raise."""

from typing import Any, Dict, Iterable, List, Optional


class WindlassError(Exception):
    """The base class of all exceptions of this package."""


class ApiError(WindlassError):
    """The server returned an error. `status` is the HTTP status, `kind` the last part of the problem type, `errors` the list
    of invalid fields."""

    def __init__(self, status: int, kind: str, detail: str, errors: Iterable[Dict[str, str]] = ()) -> None:
        super().__init__(f"{status} {kind}: {detail}")
        self.status = status
        self.kind = kind
        self.detail = detail
        self.errors: List[Dict[str, str]] = list(errors)


class LeaseLost(ApiError):
    """The attempt is no longer current: its lease expired, or it has ended. The call changed nothing."""


class Timeout(WindlassError):
    """The job has not ended in the given time."""


class JobFailed(WindlassError):
    """The job ended without success. `job` is the job as returned by the API."""

    def __init__(self, job: Dict[str, Any]) -> None:
        super().__init__(f"job {job.get('id')} is {job.get('status')}: {job.get('last_error') or job.get('reason')}")
        self.job = job


class Snooze(WindlassError):
    """Raised by a handler: run the job again after this many seconds. Does not count as a failure."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"snooze for {seconds} s")
        self.seconds = seconds


class Retry(WindlassError):
    """Raised by a handler: the attempt failed. It is retried after `after` seconds, or with the backoff of the definition."""

    def __init__(self, error: str, after: Optional[float] = None) -> None:
        super().__init__(error)
        self.after = after


class Permanent(WindlassError):
    """Raised by a handler: the job failed permanently; it is not retried."""


class Canceled(WindlassError):
    """Raised by `Job.check` if the job should stop."""
