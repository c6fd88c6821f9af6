// graphile-worker as its page on performance recommends for many short jobs: a local queue, and batched completions. For the latency
// it has neither, because both delay a job.

import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import pg from 'pg';
import { main, payload } from './common.mjs';

const TASK = 'noop';
const BATCHED = { concurrentJobs: 500, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
const PROMPT = { concurrentJobs: 10 };

const logger = new Logger(() => () => {});
let pool;
let utils;
let settings;

await main({
  async open(mode, callers) {
    pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: callers + 10 });
    pool.on('error', () => {});
    pool.on('connect', (client) => client.on('error', () => {}));
    utils = await makeWorkerUtils({ pgPool: pool, logger });
    settings = mode === 'latency' ? PROMPT : BATCHED;
  },
  init: () => utils.migrate(),
  enqueue: () => utils.addJob(TASK, payload),
  enqueueMany: (n) => utils.addJobs(Array.from({ length: n }, () => ({ identifier: TASK, payload }))),
  async work(onStart) {
    await run({
      pgPool: pool, logger, noHandleSignals: true, preset: { worker: settings },
      taskList: { [TASK]: () => { onStart(); } }, parsedCronItems: [],
    });
  },
  async unfinished() {
    const { rows } = await pool.query('select count(*)::int as n from graphile_worker._private_jobs');
    return rows[0].n;
  },
});
