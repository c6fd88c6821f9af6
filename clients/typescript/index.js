// The Node client of windlass: enqueue jobs, wait for them, and run them in your own process. Types are in index.d.ts.

export { ApiError, Client, JobFailed, LeaseLost, WaitTimeout } from "./client.js";
export { cancelIn, emitIn, enqueueIn, enqueueManyIn, rpcArguments } from "./transaction.js";
export { Permanent, Retry, Snooze, Worker } from "./worker.js";
