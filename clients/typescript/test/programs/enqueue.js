// Enqueues jobs, waits for them, and prints the results as JSON.

import { ApiError, Client, JobFailed, WaitTimeout } from "windlass-client";

const client = new Client({ url: process.env.WINDLASS_SERVER, token: process.env.WINDLASS_TOKEN });
const seen = {};

async function thrown(promise, Kind) {
  try {
    await promise;
  } catch (error) {
    if (error instanceof Kind) return error;
    throw error;
  }
  throw new Error(`no ${Kind.name} was thrown`);
}

const about = { idempotencyKey: "one", subject_type: "call", subject_id: "7" };
const first = await client.enqueue("succeeds", { n: 1 }, about);
const again = await client.enqueue("succeeds", { n: 1 }, about);
seen.same = first.id === again.id;
seen.result = (await client.wait(first.id, { timeoutSeconds: 50 })).result;
const refused = await client.enqueue("refuses");
seen.failed = (await thrown(client.wait(refused.id, { timeoutSeconds: 50 }), JobFailed)).job.last_error;
const hanging = await client.enqueue("hangs");
await thrown(client.wait(hanging.id, { timeoutSeconds: 0.2 }), WaitTimeout);
seen.timeout = true;
await client.cancel(hanging.id);
seen.canceled = (await thrown(client.wait(hanging.id, { timeoutSeconds: 50 }), JobFailed)).job.status;
const error = await thrown(client.enqueue("nowhere"), ApiError);
seen.refused = [error.status, error.kind];
console.log(JSON.stringify(seen));
