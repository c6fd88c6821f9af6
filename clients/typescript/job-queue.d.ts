import type { Client, NewJob, NewJobOptions } from "./index.js";

export interface QueueJob {
  id: string;
  org_id: string;
  call_id: string;
  stage: string;
  payload: Record<string, unknown>;
  attempts: number;
  max_attempts: number;
}

/** The interface of the worker loop, independent of the queue behind it. */
export interface JobQueue {
  enqueue(job: Omit<QueueJob, "id" | "attempts">): Promise<unknown>;
  claim(workerId: string): Promise<QueueJob | null>;
  complete(jobId: string): Promise<void>;
  fail(jobId: string, error: string, backoffSeconds: number): Promise<void>;
}

export class WindlassJobQueue implements JobQueue {
  constructor(client: Client, options: { stages: string[]; prefix?: string; leaseSeconds?: number; waitSeconds?: number });
  /** The job as the API expects it, for `enqueue` or for the `next` of `complete`. */
  static newJob(job: Omit<QueueJob, "id" | "attempts">, prefix?: string): NewJob;
  enqueue(
    job: Omit<QueueJob, "id" | "attempts">,
    options?: NewJobOptions & { idempotencyKey?: string },
  ): Promise<unknown>;
  claim(workerId: string): Promise<QueueJob | null>;
  complete(jobId: string, done?: { result?: unknown; next?: NewJob[] }): Promise<void>;
  fail(jobId: string, error: string, backoffSeconds: number): Promise<void>;
  snooze(jobId: string, seconds: number): Promise<void>;
  signal(jobId: string): AbortSignal | undefined;
}
