// A job that is enqueued in a transaction of pg exists if and only if the transaction commits.

import assert from "node:assert";
import test from "node:test";

import pg from "pg";
import { cancelIn, emitIn, enqueueIn, enqueueManyIn, rpcArguments } from "windlass-client";

import { client, define } from "./server.js";

const DEFAULT_TENANT = "00000000-0000-7000-8000-000000000001";

test("every call works in a transaction of pg", async (t) => {
  const key = await define();
  const database = await connect(t);
  await database.query("begin");
  const lost = await enqueueIn(database, key);
  await database.query("rollback");

  await database.query("begin");
  const job = await enqueueIn(database, key, { text: "a'b" }, {
    delay_seconds: 3600,
    deadline: new Date("2100-01-01T00:00:00Z"),
    priority: 7,
    tags: ["a", 'b"c'],
    tenant_id: DEFAULT_TENANT,
    subject_type: "picture",
    subject_id: "7",
  });
  const each = Array.from({ length: 12 }, (_, n) => ({ subject_type: "n", subject_id: String(n), delay: 60 }));
  const many = await enqueueManyIn(database, key, each.map((_, n) => ({ n })), { each, priority: 3 });
  const event = await emitIn(database, "picture.added", { n: 1 });
  const other = await enqueueIn(database, key, {}, { depends_on: [job.id] });
  assert.equal(await cancelIn(database, DEFAULT_TENANT, other.id), "canceled");
  await assert.rejects(client.job(job.id), { status: 404 });
  await database.query("commit");

  const stored = await client.job(job.id);
  assert.deepEqual([stored.payload, stored.tags, stored.subject_id, stored.status], [{ text: "a'b" }, ["a", 'b"c'], "7", "scheduled"]);
  assert.deepEqual((await client.job(many[11].id)).payload, { n: 11 });
  assert.deepEqual([event.is_duplicate, other.status], [false, "blocked"]);
  await assert.rejects(client.job(lost.id), { status: 404 });
});

test("a wrong client or option is refused in words", async () => {
  await assert.rejects(enqueueIn(undefined, "resize"), /must be a client of pg/);
  await assert.rejects(enqueueIn({ query() {} }, "resize", {}, { prioritty: 1 }), /unknown option "prioritty"/);
});

// PostgREST calls a function with the members of the body as its named arguments, each cast to its type.
test("the arguments for supabase-js rpc are those of the function", async (t) => {
  const key = await define();
  const database = await connect(t);
  const body = rpcArguments(key, { n: 1 }, { delay_seconds: 60, tags: ["a"], deadline: new Date("2100-01-01T00:00:00Z") });
  const call = `select e.id from json_to_record($1) as a(definition_key text, payload jsonb, delay interval, tags text[], deadline timestamptz),
    windlass.enqueue(definition_key => a.definition_key, payload => a.payload, delay => a.delay, tags => a.tags, deadline => a.deadline) e`;
  const { rows } = await database.query(call, [JSON.stringify(body)]);
  const job = await client.job(rows[0].id);
  assert.deepEqual([job.payload, job.tags, job.status], [{ n: 1 }, ["a"], "scheduled"]);
});

async function connect(t) {
  const database = new pg.Client({ connectionString: process.env.DATABASE_URL });
  await database.connect();
  t.after(() => database.end());
  return database;
}
