// A worker stops within a second, survives an unreachable server, and reports errors so that the first line is useful.

import assert from "node:assert";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import test from "node:test";

import { ApiError, Client, JobFailed, Worker } from "windlass-client";

import { client, define, recorder, token, url } from "./server.js";

test("an idle worker stops within a second after its signal was aborted", async () => {
  const { lines, until, logger } = recorder();
  const stop = new AbortController();
  const worker = new Worker(client, { [await define()]: () => {} }, { waitSeconds: 60, logger });
  const running = worker.run({ signal: stop.signal });
  await until("started for");
  const began = performance.now();
  stop.abort();
  await running;
  assert.ok(performance.now() - began < 1000);
  assert.match(lines.at(-1), /stopped/);
});

test("a worker waits for a server that cannot be reached, and reconnects", async (t) => {
  const key = await define();
  const relay = await startRelay(t);
  const { until, logger } = recorder();
  const worker = new Worker(new Client({ url: relay.url, token }), { [key]: () => "done" }, { waitSeconds: 60, logger });
  const running = worker.run();
  await until("started for");
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

test("a wrong token ends the worker", async () => {
  const wrong = new Client({ url, token: "wl_worker_wrong" });
  const worker = new Worker(wrong, { [await define()]: () => {} }, { logger: null });
  await assert.rejects(worker.run(), (error) => error instanceof ApiError && error.status === 401);
});

test("the first line of an error is its type and message, then the stack", async () => {
  class NoSuchImage extends Error {}
  const key = await define();
  const { id } = await client.enqueue(key, {}, { max_attempts: 1 });
  const fails = () => {
    throw new NoSuchImage("image 7");
  };
  const worker = new Worker(client, { [key]: fails }, { logger: null });
  const running = worker.run();
  const failed = await client.wait(id, { timeoutSeconds: 30 }).catch((error) => error);
  worker.stop();
  await running;
  assert.ok(failed instanceof JobFailed, failed);
  assert.equal(failed.job.last_error.split("\n")[0], "NoSuchImage: image 7");
  assert.match(failed.job.last_error, /\n {4}at .*worker\.test\.js/);
});

/** Passes connections on to the server, until it is broken. What a restarted proxy looks like to a worker. */
async function startRelay(t) {
  const { hostname, port } = new URL(url);
  const open = new Set();
  let isBroken = false;
  const server = createServer((near) => {
    if (isBroken) return near.destroy();
    const far = connect(Number(port), hostname);
    for (const [one, other] of [[near, far], [far, near]]) {
      open.add(one);
      one.on("error", () => {});
      one.on("close", () => other.destroy());
      one.pipe(other);
    }
  });
  const destroy = () => open.forEach((socket) => socket.destroy());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    destroy();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    break() {
      isBroken = true;
      destroy();
    },
    repair() {
      isBroken = false;
    },
  };
}
