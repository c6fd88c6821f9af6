// The HTTP API, one method per call, using the built-in fetch.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const ENDED = new Set(["succeeded", "failed", "dead_letter", "canceled"]);

// The maximum number of attempts of a call that is safe to repeat.
const MAX_ATTEMPTS = 5;

// The maximum duration of the call that signs off a worker.
const MAX_STOP_SECONDS = 5;

/** The server returned an error. `status` is the HTTP status, `kind` the last part of the problem type, `errors` the invalid fields. */
export class ApiError extends Error {
  constructor(status, kind, detail, errors = []) {
    super(`${status} ${kind}: ${detail}`);
    this.name = new.target.name;
    this.status = status;
    this.kind = kind;
    this.detail = detail;
    this.errors = errors;
  }
}

/** The attempt is no longer current: its lease expired, or it has ended. The call changed nothing. */
export class LeaseLost extends ApiError {}

/** The job ended without success. */
export class JobFailed extends Error {
  constructor(job) {
    super(`job ${job.id} is ${job.status}: ${job.last_error ?? job.reason}`);
    this.name = "JobFailed";
    this.job = job;
  }
}

/** The job has not ended in the given time. */
export class WaitTimeout extends Error {
  constructor(message) {
    super(message);
    this.name = "WaitTimeout";
  }
}

export class Client {
  #url;
  #token;
  #tenant;
  #timeout;

  constructor({ url, token, tenant, timeoutSeconds = 30 } = {}) {
    if (url === undefined || url === null || url === "") {
      throw new TypeError("url is missing: give the URL of the server, for example from WINDLASS_SERVER");
    }
    if (!/^https?:\/\/[^/]/.test(String(url))) throw new TypeError(`url must be an http or https URL, not "${url}"`);
    this.#url = String(url).replace(/\/+$/, "");
    this.#token = token;
    this.#tenant = tenant;
    this.#timeout = timeoutSeconds;
  }

  // Jobs and events.

  enqueue(definitionKey, payload = {}, { idempotencyKey, ...options } = {}) {
    return this.#create("/api/v1/jobs", { definition_key: definitionKey, payload, ...options }, idempotencyKey);
  }

