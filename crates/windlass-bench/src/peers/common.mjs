// The measurements of one queue, the same as those of the drivers in Rust: the payload, the number of callers, the sizes of the
// batches, and what is timed. A queue is an object with
//
//   open(mode)        connects, and creates nothing
//   init()            creates the tables and the queue
//   enqueue()         one job in one transaction
//   enqueueMany(n)    n jobs in one transaction
//   work(onStart)     starts to run jobs, and calls onStart at the start of each
//   unfinished()      the number of jobs that have not ended
//
// `node NAME.mjs MODE COUNT CALLERS` prints one line: {"n", "seconds", "cpu_seconds", "ms"}.

import { setTimeout as sleep } from 'node:timers/promises';

const BULK_BATCH = 1000;
const STEADY_BATCH = 500;
const STEADY_CAP = 20000;
const START_TIMEOUT_MS = 30000;

// The same bytes as in noop.rs.
const [OPEN, CLOSE] = ['{"user_id":12345678,"text":"', '"}'];
export const payload = JSON.parse(OPEN + 'work '.repeat(40).slice(0, 200 - OPEN.length - CLOSE.length) + CLOSE);

export async function main(queue) {
  const [mode, count, callers] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
  await queue.open(mode, callers);
  if (mode === 'init') {
    await queue.init();
  } else {
    const cpu = process.cpuUsage();
    const report = await modes[mode](queue, count, callers);
    const { user, system } = process.cpuUsage(cpu);
    console.log(JSON.stringify({ ...report, cpu_seconds: (user + system) / 1e6 }));
  }
  // A measurement does not wait for a worker to stop.
  process.exit(0);
}

const modes = { bulk, single, drain, steady, latency };

async function bulk(queue, n, callers) {
  const seconds = await timed(() =>
    inParallel(callers, n, BULK_BATCH, (size) => queue.enqueueMany(size)));
  return { n, seconds };
}

async function single(queue, n, callers) {
  const seconds = await timed(() => inParallel(callers, n, 1, () => queue.enqueue()));
  return { n, seconds };
}

// Until the database has no unfinished job. It is asked only after all have started.
async function drain(queue, n) {
  let [started, allStarted] = [0, null];
  const all = new Promise((resolve) => { allStarted = resolve; });
  const seconds = await timed(async () => {
    await queue.work(() => { if (++started === n) allStarted(); });
    await all;
    while (await queue.unfinished() > 0) await sleep(5);
  });
  return { n, seconds };
}

async function steady(queue, seconds, callers) {
  let [promised, started, isOver] = [0, 0, false];
  const began = performance.now();
  await queue.work(() => { started++; });
  const produce = async () => {
    while (!isOver) {
      if (promised + STEADY_BATCH - started > STEADY_CAP) {
        await sleep(1);
        continue;
      }
      promised += STEADY_BATCH;
      await queue.enqueueMany(STEADY_BATCH);
    }
  };
  const producers = Array.from({ length: callers }, produce);
  await Promise.race([sleep(seconds * 1000), ...producers]);
  const report = { n: started, seconds: (performance.now() - began) / 1000 };
  isOver = true;
  await Promise.all(producers);
  return report;
}

// One job at a time, 5 to 55 ms after the start of the previous one: from the acknowledgement to the start.
async function latency(queue, n) {
  let notify = () => {};
  await queue.work(() => notify(performance.now()));
  const once = async () => {
    const start = new Promise((resolve, reject) => {
      notify = resolve;
      setTimeout(() => reject(new Error('a job did not start in time')), START_TIMEOUT_MS).unref();
    });
    await queue.enqueue();
    const acknowledged = performance.now();
    return Math.max(0, (await start) - acknowledged);
  };
  for (let warming = 0; warming < 3; warming++) await once();
  const ms = [];
  const seconds = await timed(async () => {
    for (let i = 0; i < n; i++) {
      await sleep(5 + Math.random() * 50);
      ms.push(await once());
    }
  });
  return { n, seconds, ms };
}

async function inParallel(callers, n, batch, call) {
  let taken = 0;
  const caller = async () => {
    for (;;) {
      const first = taken;
      taken += batch;
      if (first >= n) return;
      await call(Math.min(batch, n - first));
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
}

async function timed(work) {
  const began = performance.now();
  await work();
  return (performance.now() - began) / 1000;
}
