// Emmett with its PostgreSQL event store, as its documentation says that it is used.

import { readFileSync } from 'node:fs';

import { getPostgreSQLEventStore } from '@event-driven-io/emmett-postgresql';
import pg from 'pg';

/** The pool of node-postgres has 10 connections by default: too few for so many callers. */
const CONNECTIONS_MAX = 64;
/** By default 100 messages and 50 ms. */
const BEST_PULLING = { batchSize: 1000, pullingFrequencyInMs: 1 };

/** As they are locked. */
const versions = () => {
  const { packages } = JSON.parse(readFileSync(new URL('package-lock.json', import.meta.url)));
  const version = (name) => `${name} ${packages[`node_modules/${name}`].version}`;
  return ['@event-driven-io/emmett-postgresql', 'pg'].map(version).join(', ');
};

export const about = () => ({
  name: 'Emmett',
  versions: `${versions()}, Node ${process.versions.node}`,
  page: 'event-driven-io.github.io/emmett, "PostgreSQL Event Store", "Async Consumers" (0.42.0)',
  settings: `a pool of ${CONNECTIONS_MAX} connections, else its defaults: pulls 100 messages, then waits 50 ms`,
  best: `its consumer pulls ${BEST_PULLING.batchSize} messages, then waits ${BEST_PULLING.pullingFrequencyInMs} ms`,
  no_follower: null,
  no_failover:
    'a second consumer with the same id is refused, also for 300 s after a crash of the first; nobody stands by',
  tables: ['emt_messages'],
  notes: [
    'its consumer reads in the order of transactions, but goes on behind the last position: ' +
      'events of appends at the same time may never be handed over, and catching up not reach the end',
    'its consumer waits up to 1 s between two pulls, unless the last one was full',
    "its check 'STREAM_DOES_NOT_EXIST' checks nothing in this version; the expected version 0n does",
  ],
});

export const prepare = async (url) => {
  const eventStore = getPostgreSQLEventStore(url);
  await eventStore.schema.migrate();
  await eventStore.close();
};

export const open = async (url, settings) => new Store(url, settings);

class Store {
  #eventStore;
  #pulling;

  constructor(url, settings) {
    const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS_MAX });
    // Without this, an idle connection that breaks ends the process.
    pool.on('error', (error) => console.error(error.message));
    this.#eventStore = getPostgreSQLEventStore(url, { connectionOptions: { pool }, schema: { autoMigration: 'None' } });
    this.#pulling = settings === 'best' ? BEST_PULLING : undefined;
  }

  /** Stores events, durably, before it returns. */
  async append(stream, version, orders) {
    const events = orders.map((data) => ({ type: 'OrderPlaced', data }));
    // 0n for a new stream, too: 'STREAM_DOES_NOT_EXIST' is not checked by this version.
    await this.#eventStore.appendToStream(`Order-${stream}`, events, { expectedStreamVersion: BigInt(version) });
  }

  /** Loads a stream, with every event decoded, and says how many there were. */
  async load(stream) {
    const { events } = await this.#eventStore.readStream(`Order-${stream}`);
    return events.length;
  }

  /** Hands every event to the sink, from its checkpoint on, until the sink is stopped. */
  async follow(id, sink) {
    const consumer = this.#eventStore.consumer({ pulling: this.#pulling });
    consumer.reactor({
      processorId: id,
      eachMessage: ({ data, metadata }) => sink.handle(data, Number(metadata.globalPosition)),
    });
    const stopped = sink.stopped.then(() => consumer.stop());
    await consumer.start();
    await stopped;
  }
}
