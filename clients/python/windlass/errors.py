"""What goes wrong, and what a handler may say by raising."""


class WindlassError(Exception):
    """Everything this package raises."""


class ApiError(WindlassError):
    """The server refused. `status` is HTTP's, `kind` the last word of the problem's type, `errors` its list of places."""

    def __init__(self, status, kind, detail, errors=()):
        super().__init__(f"{status} {kind}: {detail}")
        self.status = status
        self.kind = kind
        self.detail = detail
        self.errors = list(errors)


class LeaseLost(ApiError):
    """The attempt is not ours any more; whatever was said about it changed nothing."""


class Timeout(WindlassError):
    """The job had not ended in the time given."""


class JobFailed(WindlassError):
    """The job that was waited for ended other than by success. `job` is what the server says of it."""

    def __init__(self, job):
        super().__init__(f"job {job.get('id')} is {job.get('status')}: {job.get('last_error') or job.get('reason')}")
        self.job = job


class Snooze(WindlassError):
    """Raised by a handler: nothing to do yet, run me again after this many seconds. Charges no attempt."""

    def __init__(self, seconds):
        super().__init__(f"again in {seconds} s")
        self.seconds = seconds


class Retry(WindlassError):
    """Raised by a handler: this attempt failed. Tried again after `after` seconds, or as the definition says."""

    def __init__(self, error, after=None):
        super().__init__(error)
        self.after = after


class Permanent(WindlassError):
    """Raised by a handler: never try again."""


class Canceled(WindlassError):
    """Raised by `Job.check` when the run should stop."""
