// Runs the same loop and stages on the queue in memory, for one call, and prints the result.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

import { MemoryArtifacts } from "./artifacts.js";
import { MemoryQueue } from "./memory-queue.js";
import { pathOf, stages } from "./stages.js";
import { workerLoop } from "./worker-loop.js";

const storage = process.env["STORAGE"] ?? "storage";
const artifacts = new MemoryArtifacts();
const call = { org_id: "acme", call_id: "in-memory" };
const upload = join(storage, pathOf(call, "upload.json"));
await mkdir(dirname(upload), { recursive: true });
await writeFile(upload, JSON.stringify({ words: ["hello", "refund", "please"] }));

const queue = new MemoryQueue();
await queue.enqueue({ ...call, stage: "extract_audio", payload: {}, max_attempts: 5 });
const stop = new AbortController();
const runStage = stages({ storage, artifacts, speechUrl: process.env["SPEECH_URL"] ?? "", pollSeconds: 0.05 });
await workerLoop(queue, "memory", async (job, queue) => {
  await runStage(job, queue);
  if (job.stage === "analyze") stop.abort();
}, stop.signal);
console.log(JSON.stringify({
  stages: queue.jobs.map((job) => job.stage),
  artifacts: [...artifacts.rows.values()].map((row) => row.kind),
  analysis: JSON.parse(await readFile(join(storage, pathOf(call, "analysis.json")), "utf8")),
}));
