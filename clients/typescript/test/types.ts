// Is compiled, and not run: what an editor knows about payloads and results. Each `@ts-expect-error` must be one.

import { Client, Worker, enqueueIn, type Job, type Queryable } from "windlass-client";

interface Jobs {
  resize: { payload: { image: number }; result: { width: number } };
  rename: { payload: string; result: void };
}

const client = new Client<Jobs>({ url: "http://127.0.0.1:8080" });
const job = await client.enqueue("resize", { image: 7 }, { priority: 1 });
const width: number | undefined = job.result?.width;
// @ts-expect-error: there is no such definition
await client.enqueue("resise", { image: 7 });
// @ts-expect-error: the image is a number
await client.enqueue("resize", { image: "7" });
await client.enqueueMany([{ definition_key: "resize", payload: { image: 7 } }, { definition_key: "rename", payload: "a" }]);
// @ts-expect-error: the payload of another definition
await client.enqueueMany([{ definition_key: "rename", payload: { image: 7 } }]);

export const worker = new Worker(client, {
  async resize(job) {
    const image: number = job.payload.image;
    return { width: image + (width ?? 0) };
  },
  rename(job) {
    job.log(job.payload.toUpperCase());
  },
});
// @ts-expect-error: the result has a width
new Worker(client, { resize: () => ({ height: 1 }) });

// Without types, any key and payload is allowed.
const untyped = new Client({ url: "http://127.0.0.1:8080" });
await untyped.enqueue("anything", { image: "7" });
new Worker(untyped, { anything: (job: Job<string>) => job.payload.length, more: async (job) => job.payload.a.b });

export function inTransaction(database: Queryable) {
  return enqueueIn<Jobs["resize"]["payload"]>(database, "resize", { image: 7 });
}
