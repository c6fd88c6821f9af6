// A worker: claims jobs, runs each as a promise, renews their leases, and settles them.
//
// How it stops: after `stop()`, or when the signal of `run` is aborted, it ends the claim that waits, claims no more jobs, and
// lets the running ones finish for the grace time; then their signals are aborted and they are released for another worker,
// which does not count as a failure. At the end it signs off.

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

import { ApiError, LeaseLost, jittered } from "./client.js";
import { Job } from "./job.js";

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

export class Worker {
  #client;
  #handlers;
  #options;
  // By fence, not by job: after a lost lease, this worker can claim the job again while the first attempt still runs.
  #running = new Map();
  #stopping = new AbortController();
  #ended = new AbortController();
  #freed = () => {};

  constructor(client, handlers, options = {}) {
    this.#client = client;
    this.#handlers = handlers;
    this.#options = { concurrency: 1, queues: [], leaseSeconds: 60, waitSeconds: 20, graceSeconds: 30, logger: console, ...options };
    // Not 0: a worker without jobs would send claims all the time.
    this.#options.waitSeconds = Math.max(1, Math.min(this.#options.waitSeconds, 60));
    // A new name for every start, because host names and process ids can repeat.
    const plain = hostname().replace(/[^A-Za-z0-9._-]/g, "_");
    this.workerId = this.#options.workerId ?? `${plain}:${process.pid}:${randomUUID().slice(0, 8)}`;
  }

  /** Claims no more jobs; `run` resolves when the running jobs have ended. */
  stop() {
    this.#stopping.abort();
  }

  /** Runs jobs until stopped, or until the signal is aborted. */
  run({ signal } = {}) {
    return this.#run(signal, this.#options.waitSeconds);
  }

  /** Runs the jobs that are queued now, and those that they enqueue, and resolves. For tests. */
  runUntilIdle() {
    return this.#run(undefined, undefined);
  }

  async #run(signal, waitSeconds) {
    const definitionKeys = Object.keys(this.#handlers).sort();
    if (definitionKeys.length === 0) throw new Error("a worker needs at least one handler");
    const stop = () => this.stop();
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
    this.#ended = new AbortController();
    const beats = this.#renewLeases();
    let isRegistered = false;
    try {
      isRegistered = await this.#register(definitionKeys);
      await this.#claimLoop(definitionKeys, waitSeconds);
    } finally {
      signal?.removeEventListener("abort", stop);
      await this.#drain();
      this.#ended.abort();
      await beats;
      if (isRegistered) await this.#signOff();
      this.#log("info", `worker ${this.workerId} stopped`);
    }
  }

