"""The HTTP API, one method per call. A client can be used from several threads: each has its own connection."""

import http.client
import json
import random
import time
import urllib.parse
import uuid
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional

from .encoding import encode
from .errors import ApiError, JobFailed, LeaseLost, Timeout, WindlassError
from .transport import Interrupt, Transport

ENDED = ("succeeded", "failed", "dead_letter", "canceled")

# The maximum number of attempts of a call that is safe to repeat.
MAX_ATTEMPTS = 5

# The maximum duration of the call that signs off a worker.
MAX_STOP_SECONDS = 5.0

Json = Dict[str, Any]


class Client:
    """`url` is the URL of the server, `token` an API token. `tenant` is only for super-admin tokens."""

    def __init__(
        self, url: str, token: Optional[str] = None, tenant: Optional[str] = None, timeout: float = 30.0
    ) -> None:
        self._transport = Transport(url)
        # A file with a token ends with a newline, which a header must not contain.
        self._token = token.strip() if token else None
        self._tenant = tenant
        self._timeout = timeout

    # Jobs and events.

    def enqueue(
        self, definition_key: str, payload: Any = None, idempotency_key: Optional[str] = None, **options: Any
    ) -> Json:
        """Enqueues one job and returns it. The payload is anything that JSON can express, or a dataclass. `options` are
        further fields of the API: `queue`, `priority`, `scheduled_for`, `dedupe_key`, `subject_type`, ... A repeated request
        with the same idempotency key returns the same job."""
        return self._create("/api/v1/jobs", new_job(definition_key, payload, **options), idempotency_key)

    def enqueue_many(self, jobs: Iterable[Mapping[str, Any]], idempotency_key: Optional[str] = None) -> List[Json]:
        """Enqueues many jobs in one request. Each is a dictionary with `definition_key`, `payload` and further fields.
        Returns one result per job, in order: its `status` (201, 200 for a duplicate, 422), and `job` or `errors`."""
        body = {"jobs": [dict(job) for job in jobs]}
        results: List[Json] = self._create("/api/v1/jobs/bulk", body, idempotency_key)["results"]
        return results

    def emit(self, name: str, payload: Any = None, idempotency_key: Optional[str] = None, **options: Any) -> Json:
        """Emits an event, which starts the jobs of the triggers that match it. Returns its `id` and `is_duplicate`."""
        body = {"name": name, "payload": {} if payload is None else payload, **options}
        return self._create("/api/v1/events", body, idempotency_key)

    def job(self, job_id: str) -> Json:
        job: Json = self._call("GET", f"/api/v1/jobs/{job_id}", again=True)
        return job

    def jobs(self, **filters: Any) -> Iterator[Json]:
        """Iterates over the jobs that match the filters of the API (`status`, `definition_key`, `subject`, ...), newest
        first. Pages are fetched as needed."""
        while True:
            page = self._call("GET", "/api/v1/jobs?" + urllib.parse.urlencode(filters), again=True)
            yield from page["jobs"]
            if page.get("next_cursor") is None:
                return
            filters["cursor"] = page["next_cursor"]

    def cancel(self, job_id: str) -> Json:
        job: Json = self._call("POST", f"/api/v1/jobs/{job_id}/cancel", {}, again=True)
        return job

    def wait(self, job_id: str, timeout: Optional[float] = None) -> Json:
        """Waits until the job has succeeded and returns it; its result is in `result`. Raises `JobFailed` if it ended
        otherwise, `Timeout` if it has not ended in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.05
        while True:
            job = self.job(job_id)
            if job["status"] == "succeeded":
                return job
            if job["status"] in ENDED:
                raise JobFailed(job)
            if deadline is not None and time.monotonic() + pause > deadline:
                raise Timeout(f"job {job_id} is {job['status']} after {timeout} s")
            time.sleep(pause)
            pause = min(pause * 1.5, 2.0)

    # The worker protocol. Every call about a job has the fence of its attempt.

    def register(self, **metadata: Any) -> Json:
        response: Json = self._call("POST", "/api/v1/worker/register", metadata, again=True)
        return response

    def stop_worker(self, worker_id: str) -> bool:
        """Signs off a worker that stops: it is then listed as stopped. Returns False while a worker of this name holds jobs.
        Not repeated, so that it does not delay the end of a process: without it, the worker is listed for another minute."""
        body, timeout = {"worker_id": worker_id}, min(self._timeout, MAX_STOP_SECONDS)
        response: Json = self._call("POST", "/api/v1/worker/stop", body, timeout=timeout)
        return bool(response["is_stopped"])

    def claim(
        self,
        definition_keys: Iterable[str] = (),
        queues: Iterable[str] = (),
        limit: int = 1,
        wait_seconds: float = 0,
        lease_seconds: float = 60,
        worker_id: Optional[str] = None,
        interrupt: Optional[Interrupt] = None,
    ) -> List[Json]:
        """Claims at most `limit` jobs. The server waits up to `wait_seconds` (at most 60) for the first one."""
        body: Json = {
            "definition_keys": list(definition_keys),
            "queues": list(queues),
            "limit": limit,
            "wait_seconds": wait_seconds,
            "lease_seconds": lease_seconds,
        }
        if worker_id is not None:
            body["worker_id"] = worker_id
        # Not repeated: the jobs of a lost response are queued again when their lease expires.
        path, timeout = "/api/v1/worker/jobs/claim", wait_seconds + self._timeout
        jobs: List[Json] = self._call("POST", path, body, timeout=timeout, interrupt=interrupt)["jobs"]
        return jobs

    def heartbeat(
        self,
        job_id: str,
        fence: str,
        progress: Optional[Json] = None,
        log: Optional[List[str]] = None,
        lease_seconds: Optional[float] = None,
        timeout: Optional[float] = None,
    ) -> Json:
        body: Json = {"fence": fence}
        for name, value in (("progress", progress), ("log", log), ("lease_seconds", lease_seconds)):
            if value:
                body[name] = value
        # Not repeated: the caller sends the next heartbeat soon, and that one renews the lease for longer.
        response: Json = self._call("POST", f"/api/v1/worker/jobs/{job_id}/heartbeat", body, timeout=timeout)
        return response

    def complete(
        self, job_id: str, fence: str, result: Any = None, artifact: Any = None, next: Iterable[Json] = ()
    ) -> Json:
        body: Json = {"fence": fence}
        for name, value in (("result", result), ("artifact", artifact)):
            if value is not None:
                body[name] = value
        if next:
            body["next"] = list(next)
        return self._job_call(job_id, "complete", body)

    def fail(
        self,
        job_id: str,
        fence: str,
        error: str,
        retryable: bool = True,
        retry_after_seconds: Optional[float] = None,
    ) -> Json:
        body: Json = {"fence": fence, "error": error, "retryable": retryable}
        if retry_after_seconds is not None:
            body["retry_after_seconds"] = retry_after_seconds
        return self._job_call(job_id, "fail", body)

    def snooze(self, job_id: str, fence: str, delay_seconds: float) -> Json:
        return self._job_call(job_id, "snooze", {"fence": fence, "delay_seconds": delay_seconds})

    def release(self, job_id: str, fence: str) -> Json:
        return self._job_call(job_id, "release", {"fence": fence})

    def _create(self, path: str, body: Json, idempotency_key: Optional[str]) -> Json:
        # Safe to repeat because of the key.
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        created: Json = self._call("POST", path, body, headers=headers, again=True)
        return created

    def _job_call(self, job_id: str, verb: str, body: Json) -> Json:
        # Safe to repeat: because of the fence, the second call changes nothing.
        response: Json = self._call("POST", f"/api/v1/worker/jobs/{job_id}/{verb}", body, again=True)
        return response

    def _call(
        self,
        method: str,
        path: str,
        body: Optional[Json] = None,
        headers: Optional[Dict[str, str]] = None,
        timeout: Optional[float] = None,
        again: bool = False,
        interrupt: Optional[Interrupt] = None,
    ) -> Any:
        sent = {"Accept": "application/json", **(headers or {})}
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        if self._tenant:
            sent["X-Tenant-Id"] = str(self._tenant)
        data = None
        if body is not None:
            data = encode(body).encode()
            sent["Content-Type"] = "application/json"
        pause = 0.1
        for left in range(MAX_ATTEMPTS - 1, -1, -1):
            try:
                status, response_headers, content = self._transport.exchange(
                    method, path, data, sent, timeout or self._timeout, interrupt
                )
            except (OSError, http.client.HTTPException) as error:
                if not again or left == 0:
                    raise WindlassError(f"{method} {path}: {error!r}") from error
                time.sleep(jittered(pause))
            else:
                if status < 300:
                    return json.loads(content) if content else None
                if not again or left == 0 or status not in (429, 502, 503, 504):
                    raise _error(status, content)
                given = response_headers.get("retry-after", "")
                time.sleep(min(float(given), 30.0) if given.isdigit() else jittered(pause))
            pause = min(pause * 2, 5.0)
        raise AssertionError("the last attempt returns or raises")


def jittered(pause: float) -> float:
    """Clients that lost the server in the same moment do not return to it in the same moment."""
    return pause * random.uniform(0.5, 1.0)


def new_job(definition_key: str, payload: Any = None, **options: Any) -> Json:
    """A job as the API expects it."""
    return {"definition_key": definition_key, "payload": {} if payload is None else payload, **options}


def _error(status: int, content: bytes) -> ApiError:
    try:
        problem = json.loads(content)
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    kind = str(problem.get("type", "")).rsplit(":", 1)[-1] or "refused"
    detail = problem.get("detail") or content[:200].decode(errors="replace")
    error = LeaseLost if kind == "lease-lost" else ApiError
    return error(status, kind, detail, problem.get("errors") or ())
