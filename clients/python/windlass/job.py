"""One attempt of a job, as passed to its handler. Its methods can be called from any thread."""

import threading
from typing import Any, Callable, Dict, Generic, List, Optional, TypeVar

from .client import Client, new_job
from .errors import ApiError, Canceled, LeaseLost, WindlassError

# The maximum size of the log text between two heartbeats; beyond it the oldest lines are dropped.
MAX_LOG = 48 * 1024

Payload = TypeVar("Payload")


class Job(Generic[Payload]):
    def __init__(self, client: Client, claimed: Dict[str, Any]) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._progress: Optional[Dict[str, Any]] = None
        self._log: List[str] = []
        self._next: List[Dict[str, Any]] = []
        self._artifact: Any = None
        self.fence: str = claimed["fence"]
        self.id: str = claimed["id"]
        self.tenant_id: str = claimed["tenant_id"]
        self.definition_key: str = claimed["definition_key"]
        self.payload: Payload = claimed["payload"]
        self.attempt: int = claimed["attempt"]
        self.max_attempts: int = claimed["max_attempts"]
        self.failures: int = claimed.get("failures", 0)
        self.lease_seconds: float = claimed["lease_seconds"]
        self.claimed = claimed
        #: Set when the job should stop. `why_canceled` is "canceled", "lease-lost" or "shutdown".
        self.canceled = threading.Event()
        self.why_canceled: Optional[str] = None
        self._on_stop: Callable[[], Any] = lambda: None

    def progress(self, percent: Optional[float] = None, message: Optional[str] = None) -> None:
        """Reports progress. It is sent with the next heartbeat, within about half a second."""
        progress: Dict[str, Any] = {}
        if percent is not None:
            progress["percent"] = percent
        if message is not None:
            progress["message"] = str(message)
        with self._lock:
            self._progress = progress

    def log(self, *words: Any) -> None:
        """Adds a line to the log of the job."""
        with self._lock:
            self._log.append(" ".join(str(word) for word in words))
            self._limit_log()

    def artifact(self, artifact: Any) -> None:
        """Sets a reference to what the job created, stored when the job succeeds."""
        self._artifact = artifact

    def then(self, definition_key: str, payload: Any = None, **options: Any) -> None:
        """Adds a job to enqueue in the same transaction that completes this one."""
        self._next.append(new_job(definition_key, payload, **options))

    def check(self) -> None:
        """Raises `Canceled` if the job should stop. Call it between steps."""
        if self.canceled.is_set():
            raise Canceled(self.why_canceled)

    def _stop(self, why: str) -> None:
        with self._lock:
            if self.canceled.is_set():
                return
            self.why_canceled = why
            self.canceled.set()
            on_stop = self._on_stop
        on_stop()

    def _call_when_stopped(self, on_stop: Callable[[], Any]) -> None:
        with self._lock:
            self._on_stop = on_stop
            is_late = self.canceled.is_set()
        if is_late:
            on_stop()

    def _has_unsent(self) -> bool:
        return bool(self._log or self._progress)

    def _beat(self) -> None:
        """Sends one heartbeat with the progress and the log lines since the last one."""
        with self._sending:
            self._send()

    def _flush(self) -> None:
        """Sends what is left before the attempt ends: afterwards it would be too late, also for a heartbeat in progress."""
        with self._sending:
            if self._has_unsent():
                self._send()

    def _send(self) -> None:
        with self._lock:
            progress, log = self._progress, self._log
            self._progress, self._log = None, []
        try:
            # A response that takes longer is of no use: the next heartbeat is then due.
            response = self._client.heartbeat(self.id, self.fence, progress, log, timeout=max(1.0, self.lease_seconds / 3))
        except LeaseLost:
            self._stop("lease-lost")
        except WindlassError as error:
            # If they were rejected, they are dropped, so that the next heartbeat renews the lease.
            if not isinstance(error, ApiError) or error.status not in (413, 422):
                self._take_back(progress, log)
            raise
        else:
            if response["cancel_requested"]:
                self._stop("canceled")

    def _take_back(self, progress: Optional[Dict[str, Any]], log: List[str]) -> None:
        with self._lock:
            self._progress = self._progress or progress
            self._log = log + self._log
            self._limit_log()

    def _limit_log(self) -> None:
        while len(self._log) > 1 and sum(len(line) + 1 for line in self._log) > MAX_LOG:
            del self._log[0]
