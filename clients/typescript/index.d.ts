export type Status =
  | "scheduled" | "blocked" | "queued" | "running" | "succeeded" | "failed" | "dead_letter" | "canceled";

/** The types of the jobs of one definition. */
export interface JobTypes {
  payload: any;
  result: any;
}

/**
 * The definitions of an application by key, such as `{ resize: { payload: { image: number }; result: { width: number } } }`. With
 * it as the parameter of `Client`, payloads and results are checked by the compiler. Without it, any key and payload is allowed.
 */
export type Definitions<D> = { [Key in keyof D]: JobTypes };
export type AnyDefinitions = Record<string, JobTypes>;

/** A job as returned by the API; it has more fields than these. */
export interface JobRecord<Result = any> {
  id: string;
  status: Status;
  definition_key: string;
  result?: Result;
  [field: string]: unknown;
}

/** A new job, as the API expects it. */
export interface NewJob<Key extends string = string, Payload = unknown> extends NewJobOptions {
  definition_key: Key;
  payload?: Payload;
}

export interface NewJobOptions {
  queue?: string;
  priority?: number;
  scheduled_for?: string;
  delay_seconds?: number;
  dedupe_key?: string;
  ordering_key?: string;
  depends_on?: string[];
  subject_type?: string;
  subject_id?: string;
  tags?: string[];
  correlation_id?: string;
  max_attempts?: number;
  deadline?: string;
}

/** A new job of one of the definitions. */
export type NewJobOf<D extends Definitions<D>> = { [Key in keyof D & string]: NewJob<Key, D[Key]["payload"]> }[keyof D & string];

/** `status` is 201, 200 for a duplicate, or that of the error. */
export interface BulkResult {
  status: number;
  job?: JobRecord;
  detail?: string;
  errors?: { pointer: string; message: string }[];
}

export interface EmittedEvent {
  id: string;
  is_duplicate: boolean;
}

export interface ClaimedJob {
  id: string;
  tenant_id: string;
  definition_key: string;
  queue: string;
  payload: any;
  attempt: number;
  max_attempts: number;
  failures: number;
  fence: string;
  lease_expires_at: string;
  lease_seconds: number;
  deadline: string;
  [field: string]: unknown;
}

export interface Progress {
  percent?: number;
  message?: string;
}

export interface Ended {
  status: Status;
}

export class ApiError extends Error {
  status: number;
  kind: string;
  detail: string;
  errors: { pointer: string; message: string }[];
}
export class LeaseLost extends ApiError {}
export class JobFailed extends Error {
  job: JobRecord;
}
export class WaitTimeout extends Error {}

export class Client<D extends Definitions<D> = AnyDefinitions> {
  /** Throws a TypeError if the URL is missing or wrong. */
  constructor(options: { url: string | URL | undefined; token?: string; tenant?: string; timeoutSeconds?: number });
  enqueue<Key extends keyof D & string>(
    definitionKey: Key,
    payload?: D[Key]["payload"],
    options?: NewJobOptions & { idempotencyKey?: string },
  ): Promise<JobRecord<D[Key]["result"]>>;
  /** Many jobs in one request; one result per job, in order. */
  enqueueMany(jobs: NewJobOf<D>[], options?: { idempotencyKey?: string }): Promise<BulkResult[]>;
  /** Emits an event, which starts the jobs of the triggers that match it. */
  emit(
    name: string,
    payload?: unknown,
    options?: { idempotencyKey?: string; dedupe_id?: string; correlation_id?: string },
  ): Promise<EmittedEvent>;
  job(id: string): Promise<JobRecord>;
  /** The jobs that match the filters of the API, newest first. Pages are fetched as needed. */
  jobs(filters?: Record<string, string>): AsyncGenerator<JobRecord>;
  cancel(id: string): Promise<unknown>;
  /** Resolves with the job once it has succeeded; rejects with JobFailed or WaitTimeout. */
  wait<Result = any>(id: string, options?: { timeoutSeconds?: number; signal?: AbortSignal }): Promise<JobRecord<Result>>;

  register(metadata?: {
    worker_id?: string;
    hostname?: string;
    version?: string;
    definition_keys?: string[];
    queues?: string[];
    metadata?: Record<string, unknown>;
  }): Promise<{ worker_id: string; is_draining: boolean }>;
  /** Signs off a worker that stops: it is then listed as stopped. Resolves with false while a worker of this name holds jobs. */
  stopWorker(workerId: string): Promise<boolean>;
  /** Claims at most `limit` jobs. The server waits up to `waitSeconds` (at most 60) for the first one. */
  claim(options: {
    definitionKeys?: string[];
    queues?: string[];
    limit?: number;
    waitSeconds?: number;
    leaseSeconds?: number;
    workerId?: string;
    signal?: AbortSignal;
  }): Promise<ClaimedJob[]>;
  heartbeat(
    id: string,
    fence: string,
    said?: { progress?: Progress; log?: string[]; leaseSeconds?: number; timeoutSeconds?: number },
  ): Promise<{ lease_expires_at: string; lease_seconds: number; cancel_requested: boolean }>;
  complete(id: string, fence: string, done?: { result?: unknown; artifact?: unknown; next?: NewJob[] }): Promise<Ended>;
  fail(id: string, fence: string, error: string, how?: { retryable?: boolean; retryAfterSeconds?: number }): Promise<Ended>;
  snooze(id: string, fence: string, delaySeconds: number): Promise<Ended>;
  release(id: string, fence: string): Promise<Ended>;
}

