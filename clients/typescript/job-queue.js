// The `JobQueue` interface of a hand-written Postgres queue (enqueue, claim, complete, fail) on windlass, so that a worker loop
// for that interface can stay unchanged. It adds leases with heartbeats while a stage runs, fences, and attempts that are
// counted when they start.

import { LeaseLost } from "./client.js";

export class WindlassJobQueue {
  #client;
  #options;
  #held = new Map();

  /** `stages` are the definitions to claim; `prefix` and a stage together are the key of a definition. */
  constructor(client, { stages, prefix = "", leaseSeconds = 60, waitSeconds = 0 }) {
    this.#client = client;
    this.#options = { stages, prefix, leaseSeconds, waitSeconds };
  }

  /** The job as the API expects it, for `enqueue` or for the `next` of `complete`. */
  static newJob({ stage, payload, org_id, call_id, max_attempts }, prefix = "") {
    return {
      definition_key: prefix + stage,
      payload: { ...payload, org_id, call_id },
      subject_type: "call",
      subject_id: String(call_id),
      ...(max_attempts === undefined ? {} : { max_attempts }),
    };
  }

  async enqueue(job, options = {}) {
    const { definition_key, payload, ...rest } = WindlassJobQueue.newJob(job, this.#options.prefix);
    return this.#client.enqueue(definition_key, payload, { ...rest, ...options });
  }

  async claim(workerId) {
    const { stages, prefix, leaseSeconds, waitSeconds } = this.#options;
    const definitionKeys = stages.map((stage) => prefix + stage);
    const [job] = await this.#client.claim({ definitionKeys, limit: 1, waitSeconds, leaseSeconds, workerId });
    if (job === undefined) return null;
    const { org_id, call_id, ...payload } = job.payload;
    const held = { fence: job.fence, canceled: new AbortController() };
    held.timer = setInterval(() => this.#beat(job.id, held), (leaseSeconds * 1000) / 3);
    held.timer.unref();
    this.#held.set(job.id, held);
    return {
      id: job.id,
      org_id,
      call_id,
      stage: job.definition_key.slice(prefix.length),
      payload,
      attempts: job.failures,
      max_attempts: job.max_attempts,
    };
  }

  async complete(jobId, { result, next } = {}) {
    await this.#end(jobId, (fence) => this.#client.complete(jobId, fence, { result, next }));
  }

  async fail(jobId, error, backoffSeconds) {
    await this.#end(jobId, (fence) => this.#client.fail(jobId, fence, error, { retryAfterSeconds: backoffSeconds }));
  }

  /** Runs the same job again later. Does not count as a failure; limited by `max_snoozes` of the definition. */
  async snooze(jobId, seconds) {
    await this.#end(jobId, (fence) => this.#client.snooze(jobId, fence, seconds));
  }

  /** Aborted when the job was canceled or its lease was lost. */
  signal(jobId) {
    return this.#held.get(jobId)?.canceled.signal;
  }

  async #end(jobId, call) {
    const held = this.#held.get(jobId);
    if (held === undefined) throw new Error(`job ${jobId} was not claimed by this queue`);
    clearInterval(held.timer);
    this.#held.delete(jobId);
    try {
      await call(held.fence);
    } catch (error) {
      // Too late: another attempt is running, or the job has ended. The call changed nothing.
      if (!(error instanceof LeaseLost)) throw error;
    }
  }

  async #beat(jobId, held) {
    try {
      const response = await this.#client.heartbeat(jobId, held.fence);
      if (response.cancel_requested) held.canceled.abort("canceled");
    } catch (error) {
      if (error instanceof LeaseLost) held.canceled.abort("lease-lost");
      // Other errors are retried with the next heartbeat.
    }
  }
}
