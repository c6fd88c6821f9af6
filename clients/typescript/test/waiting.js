// Waits for a condition that other code changes: it is checked after each change, and must hold within half a minute.

export class Changes {
  #checks = new Set();

  /** To be called after each change. */
  note() {
    for (const check of this.#checks) check();
  }

  until(holds, what) {
    return new Promise((resolve, reject) => {
      const check = () => holds() && end(resolve);
      const end = (settle, value) => {
        clearTimeout(limit);
        this.#checks.delete(check);
        settle(value);
      };
      const limit = setTimeout(() => end(reject, new Error(`not in 30 s: ${what}`)), 30_000);
      this.#checks.add(check);
      check();
    });
  }
}
