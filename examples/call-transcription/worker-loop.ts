// The original loop, with a way to stop it added.

import { setTimeout as sleep } from "node:timers/promises";

import type { JobQueue, QueueJob } from "./job-queue.js";

export type RunStage = (job: QueueJob, queue: JobQueue) => Promise<void>;

export async function workerLoop(queue: JobQueue, workerId: string, runStage: RunStage, stop: AbortSignal) {
  while (!stop.aborted) {
    const job = await queue.claim(workerId);
    if (!job) {
      await sleep(1000);
      continue;
    }
    try {
      await runStage(job, queue); // extract_audio | transcribe_start | transcribe_poll | analyze
      await queue.complete(job.id);
    } catch (err) {
      const backoff = Math.min(600, 30 * Math.pow(2, job.attempts));
      await queue.fail(job.id, String(err), backoff);
    }
  }
}
