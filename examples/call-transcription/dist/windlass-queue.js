// The interface on windlass. Jobs that a stage enqueues are kept until the stage completes and are sent with the completion in
// one call, so a stage never completes without its next one and never enqueues it twice.
import { Client } from "windlass-client";
import { WindlassJobQueue } from "windlass-client/job-queue";
const STAGES = ["extract_audio", "transcribe_start", "transcribe_poll", "analyze"];
export function windlassQueue(options) {
    const queue = new WindlassJobQueue(new Client(options), {
        stages: STAGES,
        prefix: "call.",
        leaseSeconds: options.leaseSeconds,
        waitSeconds: 5,
    });
    let next = [];
    let snoozed;
    return {
        async enqueue(job) {
            const deadline = new Date(Date.now() + options.pollDeadlineSeconds * 1000).toISOString();
            next.push({ ...WindlassJobQueue.newJob(job, "call."), ...(job.stage === "transcribe_poll" ? { deadline } : {}) });
        },
        async claim(workerId) {
            next = [];
            snoozed = undefined;
            return (await queue.claim(workerId));
        },
        async snooze(_jobId, seconds) {
            snoozed = seconds;
        },
        async complete(jobId) {
            if (snoozed === undefined)
                await queue.complete(jobId, { next });
            else
                await queue.snooze(jobId, snoozed);
        },
        fail: (jobId, error, backoffSeconds) => queue.fail(jobId, error, backoffSeconds),
    };
}
