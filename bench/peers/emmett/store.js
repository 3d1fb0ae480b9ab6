// Emmett with its PostgreSQL event store, as its documentation says that it is used.

import { readFileSync } from 'node:fs';

import { getPostgreSQLEventStore } from '@event-driven-io/emmett-postgresql';
import pg from 'pg';

/** By default 100 messages and 50 ms. */
const FASTEST_PULLING = { batchSize: 1000, pullingFrequencyInMs: 5 };

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
  documented:
    'getPostgreSQLEventStore(url) with everything as by default: a pool of 10 connections, which are closed after 10 s of rest; ' +
    'its consumer pulls 100 messages, then waits 50 ms',
  fastest:
    'a pool of its own that keeps its connections, the best of several sizes; ' +
    `its consumer pulls ${FASTEST_PULLING.batchSize} messages, then waits ${FASTEST_PULLING.pullingFrequencyInMs} ms`,
  pools: [8, 16, 32, 64],
  deliveries: {
    once:
      'a transaction for each batch, with the position of each message stored in it; a handler that writes through its context ' +
      'writes in the same; a crash of the server undoes nothing',
  },
  no_follower: null,
  no_failover:
    'a second consumer with the same id is refused, also for 300 s after a crash of the first; nobody stands by',
  tables: ['emt_messages'],
  notes: [
    'its consumer reads in the order of transactions, but goes on behind the last position: ' +
      'events of appends at the same time may never be handed over, and catching up not reach the end',
    'its consumer waits up to 1 s between two pulls, unless the last one was full',
    "its check 'STREAM_DOES_NOT_EXIST' checks nothing in this version; the expected version 0n does",
    'Node uses one core; the others use both',
  ],
  objection:
    'One process of Node is one core: its users run several. And what is appended to one stream at once is its strength, not ' +
    'one event per call.',
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

  constructor(url, { way, connections }) {
    const options = { schema: { autoMigration: 'None' } };
    if (way === 'fastest') {
      const pool = new pg.Pool({ connectionString: url, max: connections, idleTimeoutMillis: 0 });
      // Without this, an idle connection that breaks ends the process.
      pool.on('error', (error) => console.error(error.message));
      options.connectionOptions = { pool };
    }
    this.#eventStore = getPostgreSQLEventStore(url, options);
    this.#pulling = way === 'fastest' ? FASTEST_PULLING : undefined;
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
