// Callers and clocks: what ../../driver/src/measure.rs does.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import { placed } from './payload.js';

/** A writer of `write` begins a new stream after so many events: some stores load a stream to append to it. */
const STREAM_MAX = 20;
/** How many callers send at a steady rate, at most. */
const SENDERS_MAX = 64;

const secondsSince = (started) => (performance.now() - started) / 1000;

/** When something counts: what has ended between the two. */
export const windowAfter = (warmUp, seconds) => {
  const from = performance.now() + warmUp * 1000;
  return { from, to: from + seconds * 1000, seconds };
};
const ALWAYS = { from: 0, to: Infinity };
const isOver = ({ to }) => performance.now() >= to;
const counts = ({ from, to }) => performance.now() >= from && performance.now() < to;

const orders = (caller, from, count) => Array.from({ length: count }, (_, n) => placed(caller, from + n));

/** What one caller did. */
class Calls {
  /** Those that count. */
  events = 0;
  /** All of them. */
  stored = 0;
  attempts = 0;
  failed = 0;
  failure = undefined;
  acknowledged = [];

  /** Appends, and says whether it was done. */
  async append(store, window, stream, version, events) {
    this.attempts += 1;
    try {
      await store.append(stream, version, events);
    } catch (error) {
      this.failed += 1;
      this.failure ??= String(error?.message ?? error);
      return false;
    }
    this.stored += events.length;
    if (counts(window)) this.events += events.length;
    return true;
  }
}

/** Runs so many callers at once; everything that they did, until the last of them had returned. */
const all = async (callers, started, caller) => {
  const done = await Promise.all(
    Array.from({ length: callers }, async (_, number) => {
      const calls = new Calls();
      await caller(calls, number);
      return calls;
    }),
  );
  const seconds = secondsSince(started);
  const sum = (what) => done.reduce((sum, calls) => sum + calls[what], 0);
  const acknowledged = done.flatMap((calls) => calls.acknowledged);
  return {
    events: sum('events'),
    seconds,
    attempts: sum('attempts'),
    failed: sum('failed'),
    failure: done.find((calls) => calls.failure !== undefined)?.failure,
    acknowledged: acknowledged.length > 0 ? acknowledged : undefined,
  };
};

export const append = async (store, { callers, events, warm_up, seconds }) => {
  const window = windowAfter(warm_up, seconds);
  const appended = await all(callers, performance.now(), async (calls, caller) => {
    while (!isOver(window)) {
      await calls.append(store, window, randomUUID(), 0, orders(caller, calls.stored, events));
    }
  });
  return { ...appended, seconds };
};

export const fill = async (store, { streams, events, callers }) => {
  const filled = await all(callers, performance.now(), async (calls, caller) => {
    for (let stream = caller; stream < streams; stream += callers) {
      if (!(await calls.append(store, ALWAYS, randomUUID(), 0, orders(caller, calls.stored, events)))) break;
    }
  });
  if (filled.failure !== undefined) throw new Error(filled.failure);
  return filled;
};

/** A new stream for `load`. */
export const makeStream = async (store, count) => {
  const stream = randomUUID();
  for (let version = 0; version < count; version += 100) {
    await store.append(stream, version, orders(0, version, Math.min(100, count - version)));
  }
  return stream;
};

export const load = async (store, stream, { events: count, warm_up, seconds }) => {
  const window = windowAfter(warm_up, seconds);
  let loaded = 0;
  while (!isOver(window)) {
    const events = await store.load(stream);
    if (events !== count) throw new Error(`a stream of ${count} events was loaded with ${events}`);
    if (counts(window)) loaded += count;
  }
  return { events: loaded, seconds, failed: 0 };
};

/** One event at a time is due, and its caller sends it: a slow store sends later than asked, and says how many. */
export const send = (store, { rate, seconds }) => {
  const [started, total] = [performance.now(), Math.round(rate * seconds)];
  const senders = Math.min(Math.max(Math.ceil(rate / 10), 1), SENDERS_MAX);
  return all(senders, started, async (calls, sender) => {
    for (let number = sender; number < total; number += senders) {
      const early = number / rate - secondsSince(started);
      if (early > 0) await sleep(early * 1000);
      // Behind by more than a second at the end: no use in continuing.
      if (secondsSince(started) > seconds + 1) break;
      await calls.append(store, ALWAYS, randomUUID(), 0, orders(sender, number, 1));
    }
  });
};

export const write = (store, { writers, events: count, seconds }) => {
  const started = performance.now();
  let acknowledged = 0;
  return all(writers, started, async (calls, writer) => {
    let [stream, version] = [randomUUID(), 0];
    for (let number = 0; secondsSince(started) < seconds && acknowledged < count; number += 1) {
      if (version === STREAM_MAX) [stream, version] = [randomUUID(), 0];
      if (await calls.append(store, ALWAYS, stream, version, orders(writer, number, 1))) {
        version += 1;
        acknowledged += 1;
        calls.acknowledged.push([writer, number]);
      }
    }
  });
};
