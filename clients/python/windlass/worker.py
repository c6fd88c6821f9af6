"""A worker: claims jobs, runs each in a thread, renews their leases from another thread, and settles them.

How it stops: after `stop()` (or SIGTERM and SIGINT in `run`) it claims no more jobs and lets the running ones finish for the
grace time; then their `canceled` is set and they are released for another worker, which does not count as a failure.
"""

import os
import signal
import socket
import threading
import time
import traceback
import uuid

from .errors import ApiError, Canceled, LeaseLost, Permanent, Retry, Snooze, WindlassError

# The maximum size of the log text between two heartbeats; beyond it the oldest lines are dropped.
MAX_LOG = 48 * 1024


class Job:
    """One attempt of a job, as passed to its handler."""

    def __init__(self, client, claimed):
        self._client = client
        self._lock = threading.Lock()
        self._progress = None
        self._log = []
        self._urgent = threading.Event()
        self._next = []
        self._artifact = None
        self.fence = claimed["fence"]
        self.id = claimed["id"]
        self.tenant_id = claimed["tenant_id"]
        self.definition_key = claimed["definition_key"]
        self.payload = claimed["payload"]
        self.attempt = claimed["attempt"]
        self.max_attempts = claimed["max_attempts"]
        self.failures = claimed.get("failures", 0)
        self.lease_seconds = claimed["lease_seconds"]
        self.claimed = claimed
        #: Set when the job should stop. `why_canceled` is "canceled", "lease_lost" or "shutdown".
        self.canceled = threading.Event()
        self.why_canceled = None

    def progress(self, percent=None, message=None):
        """Reports progress. It is sent with the next heartbeat, within about half a second."""
        progress = {}
        if percent is not None:
            progress["percent"] = percent
        if message is not None:
            progress["message"] = str(message)
        with self._lock:
            self._progress = progress
        self._urgent.set()

    def log(self, *words):
        """Adds a line to the log of the job."""
        with self._lock:
            self._log.append(" ".join(str(word) for word in words))
            while len(self._log) > 1 and sum(len(line) + 1 for line in self._log) > MAX_LOG:
                del self._log[0]
        self._urgent.set()

    def artifact(self, artifact):
        """Sets a reference to what the job created, stored when the job succeeds."""
        self._artifact = artifact

    def then(self, definition_key, payload=None, **options):
        """Adds a job to enqueue in the same transaction that completes this one."""
        self._next.append({"definition_key": definition_key, "payload": {} if payload is None else payload, **options})

    def check(self):
        """Raises `Canceled` if the job should stop. Call it between steps."""
        if self.canceled.is_set():
            raise Canceled(self.why_canceled)

    def _stop(self, why):
        if not self.canceled.is_set():
            self.why_canceled = why
            self.canceled.set()

    def _beat(self):
        """Sends one heartbeat with the progress and the log lines since the last one."""
        with self._lock:
            progress, log = self._progress, self._log
            self._progress, self._log = None, []
            self._urgent.clear()
        try:
            response = self._client.heartbeat(self.id, self.fence, progress, log)
        except LeaseLost:
            self._stop("lease_lost")
        except ApiError:
            # The progress or the log was rejected; renew the lease without them.
            self._client.heartbeat(self.id, self.fence)
        else:
            if response["cancel_requested"]:
                self._stop("canceled")


