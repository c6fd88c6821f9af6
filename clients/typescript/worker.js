// A worker: claims jobs, runs each as a promise, renews their leases, and settles them.
//
// How it stops: after `stop()`, or when the signal of `run` is aborted, it ends the claim that waits, claims no more jobs, and
// lets the running ones finish for the grace time; then their signals are aborted and they are released for another worker,
// which does not count as a failure.

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

import { ApiError, LeaseLost } from "./client.js";

const MAX_LOG_LINES = 1000;

// The longest error that is sent with a failed attempt.
const MAX_ERROR = 8000;

/** Thrown by a handler: run the job again after this many seconds. Does not count as a failure. */
export class Snooze extends Error {
  constructor(seconds) {
    super(`snooze for ${seconds} s`);
    this.seconds = seconds;
  }
}

/** Thrown by a handler: the attempt failed. It is retried after `afterSeconds`, or with the backoff of the definition. */
export class Retry extends Error {
  constructor(message, afterSeconds) {
    super(message);
    this.afterSeconds = afterSeconds;
  }
}

/** Thrown by a handler: the job failed permanently; it is not retried. */
export class Permanent extends Error {}

/** One attempt of a job, as passed to its handler. */
class Job {
  #client;
  #stop = new AbortController();
  #progress;
  #log = [];
  next = [];
  artifact;

  constructor(client, claimed) {
    this.#client = client;
    this.claimed = claimed;
    this.id = claimed.id;
    this.tenantId = claimed.tenant_id;
    this.definitionKey = claimed.definition_key;
    this.payload = claimed.payload;
    this.attempt = claimed.attempt;
    this.maxAttempts = claimed.max_attempts;
    this.fence = claimed.fence;
  }

  /** Aborted when the job should stop; its reason is "canceled", "lease_lost" or "shutdown". */
  get signal() {
    return this.#stop.signal;
  }

  progress(percent, message) {
    this.#progress = { ...(percent === undefined ? {} : { percent }), ...(message === undefined ? {} : { message }) };
  }

  log(...words) {
    this.#log.push(words.map(String).join(" "));
    if (this.#log.length > MAX_LOG_LINES) this.#log.shift();
  }

  /** Adds a job to enqueue in the same transaction that completes this one. */
  follow(definitionKey, payload = {}, options = {}) {
    this.next.push({ definition_key: definitionKey, payload, ...options });
  }

  stop(why) {
    if (!this.#stop.signal.aborted) this.#stop.abort(why);
  }

  get hasUnsent() {
    return this.#progress !== undefined || this.#log.length > 0;
  }

  async beat() {
    const unsent = { progress: this.#progress, log: this.#log };
    this.#progress = undefined;
    this.#log = [];
    try {
      const response = await this.#client.heartbeat(this.id, this.fence, unsent);
      if (response.cancel_requested) this.stop("canceled");
    } catch (error) {
      if (error instanceof LeaseLost) this.stop("lease_lost");
      else throw error;
    }
  }
}

export class Worker {
  #client;
  #handlers;
  #options;
  #running = new Map();
  #stopping = new AbortController();
  #freed = () => {};

  constructor(client, handlers, options = {}) {
    this.#client = client;
    this.#handlers = handlers;
    this.#options = { concurrency: 1, queues: [], leaseSeconds: 60, waitSeconds: 20, graceSeconds: 30, logger: console, ...options };
    // A new name for every start, because host names and process ids can repeat.
    const plain = hostname().replace(/[^A-Za-z0-9._-]/g, "_");
    this.workerId = this.#options.workerId ?? `${plain}:${process.pid}:${randomUUID().slice(0, 8)}`;
  }

  /** Claims no more jobs; `run` resolves when the running jobs have ended. */
  stop() {
    this.#stopping.abort();
  }

  /** Runs jobs until stopped, or until the signal is aborted. */
  async run({ signal } = {}) {
    const definitionKeys = Object.keys(this.#handlers).sort();
    if (definitionKeys.length === 0) throw new Error("a worker needs at least one handler");
    const stop = () => this.stop();
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
    const beats = this.#renewLeases();
    try {
      await this.#register(definitionKeys);
      await this.#claimLoop(definitionKeys);
    } finally {
      signal?.removeEventListener("abort", stop);
      this.stop();
      await this.#drain();
      await beats;
      this.#log("info", `worker ${this.workerId} stopped`);
    }
  }

  async #register(definitionKeys) {
    const { queues } = this.#options;
    const about = { worker_id: this.workerId, hostname: hostname(), definition_keys: definitionKeys, queues };
    const response = await this.#untilResponse("register", () => this.#client.register(about));
    if (response !== undefined) this.#log("info", `worker ${this.workerId} started for ${definitionKeys.join(", ")}`);
  }

  /** Repeats a call while the server cannot be reached. Resolves with undefined if the worker is stopped meanwhile. */
  async #untilResponse(what, call) {
    const signal = this.#stopping.signal;
    let isBroken = false;
    for (let pause = 500; !signal.aborted; pause = Math.min(pause * 2, 15_000)) {
      try {
        const response = await call();
        if (isBroken) this.#log("info", `worker ${this.workerId} reconnected`);
        return response;
      } catch (error) {
        if (signal.aborted) return undefined;
        if (error instanceof ApiError && [401, 403, 404, 422].includes(error.status)) throw error;
        const reason = error.cause?.message ?? error.message;
        this.#log(isBroken ? "info" : "warn", `${what} failed, again in ${pause / 1000} s: ${reason}`);
        isBroken = true;
        await sleep(pause, undefined, { signal }).catch(() => {});
      }
    }
    return undefined;
  }

  #log(level, ...words) {
    this.#options.logger?.[level]("windlass:", ...words);
  }

  async #claimLoop(definitionKeys) {
    const { concurrency, queues, leaseSeconds, waitSeconds } = this.#options;
    const signal = this.#stopping.signal;
    while (!signal.aborted) {
      if (this.#running.size >= concurrency) {
        await new Promise((resolve) => {
          this.#freed = resolve;
          signal.addEventListener("abort", resolve, { once: true });
        });
        continue;
      }
      const limit = concurrency - this.#running.size;
      const claim = { definitionKeys, queues, limit, waitSeconds, leaseSeconds, workerId: this.workerId, signal };
      const claimed = (await this.#untilResponse("claim", () => this.#client.claim(claim))) ?? [];
      for (const one of claimed) {
        const job = new Job(this.#client, one);
        this.#log("info", `claimed job ${job.id} (${job.definitionKey}, attempt ${job.attempt})`);
        const run = this.#runOne(job).finally(() => {
          this.#running.delete(job.id);
          this.#freed();
        });
        this.#running.set(job.id, { job, run, lastBeat: performance.now() });
      }
    }
  }

