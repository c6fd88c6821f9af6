// pg-boss: batches of 500 with `fetch` and `complete`, because `work` waits at least half a second between two polls. For the
// latency, `work` with notifications.

import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { PgBoss } from 'pg-boss';
import { main, payload } from './common.mjs';

const QUEUE = 'noop';
const BATCH = 500;
const FETCHERS = 4;

let boss;
let isPrompt;

await main({
  async open(mode, callers) {
    isPrompt = mode === 'latency';
    const max = callers + FETCHERS + 4;
    boss = new PgBoss({ connectionString: process.env.DATABASE_URL, max, useListenNotify: isPrompt });
    boss.on('error', () => {});
    await boss.start();
    if (isPrompt) await boss.updateQueue(QUEUE, { notify: true });
  },
  init: () => boss.createQueue(QUEUE),
  enqueue: () => boss.send(QUEUE, payload),
  enqueueMany: (n) => boss.insert(QUEUE, Array.from({ length: n }, () => ({ data: payload }))),
  async work(onStart) {
    if (isPrompt) {
      await boss.work(QUEUE, { pollingIntervalSeconds: 0.5 }, async (jobs) => { jobs.forEach(onStart); });
      return;
    }
    for (let i = 0; i < FETCHERS; i++) fetchAll(onStart);
  },
  async unfinished() {
    const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
    await client.connect();
    const { rows } = await client.query(`select count(*)::int as n from pgboss.job where state < 'completed'`);
    await client.end();
    return rows[0].n;
  },
});

async function fetchAll(onStart) {
  for (;;) {
    const jobs = await boss.fetch(QUEUE, { batchSize: BATCH });
    if (jobs.length === 0) {
      await sleep(1);
      continue;
    }
    jobs.forEach(onStart);
    await boss.complete(QUEUE, jobs.map((job) => job.id));
  }
}
