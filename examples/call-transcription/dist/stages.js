// The four stages. Each writes to a path derived from the call and returns early if its output exists, so that it is
// idempotent. It deletes intermediate files that are no longer needed.
import { access, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { encode } from "./tones.js";
export const pathOf = (job, name) => join(job.org_id, job.call_id, name);
export function stages(settings) {
    const inStorage = (path) => join(settings.storage, path);
    const file = (job, name) => inStorage(pathOf(job, name));
    const made = (job, kind, path) => settings.artifacts.insert({ org_id: job.org_id, call_id: job.call_id, kind, path });
    const next = (queue, job, stage, payload = {}) => queue.enqueue({ org_id: job.org_id, call_id: job.call_id, stage, payload, max_attempts: job.max_attempts });
    const run = {
        /** The upload becomes audio; the upload is not needed any more. */
        async extract_audio(job, queue) {
            if (!(await exists(file(job, "audio.wav")))) {
                const upload = JSON.parse(await readFile(file(job, "upload.json"), "utf8"));
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
            let operationId;
            if (!(await exists(inStorage(transcriptPath)))) {
                if (!(await exists(started))) {
                    const audio = await readFile(file(job, "audio.wav"));
                    const response = await fetch(`${settings.speechUrl}/operations`, {
                        method: "POST",
                        body: new Uint8Array(audio),
                        headers: { "idempotency-key": `${job.org_id}/${job.call_id}` },
                    });
                    if (!response.ok)
                        throw new Error(`the speech service answered ${response.status}`);
                    await write(started, await response.text());
                }
                operationId = JSON.parse(await readFile(started, "utf8")).id;
            }
            await next(queue, job, "transcribe_poll", { operationId, audioPath: pathOf(job, "audio.wav"), transcriptPath });
        },
        /** Holds no worker while it waits: it asks, and comes back later. */
        async transcribe_poll(job, queue) {
            const transcriptPath = String(job.payload["transcriptPath"]);
            if (!(await exists(inStorage(transcriptPath)))) {
                const response = await fetch(`${settings.speechUrl}/operations/${String(job.payload["operationId"])}`);
                if (!response.ok)
                    throw new Error(`the speech service answered ${response.status}`);
                const operation = (await response.json());
                if (!operation.done)
                    return queue.snooze(job.id, settings.pollSeconds);
                await write(inStorage(transcriptPath), JSON.stringify(operation.words));
            }
            await made(job, "transcript", transcriptPath);
            await rm(file(job, "operation.json"), { force: true });
            await next(queue, job, "analyze");
        },
        /** The document had left this one to be made idempotent later. */
        async analyze(job) {
            if (!(await exists(file(job, "analysis.json")))) {
                const words = JSON.parse(await readFile(file(job, "transcript.json"), "utf8"));
                const counts = {};
                for (const word of words)
                    counts[word] = (counts[word] ?? 0) + 1;
                const mood = (counts["thanks"] ?? 0) >= (counts["refund"] ?? 0) ? "content" : "upset";
                await write(file(job, "analysis.json"), JSON.stringify({ words: words.length, mood }));
            }
            await made(job, "analysis", pathOf(job, "analysis.json"));
        },
    };
    return async function runStage(job, queue) {
        await run[job.stage](job, queue);
        if (settings.crashAfter === job.stage && job.attempts === 0)
            process.exit(9);
    };
}
const exists = (path) => access(path).then(() => true, () => false);
/** Whole or not at all: a file that is there is finished. */
async function write(path, data) {
    await mkdir(dirname(path), { recursive: true });
    const partial = `${path}.${process.pid}`;
    await writeFile(partial, data);
    await rename(partial, path);
}
