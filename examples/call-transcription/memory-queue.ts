// The same interface in memory. The stages do not depend on the implementation.

import { randomUUID } from "node:crypto";

import type { JobQueue, QueueJob } from "./job-queue.js";

interface Kept extends QueueJob {
  status: "queued" | "processing" | "done" | "failed";
  availableAt: number;
}

export class MemoryQueue implements JobQueue {
  jobs: Kept[] = [];

  async enqueue(job: Omit<QueueJob, "id" | "attempts">) {
    this.jobs.push({ ...job, id: randomUUID(), attempts: 0, status: "queued", availableAt: 0 });
  }

  async claim() {
    const job = this.jobs.find((job) => job.status === "queued" && job.availableAt <= Date.now());
    if (job) job.status = "processing";
    return job ?? null;
  }

  async complete(jobId: string) {
    const job = this.#get(jobId);
    if (job.status === "processing") job.status = "done";
  }

  async fail(jobId: string, _error: string, backoffSeconds: number) {
    const job = this.#get(jobId);
    job.attempts += 1;
    job.status = job.attempts >= job.max_attempts ? "failed" : "queued";
    job.availableAt = Date.now() + backoffSeconds * 1000;
  }

  async snooze(jobId: string, seconds: number) {
    const job = this.#get(jobId);
    job.status = "queued";
    job.availableAt = Date.now() + seconds * 1000;
  }

  #get(jobId: string) {
    const job = this.jobs.find((job) => job.id === jobId);
    if (job === undefined) throw new Error(`no job ${jobId}`);
    return job;
  }
}