  async #runOne(job) {
    try {
      const end = await this.#callHandler(job);
      if (job.signal.reason === "lease_lost") return;
      if (job.hasUnsent) await job.beat();
      await end();
    } catch (error) {
      // Lease lost: the result is dropped. Otherwise the lease expires, and the job is retried.
      if (!(error instanceof LeaseLost)) this.#log("error", `cannot settle job ${job.id}:`, error);
    }
  }

  /** Calls the handler. Returns the call that settles the attempt. */
  async #callHandler(job) {
    const client = this.#client;
    try {
      const result = await this.#handlers[job.definitionKey](job);
      return async () => {
        try {
          await client.complete(job.id, job.fence, { result, artifact: job.artifact, next: job.next });
        } catch (error) {
          if (!(error instanceof ApiError) || error.status !== 422) throw error;
          await client.fail(job.id, job.fence, `the result was rejected: ${error.detail}`);
        }
      };
    } catch (error) {
      if (error instanceof Snooze) return () => client.snooze(job.id, job.fence, error.seconds);
      if (error instanceof Permanent) return () => client.fail(job.id, job.fence, error.message, { retryable: false });
      if (error instanceof Retry) {
        return () => client.fail(job.id, job.fence, error.message, { retryAfterSeconds: error.afterSeconds });
      }
      // After a cancel request the job ends as canceled; at a shutdown another worker claims it.
      if (job.signal.aborted) return () => client.release(job.id, job.fence);
      const text = errorText(error);
      this.#log("info", `job ${job.id} (${job.definitionKey}) failed: ${text.split("\n", 1)[0]}`);
      return () => client.fail(job.id, job.fence, text);
    }
  }

  /** Sends heartbeats for every job a few times per lease, and sooner if there is new progress or log text. */
  async #renewLeases() {
    const every = Math.max(300, (this.#options.leaseSeconds * 1000) / 3);
    while (!this.#stopping.signal.aborted || this.#running.size > 0) {
      await sleep(100);
      const now = performance.now();
      const due = [...this.#running.values()].filter(
        (held) => now - held.lastBeat >= every || (held.job.hasUnsent && now - held.lastBeat >= 500),
      );
      await Promise.all(
        due.map(async (held) => {
          held.lastBeat = now;
          await held.job.beat().catch((error) => {
            this.#log("warn", `job ${held.job.id}: heartbeat failed, again in a second: ${error.message}`);
            held.lastBeat = now - every + 1000; // Try again in a second.
          });
        }),
      );
    }
  }

  async #drain() {
    const runs = () => Promise.all([...this.#running.values()].map((held) => held.run));
    const grace = new AbortController();
    const timer = sleep(this.#options.graceSeconds * 1000, undefined, { signal: grace.signal }).catch(() => {});
    await Promise.race([runs(), timer]);
    for (const { job } of this.#running.values()) job.stop("shutdown");
    await Promise.race([runs(), sleep(5000, undefined, { signal: grace.signal }).catch(() => {})]);
    grace.abort();
    for (const { job } of this.#running.values()) {
      // The handler has not stopped; later results of this attempt are rejected.
      await this.#client.release(job.id, job.fence).catch(() => {});
      this.#running.delete(job.id);
    }
  }
}

/** `TypeName: message` on the first line, because lists show only that line, then the stack. */
function errorText(error) {
  if (!(error instanceof Error)) return String(error).slice(0, MAX_ERROR);
  const name = error.name === "Error" ? (error.constructor?.name ?? error.name) : error.name;
  const firstLine = `${name}: ${error.message}`.split("\n", 1)[0].slice(0, 1000);
  const stack = String(error.stack ?? "");
  const text = stack.startsWith(`${firstLine}\n`) ? stack : `${firstLine}\n${stack}`;
  return text.slice(0, MAX_ERROR);
}
