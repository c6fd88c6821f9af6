// Enqueue, emit and cancel in a transaction of the application: the job exists if and only if the transaction commits. `client`
// is a client of `pg`, or anything with `query(text, values)` that resolves with `rows`. It must be the client that began the
// transaction, not a pool, which would use any connection.
//
// Every value is sent as text and cast in the statement, so it does not matter which types the driver is configured for.

const TYPES = {
  definition_key: "text", payload: "jsonb", tenant_id: "uuid", queue: "text", priority: "integer", scheduled_for: "timestamptz",
  delay: "interval", dedupe_key: "text", uniqueness: "jsonb", idempotency_key: "text", ordering_key: "text",
  depends_on: "uuid[]", if_unmet: "text", subject_type: "text", subject_id: "text", tags: "text[]", correlation_id: "text",
  source: "text", source_ref: "text", max_attempts: "integer", deadline: "timestamptz", parent_id: "uuid", created_by: "uuid",
  trace: "text", job_id: "uuid", name: "text", dedupe_id: "text", payloads: "jsonb[]", options: "jsonb", each: "jsonb[]",
  tenant: "uuid", job: "uuid",
};

/** Resolves with `id`, `status` and `is_duplicate`. */
export async function enqueueIn(client, definitionKey, payload = {}, options = {}) {
  const given = { definition_key: definitionKey, payload, ...sqlOptions(options) };
  return (await call(client, "select id::text as id, status, is_duplicate from windlass.enqueue", given))[0];
}

/** One job for each payload, in one statement. `options` apply to all jobs, `each` has the options per job. */
export async function enqueueManyIn(client, definitionKey, payloads, { each, tenant_id, ...options } = {}) {
  const given = {
    definition_key: definitionKey,
    payloads,
    tenant_id,
    options: plainOptions(options),
    each: each?.map(plainOptions),
  };
  const rows = await call(client, "select ord, id::text as id, status, is_duplicate from windlass.enqueue_many", given);
  return rows.sort((a, b) => Number(a.ord) - Number(b.ord));
}

/** Resolves with `id` and `is_duplicate`. */
export async function emitIn(client, name, payload = {}, options = {}) {
  return (await call(client, "select id::text as id, is_duplicate from windlass.emit", { name, payload, ...options }))[0];
}

/** Resolves with "canceled", "requested", "finished" or "missing". */
export async function cancelIn(client, tenantId, jobId) {
  return (await call(client, "select result from windlass.cancel", { tenant: tenantId, job: jobId }, " as result"))[0].result;
}

/** The arguments of `windlass.enqueue` for a call over PostgREST, such as `supabase.schema("windlass").rpc("enqueue", …)`. */
export function rpcArguments(definitionKey, payload = {}, options = {}) {
  return { definition_key: definitionKey, payload, ...plainOptions(options) };
}

async function call(client, select, given, alias = "") {
  if (typeof client?.query !== "function") throw new TypeError("the first argument must be a client of pg, with a method query");
  const values = [];
  const written = [];
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null) continue;
    const type = typeOf(name);
    values.push(asText(value, type));
    written.push(`${name} => ${cast(`$${values.length}::text`, type)}`);
  }
  return (await client.query(`${select}(${written.join(", ")})${alias}`, values)).rows;
}

function typeOf(name) {
  if (!Object.hasOwn(TYPES, name)) throw new TypeError(`unknown option "${name}"`);
  return TYPES[name];
}

/** The options of the HTTP API have the same names, except for the delay. */
function sqlOptions({ delay_seconds, ...options }) {
  return delay_seconds === undefined ? options : { ...options, delay: `${delay_seconds} seconds` };
}

function plainOptions(options) {
  const given = Object.entries(sqlOptions(options)).filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries(given.map(([name, value]) => [name, plain(value, typeOf(name))]));
}

function plain(value, type) {
  if (value instanceof Date) return value.toISOString();
  if (type === "interval" && typeof value === "number") return `${value} seconds`;
  return value;
}

function asText(value, type) {
  if (type.startsWith("jsonb") || type.endsWith("[]")) return JSON.stringify(value);
  return String(plain(value, type));
}

function cast(value, type) {
  if (type === "jsonb[]") return `array(select jsonb_array_elements(${value}::jsonb))`;
  if (type.endsWith("[]")) return `array(select jsonb_array_elements_text(${value}::jsonb))::${type}`;
  return type === "text" ? value : `${value}::${type}`;
}
