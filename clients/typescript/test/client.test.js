// The client enqueues, waits, cancels and emits.

import assert from "node:assert";
import test from "node:test";

import { Client, JobFailed, LeaseLost, WaitTimeout } from "windlass-client";

import { startRelay } from "./relay.js";
import { client, define, token } from "./server.js";

test("many jobs are enqueued in one request with one result each", async () => {
  const key = await define();
  const results = await client.enqueueMany([{ definition_key: key, payload: { n: 1 } }, { definition_key: "no-such-definition" }]);
  assert.deepEqual(results.map((result) => result.status), [201, 422]);
  assert.deepEqual((await client.job(results[0].job.id)).payload, { n: 1 });
});

test("an event with the same idempotency key is emitted once", async () => {
  const idempotencyKey = await define();
  const first = await client.emit("picture.added", { n: 1 }, { idempotencyKey });
  assert.equal((await client.emit("picture.added", { n: 1 }, { idempotencyKey })).id, first.id);
});

test("wait rejects when the job was canceled, has not ended in time, or the signal is aborted", async () => {
  const { id } = await client.enqueue(await define());
  await assert.rejects(client.wait(id, { timeoutSeconds: 0.1 }), WaitTimeout);
  const stop = new AbortController();
  const waiting = client.wait(id, { signal: stop.signal });
  stop.abort();
  await assert.rejects(waiting, { name: "AbortError" });
  await client.cancel(id);
  await assert.rejects(client.wait(id, { timeoutSeconds: 20 }), (error) => error instanceof JobFailed && error.job.status === "canceled");
});

test("the jobs of all pages are listed", async () => {
  const key = await define();
  const created = [];
  for (let n = 0; n < 3; n += 1) created.push((await client.enqueue(key)).id);
  const listed = [];
  for await (const job of client.jobs({ definition_key: key, limit: "2" })) listed.push(job.id);
  assert.deepEqual(listed.sort(), created.sort());
});

test("a call is repeated after a broken connection, and takes effect once", async (t) => {
  const key = await define();
  const relay = await startRelay(t);
  const own = new Client({ url: relay.url, token });
  relay.refuse(2);
  const { id } = await own.enqueue(key);
  relay.break();
  relay.refuse(2);
  const listed = [];
  for await (const job of own.jobs({ definition_key: key })) listed.push(job.id);
  assert.deepEqual(listed, [id]);
});

test("a late call about an attempt rejects with LeaseLost", async () => {
  const key = await define();
  await client.enqueue(key);
  const [job] = await client.claim({ definitionKeys: [key], waitSeconds: 30 });
  await client.complete(job.id, job.fence, { result: { n: 1 } });
  const isLost = (error) => error instanceof LeaseLost && error.status === 409 && error.kind === "lease-lost";
  for (const late of ["heartbeat", "complete", "release"]) await assert.rejects(client[late](job.id, job.fence), isLost, late);
});

test("a claim waits on the server for a job", async (t) => {
  const key = await define();
  const relay = await startRelay(t);
  const claim = new Client({ url: relay.url, token }).claim({ definitionKeys: [key], waitSeconds: 30 });
  await relay.until("POST /api/v1/worker/jobs/claim");
  const { id } = await client.enqueue(key);
  const [job] = await claim;
  assert.equal(job.id, id);
  await client.release(job.id, job.fence);
});

test("a worker that holds a job is not signed off", async () => {
  const key = await define();
  await client.enqueue(key);
  const [job] = await client.claim({ definitionKeys: [key], waitSeconds: 30, workerId: key });
  assert.equal(await client.stopWorker(key), false);
  await client.complete(job.id, job.fence);
  assert.equal(await client.stopWorker(key), true);
});

test("what JSON cannot express is refused before it is sent", async () => {
  await assert.rejects(client.enqueue("resize", { n: 1n }), TypeError);
});

test("a missing or wrong url is refused at once, in words", () => {
  assert.throws(() => new Client({ url: undefined }), /url is missing: .* WINDLASS_SERVER/);
  assert.throws(() => new Client(), /url is missing/);
  assert.throws(() => new Client({ url: "localhost:8080" }), /url must be an http or https URL, not "localhost:8080"/);
});
