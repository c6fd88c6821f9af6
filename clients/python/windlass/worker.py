"""A worker: claims jobs, runs each in a thread, renews their leases from another thread, and settles them.

How it stops: after `stop()` (or SIGTERM and SIGINT in `run`) it interrupts the claim that waits, claims no more jobs, and lets
the running ones finish for the grace time; then their `canceled` is set and they are released for another worker, which does
not count as a failure. At the end it signs off.
"""

import dataclasses
import logging
import os
import re
import signal
import socket
import threading
import time
import traceback
import uuid
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, TypeVar, overload

from .client import Client, jittered
from .encoding import encode
from .errors import ApiError, Canceled, LeaseLost, Permanent, Retry, Snooze, WindlassError
from .job import Job, Payload
from .transport import Interrupt

log = logging.getLogger("windlass")

# The longest error that is sent with a failed attempt.
MAX_ERROR = 8000

Handler = Callable[[Job[Any]], Any]
AnyHandler = TypeVar("AnyHandler", bound=Callable[..., Any])
Returned = TypeVar("Returned")


class Worker:
    """Runs the jobs of the definitions that have a handler."""

    def __init__(
        self,
        client: Client,
        handlers: Optional[Mapping[str, Handler]] = None,
        concurrency: int = 1,
        queues: Iterable[str] = (),
        lease_seconds: float = 60,
        worker_id: Optional[str] = None,
        wait_seconds: float = 20,
        grace_seconds: float = 30,
    ) -> None:
        self._client = client
        self._handlers: Dict[str, Handler] = dict(handlers or {})
        self._concurrency = max(1, concurrency)
        self._queues = list(queues)
        self._lease_seconds = lease_seconds
        # Not 0: a worker without jobs would send claims all the time.
        self._wait_seconds = max(1, min(wait_seconds, 60))
        self._grace_seconds = grace_seconds
        # A new name for every start, because host names and process ids can repeat.
        host = re.sub("[^A-Za-z0-9._-]", "_", socket.gethostname())
        self.worker_id = worker_id or f"{host}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._payloads: Dict[str, Callable[..., Any]] = {}
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._interrupt = Interrupt()
        self._changed = threading.Condition()
        # By fence, not by job: after a lost lease, this worker can claim the job again while the first attempt still runs.
        self._running: Dict[str, Job[Any]] = {}

    @overload
    def handler(self, definition_key: str) -> Callable[[AnyHandler], AnyHandler]: ...

    @overload
    def handler(
        self, definition_key: str, payload: Callable[..., Payload]
    ) -> Callable[[Callable[[Job[Payload]], Returned]], Callable[[Job[Payload]], Returned]]: ...

    def handler(self, definition_key: str, payload: Optional[Callable[..., Any]] = None) -> Callable[[Any], Any]:
        """Decorates the handler of this definition. It is called with the `Job`; its return value is the result.

        `payload` is a dataclass, or a function that converts the JSON value, such as `model_validate` of a Pydantic model.
        `job.payload` is then of that type. A payload that it refuses fails the job permanently."""

        def register(function: Any) -> Any:
            self._handlers[definition_key] = function
            if payload is not None:
                self._payloads[definition_key] = payload
            return function

        return register

    def stop(self) -> None:
        """Claims no more jobs. `run` returns when the running jobs have ended."""
        self._stopping.set()
        self._interrupt.set()
        with self._changed:
            self._changed.notify_all()

    def run(self, handle_signals: bool = True) -> None:
        """Runs jobs until stopped."""
        if handle_signals and threading.current_thread() is threading.main_thread():
            # In a thread: the handler can interrupt this one while it holds a lock that `stop` needs.
            stop_soon = lambda *_: threading.Thread(target=self.stop, daemon=True).start()  # noqa: E731
            before = {number: signal.signal(number, stop_soon) for number in (signal.SIGTERM, signal.SIGINT)}
            try:
                self._run(self._wait_seconds)
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)
        else:
            self._run(self._wait_seconds)

    def run_until_idle(self) -> None:
        """Runs the jobs that are queued now, and those that they enqueue, and returns. For tests."""
        self._run(None)

    def _run(self, wait: Optional[float]) -> None:
        if not self._handlers:
            raise WindlassError("a worker needs at least one handler")
        keys = sorted(self._handlers)
        self._ended.clear()
        beats = threading.Thread(target=self._renew_leases, name="windlass-heartbeat", daemon=True)
        beats.start()
        is_registered = False
        try:
            is_registered = self._register(keys)
            self._claim_loop(keys, wait)
        finally:
            self._drain()
            self._ended.set()
            beats.join(timeout=5)
            if is_registered:
                self._sign_off()
            log.info("worker %s stopped", self.worker_id)

    def _register(self, keys: List[str]) -> bool:
        """Returns False if the worker is stopped before the server has responded."""

        def register() -> bool:
            host = socket.gethostname()
            self._client.register(worker_id=self.worker_id, hostname=host, definition_keys=keys, queues=self._queues)
            log.info("worker %s started for %s", self.worker_id, ", ".join(keys))
            return True

        return bool(self._until_response("register", register, self._stopping))

    def _sign_off(self) -> None:
        try:
            if not self._client.stop_worker(self.worker_id):
                log.info("worker %s stays listed: a worker of this name holds jobs", self.worker_id)
        except WindlassError as error:
            log.info("worker %s cannot sign off, so it is listed for another minute: %s", self.worker_id, error)

    def _claim_loop(self, keys: List[str], wait: Optional[float]) -> None:
        while not self._stopping.is_set():
            with self._changed:
                while len(self._running) >= self._concurrency and not self._stopping.is_set():
                    self._changed.wait()
                free = self._concurrency - len(self._running)
            if self._stopping.is_set():
                return
            claimed = self._until_response(
                "claim",
                lambda: self._client.claim(
                    keys, self._queues, free, wait or 0, self._lease_seconds, self.worker_id, self._interrupt
                ),
                self._stopping,
            )
            for one in claimed or ():
                self._start(Job(self._client, one))
            if wait is None and not claimed:
                with self._changed:
                    if not self._running:
                        return
                    self._changed.wait()  # The jobs that still run can enqueue others.

    def _until_response(self, what: str, call: Callable[[], Any], abandoned: threading.Event) -> Any:
        """Repeats a call while the server cannot be reached. Returns None if the event is set meanwhile."""
        pause = 0.5
        is_broken = False
        while not abandoned.is_set():
            try:
                response = call()
            except WindlassError as error:
                if abandoned.is_set():
                    return None
                if not is_temporary(error):
                    raise
                seconds = jittered(pause)
                level = logging.INFO if is_broken else logging.WARNING
                log.log(level, "%s failed, again in %.1f s: %s", what, seconds, error)
                is_broken = True
                abandoned.wait(seconds)
                pause = min(pause * 2, 15.0)
                continue
            if is_broken:
                log.info("worker %s reconnected", self.worker_id)
            return response
        return None

    def _start(self, job: Job[Any]) -> None:
        log.info("claimed job %s (%s, attempt %s)", job.id, job.definition_key, job.attempt)
        with self._changed:
            self._running[job.fence] = job
        threading.Thread(target=self._run_one, args=(job,), name=f"windlass-{job.id}", daemon=True).start()

    def _run_one(self, job: Job[Any]) -> None:
        try:
            self._settle(job, *self._call_handler(job))
        except LeaseLost:
            log.warning("job %s: the lease was lost, its result is dropped", job.id)
        except Exception:  # noqa: BLE001 - the thread must not end silently
            log.exception("job %s cannot be settled; it is retried when its lease expires", job.id)
        finally:
            with self._changed:
                self._running.pop(job.fence, None)
                self._changed.notify_all()

    def _call_handler(self, job: Job[Any]) -> Tuple[str, Any]:
        """Calls the handler. Returns how to settle the attempt, and the value."""
        try:
            if job.definition_key in self._payloads:
                job.payload = converted(job.payload, self._payloads[job.definition_key])
            return "complete", self._handle(job)
        except Snooze as snooze:
            return "snooze", snooze.seconds
        except Canceled:
            return "stopped", None
        except Permanent as error:
            return "fail", {"error": str(error), "retryable": False}
        except Retry as error:
            return "fail", {"error": str(error), "retry_after_seconds": error.after}
        except Exception as error:  # noqa: BLE001 - any exception of a handler fails its attempt
            if job.canceled.is_set():
                return "stopped", None
            return "fail", {"error": error_text(error)}

    def _handle(self, job: Job[Any]) -> Any:
        return self._handlers[job.definition_key](job)

    def _settle(self, job: Job[Any], how: str, value: Any) -> None:
        """Settles the attempt. If the server cannot be reached, it tries until the lease is lost: the work is not repeated
        because the server was restarted."""
        what = f"settling job {job.id}"
        try:
            self._until_response(what, job._flush, self._ended)
        except ApiError as error:
            log.warning("job %s: the last progress or log lines were rejected: %s", job.id, error)
        if job.why_canceled == "lease-lost":
            log.warning("job %s: the lease was lost, its result is dropped", job.id)
            return
        if how == "complete":
            try:
                encode([value, job._artifact, job._next])
            except (TypeError, ValueError) as error:
                how, value = "fail", {"error": f"the result is not JSON-serializable: {error}"}
        if how == "fail":
            first_line = value["error"].split("\n", 1)[0]
            log.warning("job %s (%s) failed: %s", job.id, job.definition_key, first_line)
        try:
            self._until_response(what, lambda: self._send_end(job, how, value), self._ended)
        except LeaseLost:
            raise
        except ApiError as error:
            if how != "complete":
                raise
            rejected = {"error": f"the result was rejected: {error.detail}"}
            self._until_response(what, lambda: self._send_end(job, "fail", rejected), self._ended)

    def _send_end(self, job: Job[Any], how: str, value: Any) -> None:
        if how == "complete":
            self._client.complete(job.id, job.fence, value, job._artifact, job._next)
        elif how == "snooze":
            self._client.snooze(job.id, job.fence, value)
        elif how == "fail":
            self._client.fail(job.id, job.fence, **value)
        else:
            # After a cancel request the job ends as canceled; at a shutdown another worker claims it.
            self._client.release(job.id, job.fence)

    def _renew_leases(self) -> None:
        """Sends heartbeats for every job a few times per lease, and sooner if there is new progress or log text."""
        due: Dict[str, float] = {}
        while not self._ended.wait(0.1):
            now = time.monotonic()
            with self._changed:
                jobs = [job for job in self._running.values() if job.why_canceled != "lease-lost"]
            for job in jobs:
                every = max(0.3, job.lease_seconds / 3)
                last = due.setdefault(job.fence, now)
                if now - last >= every or (job._has_unsent() and now - last >= 0.5):
                    due[job.fence] = now
                    try:
                        job._beat()
                    except WindlassError as error:
                        log.warning("job %s: heartbeat failed, again in a second: %s", job.id, error)
                        due[job.fence] = now - every + 1.0
            due = {job.fence: due[job.fence] for job in jobs}

    def _drain(self) -> None:
        self._wait_for_jobs(self._grace_seconds)
        with self._changed:
            for job in self._running.values():
                job._stop("shutdown")
        self._wait_for_jobs(5)
        with self._changed:
            left = list(self._running.values())
        for job in left:
            # The handler has not stopped. The process exits anyway, and later results of this attempt are rejected.
            log.warning("job %s has not stopped; it is released", job.id)
            try:
                self._client.release(job.id, job.fence)
            except WindlassError as error:
                log.warning("job %s cannot be released; its lease expires: %s", job.id, error)

    def _wait_for_jobs(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._running, timeout=seconds)


def is_temporary(error: WindlassError) -> bool:
    """Whether the same call can succeed later: the server could not be reached, or had too much to do."""
    return not isinstance(error, ApiError) or error.status in (408, 429) or error.status >= 500


def converted(payload: Any, into: Callable[..., Any]) -> Any:
    try:
        return into(**payload) if dataclasses.is_dataclass(into) else into(payload)
    except Exception as error:  # noqa: BLE001 - whatever the conversion raises, the next attempt would raise it too
        raise Permanent(f"the payload is invalid: {type(error).__name__}: {error}") from error


def error_text(error: BaseException) -> str:
    """`TypeName: message` on the first line, because lists show only that line, then the traceback."""
    first_line = f"{type(error).__name__}: {error}".split("\n", 1)[0][:1000]
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return f"{first_line}\n{trace[-(MAX_ERROR - len(first_line) - 1):]}"