/** One attempt of a job, as passed to its handler. */
export interface Job<Payload = any> {
  readonly id: string;
  readonly tenantId: string;
  readonly definitionKey: string;
  readonly payload: Payload;
  readonly attempt: number;
  readonly maxAttempts: number;
  /** The number of failures before this attempt. */
  readonly failures: number;
  readonly fence: string;
  readonly claimed: ClaimedJob;
  /** Aborted when the job should stop; its reason is "canceled", "lease-lost" or "shutdown". */
  readonly signal: AbortSignal;
  /** A reference to what the job created, stored when the job succeeds. */
  artifact?: unknown;
  progress(percent?: number, message?: string): void;
  log(...words: unknown[]): void;
  /** Adds a job to enqueue in the same transaction that completes this one. */
  follow(definitionKey: string, payload?: unknown, options?: NewJobOptions): void;
}

export type Handler<Payload = any, Result = any> = (job: Job<Payload>) => Result | Promise<Result>;

export class Snooze extends Error {
  constructor(seconds: number);
}
export class Retry extends Error {
  constructor(message: string, afterSeconds?: number);
}
export class Permanent extends Error {}

export class Worker<D extends Definitions<D> = AnyDefinitions> {
  readonly workerId: string;
  constructor(
    client: Client<D>,
    /** It runs the jobs of the definitions that have a handler. */
    handlers: { [Key in keyof D]?: Handler<D[Key]["payload"], D[Key]["result"]> },
    options?: {
      concurrency?: number;
      queues?: string[];
      leaseSeconds?: number;
      waitSeconds?: number;
      graceSeconds?: number;
      workerId?: string;
      /** Default: the console. `null` logs nothing. */
      logger?: Logger | null;
    },
  );
  /** Runs jobs until stopped, or until the signal is aborted. */
  run(options?: { signal?: AbortSignal }): Promise<void>;
  /** Runs the jobs that are queued now, and those that they enqueue, and resolves. For tests. */
  runUntilIdle(): Promise<void>;
  /** Claims no more jobs; `run` resolves when the running jobs have ended. */
  stop(): void;
}

export interface Logger {
  info(...words: unknown[]): void;
  warn(...words: unknown[]): void;
  error(...words: unknown[]): void;
}

/** A client of `pg` in a transaction. Not a pool, which would use any connection. */
export interface Queryable {
  query(text: string, values: any[]): Promise<{ rows: any[] }>;
}

/** The arguments of `windlass.enqueue`. */
export interface EnqueueOptions {
  tenant_id?: string;
  queue?: string;
  priority?: number;
  scheduled_for?: Date | string;
  /** An interval of Postgres, or a number of seconds. */
  delay?: string | number;
  delay_seconds?: number;
  dedupe_key?: string;
  uniqueness?: "active" | "forever" | { window_seconds: number };
  idempotency_key?: string;
  ordering_key?: string;
  depends_on?: string[];
  if_unmet?: "cancel" | "run" | "wait";
  subject_type?: string;
  subject_id?: string;
  tags?: string[];
  correlation_id?: string;
  source?: string;
  source_ref?: string;
  max_attempts?: number;
  deadline?: Date | string;
  parent_id?: string;
  created_by?: string;
  trace?: string;
  job_id?: string;
}

export interface EnqueuedJob {
  id: string;
  status: Status;
  is_duplicate: boolean;
}

/** Enqueues in the transaction of `client`: the job exists if and only if it commits. */
export function enqueueIn<Payload = unknown>(
  client: Queryable,
  definitionKey: string,
  payload?: Payload,
  options?: EnqueueOptions,
): Promise<EnqueuedJob>;
export function enqueueManyIn<Payload = unknown>(
  client: Queryable,
  definitionKey: string,
  payloads: Payload[],
  options?: EnqueueOptions & { each?: EnqueueOptions[] },
): Promise<EnqueuedJob[]>;
export function emitIn(
  client: Queryable,
  name: string,
  payload?: unknown,
  options?: { tenant_id?: string; dedupe_id?: string; correlation_id?: string; trace?: string; created_by?: string },
): Promise<EmittedEvent>;
export function cancelIn(
  client: Queryable,
  tenantId: string,
  jobId: string,
): Promise<"canceled" | "requested" | "finished" | "missing">;
/** The arguments of `windlass.enqueue` for a call over PostgREST: `supabase.schema("windlass").rpc("enqueue", …)`. */
export function rpcArguments<Payload = unknown>(
  definitionKey: string,
  payload?: Payload,
  options?: EnqueueOptions,
): Record<string, unknown>;
