// The worker. `node dist/main.js` with WINDLASS_SERVER, WINDLASS_TOKEN (role worker), DATABASE_URL, STORAGE and SPEECH_URL.

import { hostname } from "node:os";

import { artifactTable } from "./artifacts.js";
import { stages } from "./stages.js";
import { windlassQueue } from "./windlass-queue.js";
import { workerLoop } from "./worker-loop.js";

const need = (name: string) => {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
};

const queue = windlassQueue({
  url: need("WINDLASS_SERVER"),
  token: need("WINDLASS_TOKEN"),
  leaseSeconds: Number(process.env["LEASE_SECONDS"] ?? 60),
  pollDeadlineSeconds: Number(process.env["POLL_DEADLINE_SECONDS"] ?? 3600),
});
const crashAfter = process.env["CRASH_AFTER"];
const runStage = stages({
  storage: need("STORAGE"),
  artifacts: artifactTable(need("DATABASE_URL")),
  speechUrl: need("SPEECH_URL"),
  pollSeconds: Number(process.env["POLL_SECONDS"] ?? 5),
  ...(crashAfter === undefined ? {} : { crashAfter }),
});
const stop = new AbortController();
process.on("SIGTERM", () => stop.abort());
await workerLoop(queue, `${hostname()}-${process.pid}`.replace(/[^A-Za-z0-9._-]/g, "_"), runStage, stop.signal);
