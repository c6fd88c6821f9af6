// A substitute for the transcription service: it accepts audio, returns "later" a few times, and then the words. Audio without
// words never finishes.

import { createServer } from "node:http";

import { decode } from "./tones.js";

export function speechService(port: number, questionsBeforeDone = 2) {
  const operations = new Map<string, { words: string[]; asked: number }>();
  return createServer((request, response) => {
    const answer = (status: number, body: unknown) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(body));
    };
    if (request.method === "POST") {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const id = encodeURIComponent(String(request.headers["idempotency-key"]));
        if (!operations.has(id)) operations.set(id, { words: decode(Buffer.concat(chunks)), asked: 0 });
        answer(200, { id });
      });
      return;
    }
    const operation = operations.get(request.url?.split("/").at(-1) ?? "");
    if (operation === undefined) return answer(404, { error: "operation not found" });
    operation.asked += 1;
    const isDone = operation.asked > questionsBeforeDone && operation.words.length > 0;
    answer(200, isDone ? { done: true, words: operation.words } : { done: false });
  }).listen(port, "127.0.0.1");
}
