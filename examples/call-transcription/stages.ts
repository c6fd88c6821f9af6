// The four stages. Each writes to a path derived from the call and returns early if its output exists, so that it is
// idempotent. It deletes intermediate files that are no longer needed.

import { access, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

import type { ArtifactKind, ArtifactTable } from "./artifacts.js";
import type { JobQueue, QueueJob, StageName } from "./job-queue.js";
import { encode } from "./tones.js";

export interface Settings {
  /** Where files are kept. */
  storage: string;
  /** Where it is written down that they are there. */
  artifacts: ArtifactTable;
  /** The speech service, which answers later. */
  speechUrl: string;
  pollSeconds: number;
  /** Ends the process at the end of this stage, before it is completed: for the test of what a crash leaves. */
  crashAfter?: string;
}

export const pathOf = (job: { org_id: string; call_id: string }, name: string) => join(job.org_id, job.call_id, name);

export function stages(settings: Settings) {
  const inStorage = (path: string) => join(settings.storage, path);
  const file = (job: QueueJob, name: string) => inStorage(pathOf(job, name));
  const made = (job: QueueJob, kind: ArtifactKind, path: string) =>
    settings.artifacts.insert({ org_id: job.org_id, call_id: job.call_id, kind, path });
  const next = (queue: JobQueue, job: QueueJob, stage: StageName, payload: Record<string, unknown> = {}) =>
    queue.enqueue({ org_id: job.org_id, call_id: job.call_id, stage, payload, max_attempts: job.max_attempts });

  const run: Record<StageName, (job: QueueJob, queue: JobQueue) => Promise<void>> = {
    /** The upload becomes audio; the upload is not needed any more. */
    async extract_audio(job, queue) {
      if (!(await exists(file(job, "audio.wav")))) {
        const upload = JSON.parse(await readFile(file(job, "upload.json"), "utf8")) as { words: string[] };
        await write(file(job, "audio.wav"), encode(upload.words));
      }
      await made(job, "audio", pathOf(job, "audio.wav"));
      await rm(file(job, "upload.json"), { force: true });
      await next(queue, job, "transcribe_start");
    },

    /** Starts the operation and remembers it before anything else, so that a second run does not start another. */
    async transcribe_start(job, queue) {
      const transcriptPath = pathOf(job, "transcript.json");
      const started = file(job, "operation.json");
      let operationId: string | undefined;
      if (!(await exists(inStorage(transcriptPath)))) {
        if (!(await exists(started))) {
          const audio = await readFile(file(job, "audio.wav"));
          const response = await fetch(`${settings.speechUrl}/operations`, {
            method: "POST",
            body: new Uint8Array(audio),
            headers: { "idempotency-key": `${job.org_id}/${job.call_id}` },
          });
          if (!response.ok) throw new Error(`the speech service returned ${response.status}`);
          await write(started, await response.text());
        }
        operationId = (JSON.parse(await readFile(started, "utf8")) as { id: string }).id;
      }
      await next(queue, job, "transcribe_poll", { operationId, audioPath: pathOf(job, "audio.wav"), transcriptPath });
    },

    /** Holds no worker while it waits: it asks, and comes back later. */
    async transcribe_poll(job, queue) {
      const transcriptPath = String(job.payload["transcriptPath"]);
      if (!(await exists(inStorage(transcriptPath)))) {
        const response = await fetch(`${settings.speechUrl}/operations/${String(job.payload["operationId"])}`);
        if (!response.ok) throw new Error(`the speech service returned ${response.status}`);
        const operation = (await response.json()) as { done: boolean; words?: string[] };
        if (!operation.done) return queue.snooze(job.id, settings.pollSeconds);
        await write(inStorage(transcriptPath), JSON.stringify(operation.words));
      }
      await made(job, "transcript", transcriptPath);
      await rm(file(job, "operation.json"), { force: true });
      await next(queue, job, "analyze");
    },

    /** The document had left this one to be made idempotent later. */
    async analyze(job) {
      if (!(await exists(file(job, "analysis.json")))) {
        const words = JSON.parse(await readFile(file(job, "transcript.json"), "utf8")) as string[];
        const counts: Record<string, number> = {};
        for (const word of words) counts[word] = (counts[word] ?? 0) + 1;
        const mood = (counts["thanks"] ?? 0) >= (counts["refund"] ?? 0) ? "content" : "upset";
        await write(file(job, "analysis.json"), JSON.stringify({ words: words.length, mood }));
      }
      await made(job, "analysis", pathOf(job, "analysis.json"));
    },
  };

  return async function runStage(job: QueueJob, queue: JobQueue) {
    await run[job.stage](job, queue);
    if (settings.crashAfter === job.stage && job.attempts === 0) process.exit(9);
  };
}

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  );

/** Whole or not at all: a file that is there is finished. */
async function write(path: string, data: string | Uint8Array) {
  await mkdir(dirname(path), { recursive: true });
  const partial = `${path}.${process.pid}`;
  await writeFile(partial, data);
  await rename(partial, path);
}
