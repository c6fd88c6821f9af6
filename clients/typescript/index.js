// Windlass from Node: enqueue jobs and wait for them, and run them in a process of your own. Types are in index.d.ts.

export { ApiError, Client, JobFailed, LeaseLost, WaitTimeout } from "./client.js";
export { Permanent, Retry, Snooze, Worker } from "./worker.js";
