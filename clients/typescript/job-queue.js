// The `JobQueue` of a hand-written Postgres queue (enqueue, claim, complete, fail) over windlass, so that a worker loop
// written against that interface stays as it was. What it lacked comes with it: claims that cannot be lost, fences, leases
// that are kept while a stage runs, and an attempt counted when it begins.

import { LeaseLost } from "./client.js";

export class WindlassJobQueue {
  #client;
  #options;
  #held = new Map();

  /** `stages` are the definitions to take jobs of; `prefix` is put before a stage to make a definition's key. */
  constructor(client, { stages, prefix = "", leaseSeconds = 60, waitSeconds = 0 }) {
    this.#client = client;
    this.#options = { stages, prefix, leaseSeconds, waitSeconds };
  }

  /** The job in the API's words, to be enqueued or to be given to `complete` as what follows. */
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

  /** Not ready yet: the same job again later, uncharged, bounded by the definition and not by a new row's fresh count. */
  async snooze(jobId, seconds) {
    await this.#end(jobId, (fence) => this.#client.snooze(jobId, fence, seconds));
  }

  /** Aborted when the job was canceled or its lease was lost. */
  signal(jobId) {
    return this.#held.get(jobId)?.canceled.signal;
  }

  async #end(jobId, call) {
    const held = this.#held.get(jobId);
    if (held === undefined) throw new Error(`job ${jobId} is not held by this queue`);
    clearInterval(held.timer);
    this.#held.delete(jobId);
    try {
      await call(held.fence);
    } catch (error) {
      // Too late: another attempt is under way or the job has ended. It changed nothing, as it should.
      if (!(error instanceof LeaseLost)) throw error;
    }
  }

  async #beat(jobId, held) {
    try {
      const answer = await this.#client.heartbeat(jobId, held.fence);
      if (answer.cancel_requested) held.canceled.abort("canceled");
    } catch (error) {
      if (error instanceof LeaseLost) held.canceled.abort("lease_lost");
      // Anything else is tried again at the next beat.
    }
  }
}
