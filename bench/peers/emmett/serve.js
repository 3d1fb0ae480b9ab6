// A contestant's process: what ../../driver/src/serve.rs does.

import { createInterface } from 'node:readline';

import { append, fill, load, makeStream, send, windowAfter, write } from './measure.js';
import { Sink } from './sink.js';
import { open, prepare } from './store.js';

/** How long a follower may take to end before nobody waits for it any longer, in milliseconds. */
const PATIENCE = 10_000;

const NOTHING = { events: 0, seconds: 0, failed: 0 };

export const say = (what) =>
  new Promise((resolve, reject) => {
    process.stdout.write(`${JSON.stringify(what)}\n`, (error) => (error ? reject(error) : resolve()));
  });

export const serve = async (url, settings) => {
  const contestant = new Contestant(url, settings);
  for await (const line of createInterface({ input: process.stdin })) {
    const ask = JSON.parse(line);
    const answer = contestant[ask.do];
    if (!answer) throw new Error(`nothing is known about ${ask.do}`);
    await say(await answer(ask).catch((error) => ({ ...NOTHING, error: String(error?.message ?? error) })));
  }
};

/** A method for each question. */
class Contestant {
  #url;
  #settings;
  #store;
  #stream;
  #following;

  constructor(url, settings) {
    this.#url = url;
    this.#settings = settings;
  }

  /** Opened when it is first needed: there may be nothing to open before. */
  #opened = async () => (this.#store ??= await open(this.#url, this.#settings));

  prepare = async () => {
    await prepare(this.#url);
    return NOTHING;
  };

  append = async (ask) => append(await this.#opened(), ask);
  fill = async (ask) => fill(await this.#opened(), ask);
  send = async (ask) => send(await this.#opened(), ask);
  write = async (ask) => write(await this.#opened(), ask);

  load = async (ask) => {
    const store = await this.#opened();
    if (this.#stream?.events !== ask.events) {
      this.#stream = { events: ask.events, id: await makeStream(store, ask.events) };
    }
    return load(store, this.#stream.id, ask);
  };

  // One new subscriber after the other; how long one takes to end does not count.
  catch_up = async ({ id, events, warm_up, seconds }) => {
    const [store, { from, to }] = [await this.#opened(), windowAfter(warm_up, seconds)];
    const answer = { ...NOTHING };
    for (let number = 0; performance.now() < to; number += 1) {
      const sink = Sink.counting(events);
      let [began, before] = [performance.now(), 0];
      const following = start(store, `${id}-${number}`, sink);
      if (began < from) {
        await within(from - began, sink.reached, following.ended);
        if (sink.count < events) [began, before] = [performance.now(), sink.count];
      }
      if (sink.count < events) await within(to - performance.now(), sink.reached, following.ended);
      if (following.outcome && sink.count < events) {
        throw following.outcome.error ?? new Error(`the subscriber has ended after ${sink.count} of ${events} events`);
      }
      if (began >= from) {
        answer.events += sink.count - before;
        answer.seconds += (performance.now() - began) / 1000;
      }
      await end(following);
    }
    return answer;
  };

  follow = async ({ id }) => {
    await this.unfollow();
    this.#following = start(await this.#opened(), id, Sink.keeping());
    return NOTHING;
  };

  delivered = async () => {
    if (!this.#following) return { error: 'nothing is followed', events: [] };
    const { sink, outcome } = this.#following;
    if (!outcome) return { error: null, events: sink.take() };
    this.#following = undefined;
    return { error: outcome.error?.message ?? 'the subscriber has ended', events: sink.take() };
  };

  unfollow = async () => {
    const following = this.#following;
    this.#following = undefined;
    if (following) await end(following);
    return NOTHING;
  };
}

/** Waits for whatever comes first, for so many milliseconds at most. */
const within = async (limit, ...promises) => {
  let timer;
  const late = new Promise((resolve) => (timer = setTimeout(resolve, limit)));
  await Promise.race([...promises, late]);
  clearTimeout(timer);
};

/** Starts a follower; `outcome` is there as soon as it has ended. */
const start = (store, id, sink) => {
  const following = { sink, outcome: undefined };
  following.ended = store.follow(id, sink).then(
    () => (following.outcome = {}),
    (error) => (following.outcome = { error }),
  );
  return following;
};

/** Lets a follower end by itself, if it does. */
const end = async (following) => {
  following.sink.stop();
  await within(PATIENCE, following.ended);
  if (following.outcome?.error) throw following.outcome.error;
};
