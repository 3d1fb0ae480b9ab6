// What a subscriber hands its events to.

import { nowMicros, origin } from './payload.js';

/** Counts events or writes them down, and says when it is enough. */
export class Sink {
  count = 0;
  #enough;
  #kept;
  #reach;

  constructor(enough, kept) {
    this.#enough = enough;
    this.#kept = kept;
    this.reached = new Promise((resolve) => (this.#reach = resolve));
    this.stopped = new Promise((resolve) => (this.stop = resolve));
  }

  /** Counts, and can be waited for until it has so many. */
  static counting = (enough) => new Sink(enough, undefined);

  /** Writes down what it is handed. */
  static keeping = () => new Sink(Infinity, []);

  /** One event: its content, and its position in the log (0 where the store has none). */
  handle(order, position) {
    if (this.#kept) this.#kept.push([...origin(order), position, order.amount, nowMicros()]);
    this.count += 1;
    if (this.count === this.#enough) this.#reach();
  }

  take() {
    const kept = this.#kept;
    this.#kept = [];
    return kept;
  }
}
