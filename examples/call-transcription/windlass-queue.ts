// The interface on windlass. Jobs that a stage enqueues are kept until the stage completes and are sent with the completion in
// one call, so a stage never completes without its next one and never enqueues it twice.

import { Client, type NewJob } from "windlass-client";
import { WindlassJobQueue } from "windlass-client/job-queue";

import type { JobQueue, QueueJob, StageName } from "./job-queue.js";

const STAGES: StageName[] = ["extract_audio", "transcribe_start", "transcribe_poll", "analyze"];

export interface Options {
  url: string;
  token: string;
  leaseSeconds: number;
  /** A transcription that takes longer than this is abandoned, even if polls are left. */
  pollDeadlineSeconds: number;
}

export function windlassQueue(options: Options): JobQueue {
  const queue = new WindlassJobQueue(new Client(options), {
    stages: STAGES,
    prefix: "call.",
    leaseSeconds: options.leaseSeconds,
    waitSeconds: 5,
  });
  let next: NewJob[] = [];
  let snoozed: number | undefined;
  return {
    async enqueue(job) {
      const deadline = new Date(Date.now() + options.pollDeadlineSeconds * 1000).toISOString();
      next.push({ ...WindlassJobQueue.newJob(job, "call."), ...(job.stage === "transcribe_poll" ? { deadline } : {}) });
    },
    async claim(workerId) {
      next = [];
      snoozed = undefined;
      return (await queue.claim(workerId)) as QueueJob | null;
    },
    async snooze(_jobId, seconds) {
      snoozed = seconds;
    },
    async complete(jobId) {
      if (snoozed === undefined) await queue.complete(jobId, { next });
      else await queue.snooze(jobId, snoozed);
    },
    fail: (jobId, error, backoffSeconds) => queue.fail(jobId, error, backoffSeconds),
  };
}