  /** Resolves with false if the worker is stopped before the server has responded. */
  async #register(definitionKeys) {
    const { queues } = this.#options;
    const about = { worker_id: this.workerId, hostname: hostname(), definition_keys: definitionKeys, queues };
    const response = await this.#untilResponse("register", () => this.#client.register(about), this.#stopping.signal);
    if (response !== undefined) this.#log("info", `worker ${this.workerId} started for ${definitionKeys.join(", ")}`);
    return response !== undefined;
  }

  async #signOff() {
    try {
      const isStopped = await this.#client.stopWorker(this.workerId);
      if (!isStopped) this.#log("info", `worker ${this.workerId} stays listed: a worker of this name holds jobs`);
    } catch (error) {
      const reason = reasonOf(error);
      this.#log("info", `worker ${this.workerId} cannot sign off, so it is listed for another minute: ${reason}`);
    }
  }

  /** Repeats a call while the server cannot be reached. Resolves with undefined if the signal is aborted meanwhile. */
  async #untilResponse(what, call, signal) {
    let isBroken = false;
    for (let pause = 500; !signal.aborted; pause = Math.min(pause * 2, 15_000)) {
      try {
        const response = await call();
        if (isBroken) this.#log("info", `worker ${this.workerId} reconnected`);
        return response;
      } catch (error) {
        if (signal.aborted) return undefined;
        if (!isTemporary(error)) throw error;
        const milliseconds = jittered(pause);
        const again = `again in ${(milliseconds / 1000).toFixed(1)} s`;
        this.#log(isBroken ? "info" : "warn", `${what} failed, ${again}: ${reasonOf(error)}`);
        isBroken = true;
        await sleep(milliseconds, undefined, { signal }).catch(() => {});
      }
    }
    return undefined;
  }

  #log(level, ...words) {
    this.#options.logger?.[level]("windlass:", ...words);
  }

  async #claimLoop(definitionKeys, waitSeconds) {
    const { concurrency, queues, leaseSeconds } = this.#options;
    const signal = this.#stopping.signal;
    while (!signal.aborted) {
      if (this.#running.size >= concurrency) {
        await this.#untilFreed();
        continue;
      }
      const limit = concurrency - this.#running.size;
      const about = { definitionKeys, queues, limit, waitSeconds, leaseSeconds, workerId: this.workerId, signal };
      const claimed = (await this.#untilResponse("claim", () => this.#client.claim(about), signal)) ?? [];
      for (const one of claimed) this.#start(new Job(this.#client, one));
      if (waitSeconds === undefined && claimed.length === 0) {
        if (this.#running.size === 0) return;
        await this.#untilFreed(); // The jobs that still run can enqueue others.
      }
    }
  }

  /** Resolves when a job has ended, or the worker is stopped. */
  async #untilFreed() {
    const signal = this.#stopping.signal;
    await new Promise((resolve) => {
      this.#freed = () => {
        signal.removeEventListener("abort", resolve);
        resolve();
      };
      signal.addEventListener("abort", resolve, { once: true });
    });
  }

  #start(job) {
    this.#log("info", `claimed job ${job.id} (${job.definitionKey}, attempt ${job.attempt})`);
    const run = this.#runOne(job).finally(() => {
      this.#running.delete(job.fence);
      this.#freed();
    });
    this.#running.set(job.fence, { job, run, lastBeat: performance.now() });
  }

  async #runOne(job) {
    try {
      await this.#settle(job, await this.#callHandler(job));
    } catch (error) {
      if (error instanceof LeaseLost) {
        this.#log("warn", `job ${job.id}: the lease was lost, its result is dropped`);
      } else {
        this.#log("error", `job ${job.id} cannot be settled; it is retried when its lease expires:`, error);
      }
    }
  }

  /** Calls the handler. Returns the call that settles the attempt. */
  async #callHandler(job) {
    const client = this.#client;
    try {
      const result = await this.#handlers[job.definitionKey](job);
      return () => client.complete(job.id, job.fence, { result, artifact: job.artifact, next: job.next });
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

  /**
   * Settles the attempt. If the server cannot be reached, it tries until the lease is lost: the work is not repeated because the
   * server was restarted.
   */
  async #settle(job, end) {
    const what = `settling job ${job.id}`;
    const signal = this.#ended.signal;
    try {
      await this.#untilResponse(what, () => job.flush(), signal);
    } catch (error) {
      this.#log("warn", `job ${job.id}: the last progress or log lines were rejected: ${reasonOf(error)}`);
    }
    if (job.signal.reason === "lease-lost") {
      this.#log("warn", `job ${job.id}: the lease was lost, its result is dropped`);
      return;
    }
    try {
      await this.#untilResponse(what, end, signal);
    } catch (error) {
      if (error instanceof LeaseLost) throw error;
      // What JSON cannot express, such as a BigInt, is a TypeError.
      const reason = `the result was rejected: ${error.detail ?? error.message}`;
      await this.#untilResponse(what, () => this.#client.fail(job.id, job.fence, reason), signal);
    }
  }

  /** Sends heartbeats for every job a few times per lease, and sooner if there is new progress or log text. */
  async #renewLeases() {
    const signal = this.#ended.signal;
    const every = Math.max(300, (this.#options.leaseSeconds * 1000) / 3);
    while (!signal.aborted) {
      await sleep(100, undefined, { signal }).catch(() => {});
      const now = performance.now();
      const due = [...this.#running.values()].filter(
        ({ job, lastBeat }) =>
          job.signal.reason !== "lease-lost" && (now - lastBeat >= every || (job.hasUnsent && now - lastBeat >= 500)),
      );
      await Promise.all(
        due.map(async (held) => {
          held.lastBeat = now;
          await held.job.beat().catch((error) => {
            this.#log("warn", `job ${held.job.id}: heartbeat failed, again in a second: ${reasonOf(error)}`);
            held.lastBeat = now - every + 1000;
          });
        }),
      );
    }
  }

  async #drain() {
    const runs = () => Promise.all([...this.#running.values()].map((held) => held.run));
    const grace = new AbortController();
    const pause = (seconds) => sleep(seconds * 1000, undefined, { signal: grace.signal }).catch(() => {});
    await Promise.race([runs(), pause(this.#options.graceSeconds)]);
    for (const { job } of this.#running.values()) job.stop("shutdown");
    await Promise.race([runs(), pause(5)]);
    grace.abort();
    for (const { job } of this.#running.values()) {
      // The handler has not stopped; later results of this attempt are rejected.
      this.#log("warn", `job ${job.id} has not stopped; it is released`);
      await this.#client.release(job.id, job.fence).catch((error) => {
        this.#log("warn", `job ${job.id} cannot be released; its lease expires: ${reasonOf(error)}`);
      });
      this.#running.delete(job.fence);
    }
  }
}

/** Whether the same call can succeed later: the server could not be reached, or had too much to do. */
function isTemporary(error) {
  if (error instanceof ApiError) return [408, 429].includes(error.status) || error.status >= 500;
  // A failed fetch is a TypeError with a cause; other TypeErrors are mistakes of the caller.
  return error.name === "TimeoutError" || error.cause !== undefined;
}

function reasonOf(error) {
  return error.cause?.message ?? error.message;
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
