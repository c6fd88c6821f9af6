// The same interface in memory. The stages do not depend on the implementation.
import { randomUUID } from "node:crypto";
export class MemoryQueue {
    jobs = [];
    async enqueue(job) {
        this.jobs.push({ ...job, id: randomUUID(), attempts: 0, status: "queued", availableAt: 0 });
    }
    async claim() {
        const job = this.jobs.find((job) => job.status === "queued" && job.availableAt <= Date.now());
        if (job)
            job.status = "processing";
        return job ?? null;
    }
    async complete(jobId) {
        const job = this.#get(jobId);
        if (job.status === "processing")
            job.status = "done";
    }
    async fail(jobId, _error, backoffSeconds) {
        const job = this.#get(jobId);
        job.attempts += 1;
        job.status = job.attempts >= job.max_attempts ? "failed" : "queued";
        job.availableAt = Date.now() + backoffSeconds * 1000;
    }
    async snooze(jobId, seconds) {
        const job = this.#get(jobId);
        job.status = "queued";
        job.availableAt = Date.now() + seconds * 1000;
    }
    #get(jobId) {
        const job = this.jobs.find((job) => job.id === jobId);
        if (job === undefined)
            throw new Error(`no job ${jobId}`);
        return job;
    }
}
