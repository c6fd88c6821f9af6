// The same loop and the same stages on the queue in memory, for one call; prints where it got to.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

import { MemoryQueue } from "./memory-queue.js";
import { artifact, stages } from "./stages.js";
import { workerLoop } from "./worker-loop.js";

const settings = { storage: process.env["STORAGE"] ?? "storage", speechUrl: process.env["SPEECH_URL"] ?? "", pollSeconds: 0.05 };
const call = { org_id: "acme", call_id: "in-memory" };
const upload = artifact(settings, call, "upload.json");
await mkdir(dirname(upload), { recursive: true });
await writeFile(upload, JSON.stringify({ words: ["hello", "refund", "please"] }));

const queue = new MemoryQueue();
await queue.enqueue({ ...call, stage: "extract_audio", payload: {}, max_attempts: 5 });
const stop = new AbortController();
const runStage = stages(settings);
await workerLoop(queue, "memory", async (job, queue) => {
  await runStage(job, queue);
  if (job.stage === "analyze") stop.abort();
}, stop.signal);
console.log(JSON.stringify({
  stages: queue.jobs.map((job) => job.stage),
  analysis: JSON.parse(await readFile(artifact(settings, call, "analysis.json"), "utf8")),
}));
