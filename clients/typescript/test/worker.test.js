// A worker stops without waiting for its claim, survives an unreachable server, and reports errors so that the first line is useful.

import assert from "node:assert";
import { once } from "node:events";
import test from "node:test";

import { ApiError, Client, JobFailed, Worker } from "windlass-client";

import { startRelay } from "./relay.js";
import { client, define, recorder, token, url } from "./server.js";

const CLAIM = "POST /api/v1/worker/jobs/claim";
// Milliseconds. It takes less than a second; a worker that waits for its claim takes 60, and a busy machine is slow.
const SOON = 20_000;

test("an idle worker stops without waiting for its claim after its signal was aborted, and signs off", async (t) => {
  const relay = await startRelay(t);
  const { lines, logger } = recorder();
  const stop = new AbortController();
  const options = { waitSeconds: 60, logger };
  const worker = new Worker(new Client({ url: relay.url, token }), { [await define()]: () => {} }, options);
  const running = worker.run({ signal: stop.signal });
  await relay.until(CLAIM);
  const began = performance.now();
  stop.abort();
  await running;
  assert.ok(performance.now() - began < SOON);
  assert.match(relay.responses, /\{"is_stopped":true\}/);
  assert.match(lines.at(0), /started for/);
  assert.match(lines.at(-1), /stopped/);
});

test("a worker stops while the server cannot be reached", async (t) => {
  const relay = await startRelay(t);
  const { lines, until, logger } = recorder();
  const worker = new Worker(new Client({ url: relay.url, token }), { [await define()]: () => {} }, { waitSeconds: 60, logger });
  const running = worker.run();
  await relay.until(CLAIM);
  relay.break();
  await until("claim failed, again in");
  const began = performance.now();
  worker.stop();
  await running;
  assert.ok(performance.now() - began < SOON);
  assert.match(lines.join("\n"), /cannot sign off/);
});

test("a worker waits for a server that cannot be reached, and reconnects", async (t) => {
  const key = await define();
  const relay = await startRelay(t);
  const { until, logger } = recorder();
  const worker = new Worker(new Client({ url: relay.url, token }), { [key]: () => "done" }, { waitSeconds: 60, logger });
  const running = worker.run();
  await relay.until(CLAIM);
  relay.break();
  await until("claim failed, again in");
  relay.repair();
  const { id } = await client.enqueue(key);
  assert.equal((await client.wait(id, { timeoutSeconds: 30 })).result, "done");
  await until("reconnected");
  await until(`claimed job ${id}`);
  worker.stop();
  await running;
});

test("a result and the last progress outlast a broken connection", async (t) => {
  const key = await define();
  const relay = await startRelay(t);
  const { until, logger } = recorder();
  const runs = async (job) => {
    relay.break();
    job.progress(50, "half done");
    await until("heartbeat failed, again in");
    return job.attempt;
  };
  const worker = new Worker(new Client({ url: relay.url, token }), { [key]: runs }, { logger });
  const running = worker.run();
  const { id } = await client.enqueue(key);
  await until(`settling job ${id} failed, again in`);
  relay.repair();
  const ended = await client.wait(id, { timeoutSeconds: 30 });
  worker.stop();
  await running;
  assert.deepEqual([ended.result, ended.progress_message], [1, "half done"]);
});

test("a handler keeps its lease, and is notified when it is lost", async (t) => {
  const key = await define();
  const relay = await startRelay(t);
  const reasons = [];
  const runs = async (job) => {
    if (job.attempt === 1) {
      // A third of the lease passes before each heartbeat.
      await relay.until("/heartbeat", 6);
      await client.release(job.id, job.fence);
      await once(job.signal, "abort");
      reasons.push(job.signal.reason);
    }
    return job.attempt;
  };
  const options = { leaseSeconds: 1, concurrency: 2, logger: null };
  const worker = new Worker(new Client({ url: relay.url, token }), { [key]: runs }, options);
  const running = worker.run();
  const { id } = await client.enqueue(key);
  assert.equal((await client.wait(id, { timeoutSeconds: 30 })).result, 2);
  worker.stop();
  await running;
  assert.deepEqual(reasons, ["lease-lost"]);
});

test("runUntilIdle runs the jobs that jobs enqueue", async () => {
  const [first, second] = [await define(), await define()];
  const handlers = { [first]: (job) => job.follow(second, { n: 2 }), [second]: (job) => job.payload };
  await client.enqueue(first);
  await new Worker(client, handlers, { logger: null }).runUntilIdle();
  const results = [];
  for await (const job of client.jobs({ definition_key: second })) results.push(job.result);
  assert.deepEqual(results, [{ n: 2 }]);
});

test("a wrong token ends the worker", async () => {
  const wrong = new Client({ url, token: "wl_worker_wrong" });
  const worker = new Worker(wrong, { [await define()]: () => {} }, { logger: null });
  await assert.rejects(worker.run(), (error) => error instanceof ApiError && error.status === 401);
});

test("a result that JSON cannot express fails the attempt", async () => {
  const key = await define();
  const { id } = await client.enqueue(key, {}, { max_attempts: 1 });
  await new Worker(client, { [key]: () => 1n }, { logger: null }).runUntilIdle();
  assert.match((await client.job(id)).last_error, /^the result was rejected: .*BigInt/);
});

test("the first line of an error is its type and message, then the stack", async () => {
  class NoSuchImage extends Error {}
  const key = await define();
  const { id } = await client.enqueue(key, {}, { max_attempts: 1 });
  const fails = () => {
    throw new NoSuchImage("image 7");
  };
  await new Worker(client, { [key]: fails }, { logger: null }).runUntilIdle();
  const failed = await client.wait(id, { timeoutSeconds: 30 }).catch((error) => error);
  assert.ok(failed instanceof JobFailed, failed);
  assert.equal(failed.job.last_error.split("\n")[0], "NoSuchImage: image 7");
  assert.match(failed.job.last_error, /\n {4}at .*worker\.test\.js/);
});
