// Passes connections on to the server, and knows what was sent. It can be broken, as a proxy is while it restarts.

import { once } from "node:events";
import { connect, createServer } from "node:net";

import { url } from "./server.js";
import { Changes } from "./waiting.js";

export async function startRelay(t) {
  const relay = new Relay();
  await relay.listen();
  t.after(() => relay.close());
  return relay;
}

class Relay {
  #server = createServer((near) => this.#accept(near));
  #changes = new Changes();
  #open = new Set();
  #refused = 0;
  #requests = "";
  responses = "";

  async listen() {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    this.url = `http://127.0.0.1:${this.#server.address().port}`;
  }

  close() {
    this.#disconnect();
    this.#server.close();
  }

  /** Ends the connections, and refuses new ones until it is repaired. */
  break() {
    this.refuse(Infinity);
    this.#disconnect();
  }

  /** Refuses this many new connections. */
  refuse(connections) {
    this.#refused = connections;
  }

  repair() {
    this.refuse(0);
  }

  /** Resolves when this many requests of this kind were passed on. */
  until(request, count = 1) {
    return this.#changes.until(() => this.#requests.split(request).length > count, `${count} times ${request}`);
  }

  #disconnect() {
    for (const socket of this.#open) socket.destroy();
  }

  #accept(near) {
    near.on("error", () => {});
    if (this.#refused > 0) {
      this.#refused -= 1;
      near.destroy();
      return;
    }
    const { hostname, port } = new URL(url);
    const far = connect(Number(port), hostname);
    near.on("data", (data) => {
      this.#requests += data;
      this.#changes.note();
    });
    far.on("data", (data) => (this.responses += data));
    for (const [one, other] of [[near, far], [far, near]]) {
      this.#open.add(one);
      one.on("error", () => {});
      one.on("close", () => {
        this.#open.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  }
}
