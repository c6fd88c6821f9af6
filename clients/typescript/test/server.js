// The server of these tests: WINDLASS_SERVER, WINDLASS_TOKEN (of a super-admin) and DATABASE_URL.

import assert from "node:assert";
import { randomUUID } from "node:crypto";

import { Client } from "windlass-client";

import { Changes } from "./waiting.js";

export const url = process.env.WINDLASS_SERVER;
export const token = process.env.WINDLASS_TOKEN;
export const client = new Client({ url, token });

/** Creates a definition with a new name and a short backoff, and resolves with its key. */
export async function define() {
  const key = `test-${randomUUID()}`;
  const body = { key, max_attempts: 3, backoff: { kind: "fixed", base_seconds: 0.01, jitter: 0 } };
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const response = await fetch(`${url}/api/v1/admin/jobs/definitions`, { method: "POST", headers, body: JSON.stringify(body) });
  assert.equal(response.status, 201, await response.text());
  return key;
}

/** A logger that keeps its lines; `until` resolves when one contains the text. */
export function recorder() {
  const lines = [];
  const changes = new Changes();
  const record = (...words) => {
    lines.push(words.join(" "));
    changes.note();
  };
  const until = (text) => changes.until(() => lines.some((line) => line.includes(text)), text);
  return { lines, until, logger: { info: record, warn: record, error: record } };
}
