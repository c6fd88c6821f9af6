// The worker loop of a hand-written queue, unchanged except for its types, on WindlassJobQueue: two stages of one call, then it ends.

import { Client } from "windlass-client";
import { WindlassJobQueue } from "windlass-client/job-queue";

const client = new Client({ url: process.env.WINDLASS_SERVER, token: process.env.WINDLASS_TOKEN });
const operator = new Client({ url: process.env.WINDLASS_SERVER, token: process.env.WINDLASS_OPERATOR_TOKEN });
const queue = new WindlassJobQueue(client, { stages: ["extract_audio", "analyze"], waitSeconds: 5 });
const producer = new WindlassJobQueue(operator, { stages: [] });

const done = [];
async function runStage(job) {
  if (job.stage === "extract_audio" && job.attempts === 0) throw new Error("the first time");
  if (job.stage === "extract_audio") {
    await producer.enqueue({ org_id: job.org_id, call_id: job.call_id, stage: "analyze", payload: { of: job.id }, max_attempts: 5 });
  }
  done.push(`${job.stage} ${job.call_id} ${job.attempts}`);
}

async function workerLoop(queue, workerId) {
  while (done.length < 2) {
    const job = await queue.claim(workerId);
    if (!job) continue;
    try {
      await runStage(job);
      await queue.complete(job.id);
    } catch (err) {
      const backoff = Math.min(0.05, 30 * Math.pow(2, job.attempts));
      await queue.fail(job.id, String(err), backoff);
    }
  }
}

await producer.enqueue({ org_id: "o1", call_id: "c1", stage: "extract_audio", payload: {}, max_attempts: 5 });
await workerLoop(queue, "seed-003");
console.log(JSON.stringify(done));
