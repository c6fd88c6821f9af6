// The seam, as the team wrote it: whatever is behind it, the worker loop and the stages stay as they are.

export type StageName = "extract_audio" | "transcribe_start" | "transcribe_poll" | "analyze";

export interface QueueJob {
  id: string;
  org_id: string;
  call_id: string;
  stage: StageName;
  payload: Record<string, unknown>;
  attempts: number;
  max_attempts: number;
}

export interface JobQueue {
  enqueue(job: Omit<QueueJob, "id" | "attempts">): Promise<void>;
  claim(workerId: string): Promise<QueueJob | null>;
  complete(jobId: string): Promise<void>;
  fail(jobId: string, error: string, backoffSeconds: number): Promise<void>;
  /**
   * Not ready: the same job again after this time. The document re-enqueued a new row instead, whose count began at zero, so
   * nothing bounded it; here the job itself counts.
   */
  snooze(jobId: string, seconds: number): Promise<void>;
}
