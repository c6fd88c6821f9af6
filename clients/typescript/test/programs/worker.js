// A worker for the tests: each handler does what its name says, until the worker is stopped.

import { once } from "node:events";

import { Client, Permanent, Retry, Snooze, Worker } from "windlass-client";

const client = new Client({ url: process.env.WINDLASS_SERVER, token: process.env.WINDLASS_TOKEN });

const handlers = {
  succeeds(job) {
    job.progress(50, "half");
    job.log("hello from", job.definitionKey);
    job.artifact = { path: "/tmp/a" };
    job.follow("follows", { n: job.payload.n + 1 });
    return { n: job.payload.n };
  },
  follows: (job) => job.payload,
  fails_once(job) {
    if (job.failures === 0) throw new Error("the first time");
    return "the second time";
  },
  waits(job) {
    if (job.attempt < 3) throw new Snooze(0.01);
    return job.attempt;
  },
  refuses() {
    throw new Permanent("never");
  },
  retries() {
    throw new Retry("soon", 0.01);
  },
  unwritable: () => "\u0000",
  async hangs(job) {
    job.progress(undefined, "hanging");
    await once(job.signal, "abort");
    job.signal.throwIfAborted();
  },
};

const worker = new Worker(client, handlers, { concurrency: 4, leaseSeconds: 3, workerId: "node-test", graceSeconds: 1 });
process.on("SIGTERM", () => worker.stop());
await worker.run();
console.error("stopped");
