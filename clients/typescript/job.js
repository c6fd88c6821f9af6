// One attempt of a job, as passed to its handler: what it reports is sent with heartbeats.

import { ApiError, LeaseLost } from "./client.js";

// The maximum number of log lines between two heartbeats; beyond it the oldest are dropped.
const MAX_LOG_LINES = 1000;

export class Job {
  #client;
  #stop = new AbortController();
  #progress;
  #log = [];
  #sending = Promise.resolve();
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
    this.failures = claimed.failures;
    this.fence = claimed.fence;
  }

  /** Aborted when the job should stop; its reason is "canceled", "lease-lost" or "shutdown". */
  get signal() {
    return this.#stop.signal;
  }

  progress(percent, message) {
    this.#progress = { ...(percent === undefined ? {} : { percent }), ...(message === undefined ? {} : { message }) };
  }

  log(...words) {
    this.#log.push(words.map(String).join(" "));
    this.#limitLog();
  }

  /** Adds a job to enqueue in the same transaction that completes this one. Not `then`: an object with it is a promise. */
  follow(definitionKey, payload = {}, options = {}) {
    this.next.push({ definition_key: definitionKey, payload, ...options });
  }

  stop(why) {
    if (!this.#stop.signal.aborted) this.#stop.abort(why);
  }

  get hasUnsent() {
    return this.#progress !== undefined || this.#log.length > 0;
  }

  /** Sends one heartbeat with the progress and the log lines since the last one. One at a time. */
  beat() {
    const sent = this.#sending.then(() => this.#send());
    this.#sending = sent.catch(() => {});
    return sent;
  }

  /** Sends what is left before the attempt ends: afterwards it would be too late, also for a heartbeat in progress. */
  async flush() {
    await this.#sending;
    if (this.hasUnsent) await this.beat();
  }

  async #send() {
    const [progress, log] = [this.#progress, this.#log];
    this.#progress = undefined;
    this.#log = [];
    try {
      // A response that takes longer is of no use: the next heartbeat is then due.
      const timeoutSeconds = Math.max(1, this.claimed.lease_seconds / 3);
      const response = await this.#client.heartbeat(this.id, this.fence, { progress, log, timeoutSeconds });
      if (response.cancel_requested) this.stop("canceled");
    } catch (error) {
      if (error instanceof LeaseLost) return this.stop("lease-lost");
      // If they were rejected, they are dropped, so that the next heartbeat renews the lease.
      if (!(error instanceof ApiError && [413, 422].includes(error.status))) {
        this.#progress ??= progress;
        this.#log = [...log, ...this.#log];
        this.#limitLog();
      }
      throw error;
    }
  }

  #limitLog() {
    this.#log.splice(0, this.#log.length - MAX_LOG_LINES);
  }
}
