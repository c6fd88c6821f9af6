"""A worker: takes jobs, runs each in a thread, keeps their leases from one more thread, and ends them.

How it stops: `stop()` (or SIGTERM and SIGINT under `run`) takes no more jobs and lets those under way finish for the grace
time; then their `canceled` is set and they are given back, uncharged, for another worker.
"""

import os
import signal
import socket
import threading
import time
import traceback
import uuid

from .errors import ApiError, Canceled, LeaseLost, Permanent, Retry, Snooze, WindlassError

# Log text that waits for the next heartbeat; of more the end is kept.
MOST_LOG = 48 * 1024


class Job:
    """One attempt of one job, as its handler sees it."""

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
        #: Set when the run should stop: `why_canceled` says whether by a cancel request, a lost lease or a shutdown.
        self.canceled = threading.Event()
        self.why_canceled = None

    def progress(self, percent=None, message=None):
        """Says how far the job is. Sent with the next heartbeat, or soon if the message is new."""
        progress = {}
        if percent is not None:
            progress["percent"] = percent
        if message is not None:
            progress["message"] = str(message)
        with self._lock:
            self._progress = progress
        self._urgent.set()

    def log(self, *words):
        """Adds a line to the job's log."""
        with self._lock:
            self._log.append(" ".join(str(word) for word in words))
            while len(self._log) > 1 and sum(len(line) + 1 for line in self._log) > MOST_LOG:
                del self._log[0]
        self._urgent.set()

    def artifact(self, artifact):
        """A reference to what the job made, kept with its success."""
        self._artifact = artifact

    def then(self, definition_key, payload=None, **options):
        """A job to enqueue with this one's success: both or neither."""
        self._next.append({"definition_key": definition_key, "payload": {} if payload is None else payload, **options})

    def check(self):
        """Raises `Canceled` if the run should stop. Call it between steps."""
        if self.canceled.is_set():
            raise Canceled(self.why_canceled)

    def _stop(self, why):
        if not self.canceled.is_set():
            self.why_canceled = why
            self.canceled.set()

    def _beat(self):
        """Sends one heartbeat with what was said since the last."""
        with self._lock:
            progress, log = self._progress, self._log
            self._progress, self._log = None, []
            self._urgent.clear()
        try:
            answer = self._client.heartbeat(self.id, self.fence, progress, log)
        except LeaseLost:
            self._stop("lease_lost")
        except ApiError:
            # What was said cannot be taken; that the job lives can.
            self._client.heartbeat(self.id, self.fence)
        else:
            if answer["cancel_requested"]:
                self._stop("canceled")


class Worker:
    """Runs jobs of the definitions that have a handler."""

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
        # A new name for every start, because hostnames and pids repeat.
        self.worker_id = worker_id or f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._running = {}

    def handler(self, definition_key):
        """Decorates the function that runs this definition's jobs. It gets the `Job`; what it returns is the result."""

        def register(function):
            self._handlers[definition_key] = function
            return function

        return register

    def stop(self):
        """Takes no more jobs. `run` returns when those under way have ended."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()

    def run(self, handle_signals=True):
        """Works until stopped."""
        if not self._handlers:
            raise WindlassError("a worker needs at least one handler")
        if handle_signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: self.stop())
        keys = sorted(self._handlers)
        beats = threading.Thread(target=self._keep_leases, name="windlass-heartbeat", daemon=True)
        beats.start()
        try:
            self._client.register(worker_id=self.worker_id, hostname=socket.gethostname(), definition_keys=keys, queues=self._queues)
            self._take(keys)
        finally:
            self._stopping.set()
            self._drain()
            beats.join(timeout=5)

    def _take(self, keys):
        pause = 0.5
        while not self._stopping.is_set():
            with self._changed:
                while len(self._running) >= self._concurrency and not self._stopping.is_set():
                    self._changed.wait(1.0)
                free = self._concurrency - len(self._running)
            if self._stopping.is_set():
                return
            try:
                # A worker that is asked to stop should not sit out a long wait.
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
            self._end(job, self._call_handler(job))
        except LeaseLost:
            pass  # Somebody else has it, or it has ended: nothing of this attempt counts.
        except WindlassError:
            traceback.print_exc()  # Its lease runs out, and it is tried again.
        finally:
            with self._changed:
                self._running.pop(job.id, None)
                self._changed.notify_all()

    def _call_handler(self, job):
        """What the handler made of the job: how to end it, and with what."""
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
        except Exception as error:  # noqa: BLE001 - whatever a handler raises fails its attempt
            if job.canceled.is_set():
                return "stopped", None
            trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            return "fail", {"error": trace[-8000:]}

    def _end(self, job, ending):
        how, what = ending
        if job.why_canceled == "lease_lost":
            return
        if job._log or job._progress:
            job._beat()
        if how == "complete":
            try:
                self._client.complete(job.id, job.fence, what, job._artifact, job._next)
            except (TypeError, ValueError) as error:
                self._client.fail(job.id, job.fence, f"the result cannot be written as JSON: {error}")
            except ApiError as error:
                if error.status != 422:
                    raise
                self._client.fail(job.id, job.fence, f"the result was refused: {error.detail}")
        elif how == "snooze":
            self._client.snooze(job.id, job.fence, what)
        elif how == "fail":
            self._client.fail(job.id, job.fence, **what)
        else:
            # Under a cancel request this ends it as canceled; at a shutdown another worker takes it.
            self._client.release(job.id, job.fence)

    def _keep_leases(self):
        """Beats for every job a few times per lease, and sooner for one that said something."""
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
            # Its handler does not listen; the process goes all the same, and what it does from now on does not count.
            try:
                self._client.release(job.id, job.fence)
            except WindlassError:
                pass
