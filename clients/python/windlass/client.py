"""The HTTP API, one method per call. A client can be used from several threads: each has its own connection."""

import http.client
import json
import ssl
import threading
import time
import urllib.parse
import uuid

from .errors import ApiError, JobFailed, LeaseLost, Timeout, WindlassError

ENDED = ("succeeded", "failed", "dead_letter", "canceled")

# The maximum number of attempts of a call that is safe to repeat.
MAX_ATTEMPTS = 5


class Client:
    """`url` is the URL of the server, `token` an API token. `tenant` is only for super-admin tokens."""

    def __init__(self, url, token=None, tenant=None, timeout=30.0):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise WindlassError(f"url must be an http or https URL: {url!r}")
        self._parts = parts
        self._base = parts.path.rstrip("/")
        self._token = token
        self._tenant = tenant
        self._timeout = timeout
        self._local = threading.local()

    # Jobs.

    def enqueue(self, definition_key, payload=None, idempotency_key=None, **options):
        """Enqueues one job and returns it. `options` are further fields of the API: `queue`, `priority`, `scheduled_for`,
        `dedupe_key`, `subject_type`, ... A repeated request with the same idempotency key returns the same job."""
        body = {"definition_key": definition_key, "payload": {} if payload is None else payload, **options}
        key = idempotency_key or str(uuid.uuid4())
        return self._call("POST", "/api/v1/jobs", body, headers={"Idempotency-Key": key}, again=True)

    def job(self, job_id):
        return self._call("GET", f"/api/v1/jobs/{job_id}", again=True)

    def jobs(self, **filters):
        """Iterates over the jobs that match the filters of the API (`status`, `definition_key`, `subject`, ...), newest
        first. Pages are fetched as needed."""
        while True:
            page = self._call("GET", "/api/v1/jobs?" + urllib.parse.urlencode(filters), again=True)
            yield from page["jobs"]
            if page.get("next_cursor") is None:
                return
            filters["cursor"] = page["next_cursor"]

    def cancel(self, job_id):
        return self._call("POST", f"/api/v1/jobs/{job_id}/cancel", {}, again=True)

    def wait(self, job_id, timeout=None):
        """Waits until the job has succeeded and returns it. Raises `JobFailed` if it ended otherwise, `Timeout` if it has not
        ended in time."""
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

    def register(self, **metadata):
        return self._call("POST", "/api/v1/worker/register", metadata, again=True)

    def claim(self, definition_keys=(), queues=(), limit=1, wait_seconds=0, lease_seconds=60, worker_id=None):
        body = {
            "definition_keys": list(definition_keys),
            "queues": list(queues),
            "limit": limit,
            "wait_seconds": wait_seconds,
            "lease_seconds": lease_seconds,
        }
        if worker_id is not None:
            body["worker_id"] = worker_id
        # Not repeated: the jobs of a lost response are queued again when their lease expires.
        response = self._call("POST", "/api/v1/worker/jobs/claim", body, timeout=wait_seconds + self._timeout)
        return response["jobs"]

    def heartbeat(self, job_id, fence, progress=None, log=None, lease_seconds=None):
        body = {"fence": fence}
        for name, value in (("progress", progress), ("log", log), ("lease_seconds", lease_seconds)):
            if value:
                body[name] = value
        return self._job_call(job_id, "heartbeat", body)

    def complete(self, job_id, fence, result=None, artifact=None, next=()):
        body = {"fence": fence}
        for name, value in (("result", result), ("artifact", artifact)):
            if value is not None:
                body[name] = value
        if next:
            body["next"] = list(next)
        return self._job_call(job_id, "complete", body)

    def fail(self, job_id, fence, error, retryable=True, retry_after_seconds=None):
        body = {"fence": fence, "error": error, "retryable": retryable}
        if retry_after_seconds is not None:
            body["retry_after_seconds"] = retry_after_seconds
        return self._job_call(job_id, "fail", body)

    def snooze(self, job_id, fence, delay_seconds):
        return self._job_call(job_id, "snooze", {"fence": fence, "delay_seconds": delay_seconds})

    def release(self, job_id, fence):
        return self._job_call(job_id, "release", {"fence": fence})

    def _job_call(self, job_id, verb, body):
        # Safe to repeat: because of the fence, the second call changes nothing.
        return self._call("POST", f"/api/v1/worker/jobs/{job_id}/{verb}", body, again=True)

    def _call(self, method, path, body=None, headers=None, timeout=None, again=False):
        sent = {"Accept": "application/json", **(headers or {})}
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        if self._tenant:
            sent["X-Tenant-Id"] = str(self._tenant)
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        pause = 0.1
        for left in range(MAX_ATTEMPTS - 1, -1, -1):
            try:
                status, response_headers, content = self._exchange(method, path, data, sent, timeout or self._timeout)
            except (OSError, http.client.HTTPException) as error:
                if not again or left == 0:
                    raise WindlassError(f"{method} {path}: {error!r}") from error
                time.sleep(pause)
            else:
                if status < 300:
                    return json.loads(content) if content else None
                if not again or left == 0 or status not in (429, 502, 503, 504):
                    raise _error(status, content)
                given = response_headers.get("retry-after", "")
                time.sleep(min(float(given), 30.0) if given.isdigit() else pause)
            pause = min(pause * 2, 5.0)
        raise AssertionError("the last attempt returns or raises")

    def _exchange(self, method, path, data, headers, timeout):
        connection = getattr(self._local, "connection", None)
        is_fresh = connection is None
        if is_fresh:
            connection = self._connect(timeout)
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        connection.timeout = timeout
        self._local.connection = None
        try:
            connection.request(method, self._base + path, body=data, headers=headers)
            response = connection.getresponse()
            content = response.read()
        except (http.client.RemoteDisconnected, ConnectionError):
            connection.close()
            if is_fresh:
                raise
            # The server closed an idle connection; it has not read this request.
            return self._exchange(method, path, data, headers, timeout)
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._local.connection = connection
        return response.status, {name.lower(): value for name, value in response.getheaders()}, content

    def _connect(self, timeout):
        parts = self._parts
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout, context=context)
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)


def _error(status, content):
    try:
        problem = json.loads(content)
    except ValueError:
        problem = {}
    kind = str(problem.get("type", "")).rsplit(":", 1)[-1] or "refused"
    detail = problem.get("detail") or content[:200].decode(errors="replace")
    error = LeaseLost if kind == "lease-lost" else ApiError
    return error(status, kind, detail, problem.get("errors", ()))
