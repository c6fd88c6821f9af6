// The original interface. The worker loop and the stages depend only on it.

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
   * Not ready: runs the same job again after this time. The original inserted a new row whose count started at zero, so the
   * number of polls was unlimited; here the job itself counts.
   */
  snooze(jobId: string, seconds: number): Promise<void>;
}