  async enqueueMany(jobs, { idempotencyKey } = {}) {
    return (await this.#create("/api/v1/jobs/bulk", { jobs }, idempotencyKey)).results;
  }

  emit(name, payload = {}, { idempotencyKey, ...options } = {}) {
    return this.#create("/api/v1/events", { name, payload, ...options }, idempotencyKey);
  }

  job(id) {
    return this.#call("GET", `/api/v1/jobs/${encodeURIComponent(id)}`, undefined, { again: true });
  }

  cancel(id) {
    return this.#call("POST", `/api/v1/jobs/${encodeURIComponent(id)}/cancel`, {}, { again: true });
  }

  /** The jobs that match the filters of the API, newest first. Pages are fetched as needed. */
  async *jobs(filters = {}) {
    for (let cursor; cursor !== null; ) {
      const query = new URLSearchParams(cursor === undefined ? filters : { ...filters, cursor });
      const page = await this.#call("GET", `/api/v1/jobs?${query}`, undefined, { again: true });
      yield* page.jobs;
      cursor = page.next_cursor ?? null;
    }
  }

  async wait(id, { timeoutSeconds, signal } = {}) {
    const deadline = timeoutSeconds === undefined ? Infinity : performance.now() + timeoutSeconds * 1000;
    for (let pause = 50; ; pause = Math.min(pause * 1.5, 2000)) {
      const job = await this.job(id);
      if (job.status === "succeeded") return job;
      if (ENDED.has(job.status)) throw new JobFailed(job);
      if (performance.now() + pause > deadline) {
        throw new WaitTimeout(`job ${id} is ${job.status} after ${timeoutSeconds} s`);
      }
      await sleep(pause, undefined, { signal });
    }
  }

  // The worker protocol. Every call about a job has the fence of its attempt.

  register(metadata = {}) {
    return this.#call("POST", "/api/v1/worker/register", metadata, { again: true });
  }

  /** Not repeated, so that it does not delay the end of a process: without it, the worker is listed for another minute. */
  async stopWorker(workerId) {
    const timeoutSeconds = Math.min(this.#timeout, MAX_STOP_SECONDS);
    return (await this.#call("POST", "/api/v1/worker/stop", { worker_id: workerId }, { timeoutSeconds })).is_stopped;
  }

  async claim({ definitionKeys = [], queues = [], limit = 1, waitSeconds = 0, leaseSeconds = 60, workerId, signal } = {}) {
    const body = {
      definition_keys: definitionKeys,
      queues,
      limit,
      wait_seconds: waitSeconds,
      lease_seconds: leaseSeconds,
      ...(workerId === undefined ? {} : { worker_id: workerId }),
    };
    // Not repeated: the jobs of a lost response are queued again when their lease expires.
    const timeoutSeconds = waitSeconds + this.#timeout;
    const response = await this.#call("POST", "/api/v1/worker/jobs/claim", body, { timeoutSeconds, signal });
    return response.jobs;
  }

  heartbeat(id, fence, { progress, log, leaseSeconds, timeoutSeconds } = {}) {
    const body = { fence };
    if (progress !== undefined) body.progress = progress;
    if (log !== undefined && log.length > 0) body.log = log;
    if (leaseSeconds !== undefined) body.lease_seconds = leaseSeconds;
    // Not repeated: the caller sends the next heartbeat soon, and that one renews the lease for longer.
    return this.#call("POST", jobPath(id, "heartbeat"), body, { timeoutSeconds });
  }

  complete(id, fence, { result, artifact, next } = {}) {
    const body = { fence };
    if (result !== undefined && result !== null) body.result = result;
    if (artifact !== undefined && artifact !== null) body.artifact = artifact;
    if (next !== undefined && next.length > 0) body.next = next;
    return this.#jobCall(id, "complete", body);
  }

  fail(id, fence, error, { retryable = true, retryAfterSeconds } = {}) {
    const body = { fence, error, retryable };
    if (retryAfterSeconds !== undefined) body.retry_after_seconds = retryAfterSeconds;
    return this.#jobCall(id, "fail", body);
  }

  snooze(id, fence, delaySeconds) {
    return this.#jobCall(id, "snooze", { fence, delay_seconds: delaySeconds });
  }

  release(id, fence) {
    return this.#jobCall(id, "release", { fence });
  }

  #create(path, body, idempotencyKey = randomUUID()) {
    // Safe to repeat because of the key.
    return this.#call("POST", path, body, { headers: { "idempotency-key": idempotencyKey }, again: true });
  }

  #jobCall(id, verb, body) {
    // Safe to repeat: because of the fence, the second call changes nothing.
    return this.#call("POST", jobPath(id, verb), body, { again: true });
  }

  async #call(method, path, body, { headers = {}, timeoutSeconds = this.#timeout, again = false, signal } = {}) {
    const sent = { accept: "application/json", ...headers };
    if (this.#token) sent.authorization = `Bearer ${this.#token}`;
    if (this.#tenant) sent["x-tenant-id"] = this.#tenant;
    if (body !== undefined) sent["content-type"] = "application/json";
    // Outside of the loop: what JSON cannot express is not a transport error.
    const data = body === undefined ? undefined : JSON.stringify(body);
    for (let attempt = 1, pause = 100; ; attempt += 1, pause = Math.min(pause * 2, 5000)) {
      const limit = AbortSignal.timeout(timeoutSeconds * 1000);
      let response;
      let text;
      try {
        const request = { method, headers: sent, body: data, signal: either(limit, signal) };
        response = await fetch(this.#url + path, request);
        text = await response.text();
      } catch (error) {
        if (!again || attempt === MAX_ATTEMPTS || signal?.aborted) throw error;
        await sleep(jittered(pause));
        continue;
      }
      if (response.ok) return text === "" ? null : JSON.parse(text);
      if (!again || attempt === MAX_ATTEMPTS || ![429, 502, 503, 504].includes(response.status)) {
        throw apiError(response.status, text);
      }
      const given = Number(response.headers.get("retry-after"));
      await sleep(given > 0 ? Math.min(given, 30) * 1000 : jittered(pause));
    }
  }
}

/** Clients that lost the server in the same moment do not return to it in the same moment. */
export function jittered(pause) {
  return pause * (0.5 + Math.random() / 2);
}

function jobPath(id, verb) {
  return `/api/v1/worker/jobs/${encodeURIComponent(id)}/${verb}`;
}

/** `AbortSignal.any` exists since Node 20. */
function either(limit, signal) {
  if (signal === undefined) return limit;
  if (AbortSignal.any) return AbortSignal.any([limit, signal]);
  const both = new AbortController();
  for (const one of [limit, signal]) {
    if (one.aborted) both.abort(one.reason);
    one.addEventListener("abort", () => both.abort(one.reason), { once: true, signal: both.signal });
  }
  return both.signal;
}

function apiError(status, text) {
  let problem = {};
  try {
    problem = JSON.parse(text) ?? {};
  } catch {
    // Not JSON, such as the page of a proxy; its beginning becomes the detail.
  }
  const kind = String(problem.type ?? "").split(":").at(-1) || "refused";
  const Kind = kind === "lease-lost" ? LeaseLost : ApiError;
  return new Kind(status, kind, problem.detail ?? text.slice(0, 200), problem.errors ?? []);
}