class Worker:
    """Runs the jobs of the definitions that have a handler."""

    def __init__(
        self, client, handlers=None, concurrency=1, queues=(), lease_seconds=60, worker_id=None, wait_seconds=20, grace_seconds=30
    ):
        self._client = client
        self._handlers = dict(handlers or {})
        self._concurrency = max(1, concurrency)
        self._queues = list(queues)
        self._lease_seconds = lease_seconds
        self._wait_seconds = wait_seconds
        self._grace_seconds = grace_seconds
        # A new name for every start, because host names and process ids can repeat.
        self.worker_id = worker_id or f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._running = {}

    def handler(self, definition_key):
        """Decorates the handler of this definition. It is called with the `Job`; its return value is the result."""

        def register(function):
            self._handlers[definition_key] = function
            return function

        return register

    def stop(self):
        """Claims no more jobs. `run` returns when the running jobs have ended."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()

    def run(self, handle_signals=True):
        """Runs jobs until stopped."""
        if not self._handlers:
            raise WindlassError("a worker needs at least one handler")
        if handle_signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: self.stop())
        keys = sorted(self._handlers)
        beats = threading.Thread(target=self._renew_leases, name="windlass-heartbeat", daemon=True)
        beats.start()
        try:
            self._client.register(worker_id=self.worker_id, hostname=socket.gethostname(), definition_keys=keys, queues=self._queues)
            self._claim_loop(keys)
        finally:
            self._stopping.set()
            self._drain()
            beats.join(timeout=5)

    def _claim_loop(self, keys):
        pause = 0.5
        while not self._stopping.is_set():
            with self._changed:
                while len(self._running) >= self._concurrency and not self._stopping.is_set():
                    self._changed.wait(1.0)
                free = self._concurrency - len(self._running)
            if self._stopping.is_set():
                return
            try:
                # A short wait while jobs run, so that a stop is noticed soon.
                wait = min(self._wait_seconds, 2) if self._running else self._wait_seconds
                claimed = self._client.claim(keys, self._queues, free, self._bounded(wait), self._lease_seconds, self.worker_id)
            except WindlassError as error:
                if isinstance(error, ApiError) and error.status in (401, 403, 422):
                    raise
                self._stopping.wait(pause)
                pause = min(pause * 2, 15.0)
                continue
            pause = 0.5
            for one in claimed:
                job = Job(self._client, one)
                thread = threading.Thread(target=self._run_one, args=(job,), name=f"windlass-{job.id}", daemon=True)
                with self._changed:
                    self._running[job.id] = job
                thread.start()

    def _bounded(self, wait):
        return max(0, min(wait, 60))

    def _run_one(self, job):
        try:
            self._settle(job, self._call_handler(job))
        except LeaseLost:
            pass  # The attempt is no longer current: its result is dropped.
        except WindlassError:
            traceback.print_exc()  # The lease expires, and the job is retried.
        finally:
            with self._changed:
                self._running.pop(job.id, None)
                self._changed.notify_all()

    def _call_handler(self, job):
        """Calls the handler. Returns how to settle the attempt, and the value."""
        try:
            return "complete", self._handlers[job.definition_key](job)
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
            trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            return "fail", {"error": trace[-8000:]}

    def _settle(self, job, outcome):
        how, value = outcome
        if job.why_canceled == "lease_lost":
            return
        if job._log or job._progress:
            job._beat()
        if how == "complete":
            try:
                self._client.complete(job.id, job.fence, value, job._artifact, job._next)
            except (TypeError, ValueError) as error:
                self._client.fail(job.id, job.fence, f"the result is not JSON-serializable: {error}")
            except ApiError as error:
                if error.status != 422:
                    raise
                self._client.fail(job.id, job.fence, f"the result was rejected: {error.detail}")
        elif how == "snooze":
            self._client.snooze(job.id, job.fence, value)
        elif how == "fail":
            self._client.fail(job.id, job.fence, **value)
        else:
            # After a cancel request the job ends as canceled; at a shutdown another worker claims it.
            self._client.release(job.id, job.fence)

    def _renew_leases(self):
        """Sends heartbeats for every job a few times per lease, and sooner if there is new progress or log text."""
        due = {}
        while not (self._stopping.is_set() and not self._running):
            now = time.monotonic()
            with self._changed:
                jobs = list(self._running.values())
            for job in jobs:
                every = max(0.3, job.lease_seconds / 3)
                last = due.setdefault(job.id, now)
                if now - last >= every or (job._urgent.is_set() and now - last >= 0.5):
                    due[job.id] = now
                    try:
                        job._beat()
                    except WindlassError:
                        due[job.id] = now - every + 1.0  # Try again in a second.
            due = {job.id: due[job.id] for job in jobs if job.id in due}
            time.sleep(0.1)

    def _drain(self):
        until = time.monotonic() + self._grace_seconds
        with self._changed:
            while self._running and time.monotonic() < until:
                self._changed.wait(min(1.0, max(0.0, until - time.monotonic())))
            left = list(self._running.values())
            for job in left:
                job._stop("shutdown")
            until = time.monotonic() + 5
            while self._running and time.monotonic() < until:
                self._changed.wait(0.5)
            left = list(self._running.values())
        for job in left:
            # The handler has not stopped. The process exits anyway, and later results of this attempt are rejected.
            try:
                self._client.release(job.id, job.fence)
            except WindlassError:
                pass
