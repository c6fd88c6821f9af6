// The client enqueues, waits, cancels and emits.

import assert from "node:assert";
import test from "node:test";

import { Client, JobFailed, WaitTimeout } from "windlass-client";

import { client, define } from "./server.js";

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
  await assert.rejects(client.wait(id, { signal: AbortSignal.timeout(100) }), { name: "AbortError" });
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

test("a missing or wrong url is refused at once, in words", () => {
  assert.throws(() => new Client({ url: undefined }), /url is missing: .* WINDLASS_SERVER/);
  assert.throws(() => new Client(), /url is missing/);
  assert.throws(() => new Client({ url: "localhost:8080" }), /url must be an http or https URL, not "localhost:8080"/);
});
