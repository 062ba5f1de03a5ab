/** Runs the contract of `EnginePool` (`engine-pool.ts`) on every implementation. */
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe } from 'vitest';
import { openServerEngine, openServerPool } from '../../src/engine/server.ts';
import { openWorkerPool } from '../../src/engine/worker-pool.ts';
import { startClickHouse } from '../support/clickhouse-server.ts';
import { WORKER_COMMAND } from '../support/engine-workers.ts';
import { describePool } from './engine-pool.ts';

const { server, reason } = await startClickHouse();

afterAll(async () => {
  await server?.stop();
});

// Skipped only where no server can be had, which `support/clickhouse-server.ts` says aloud; CI never skips it.
describe.skipIf(server === undefined)('over the wire', () => {
  describePool('server', async () => {
    if (server === undefined) throw new Error(reason);
    const admin = await openServerEngine({ url: server.adminUrl });
    for (const sql of [
      'CREATE DATABASE flowdrop',
      'CREATE TABLE flowdrop.million (number UInt64) ENGINE = MergeTree ORDER BY number',
      'INSERT INTO flowdrop.million SELECT number FROM numbers(1000000)',
    ])
      await admin.command(sql);
    await admin.close();
    return {
      millionRows: 'million',
      open: (limits) => openServerPool({ url: server.readerUrl, ...limits }),
    };
  });
});

describe('in processes of this machine', () => {
  describePool('worker', async () => ({
    millionRows: 'numbers(1000000)',
    open: async (limits) =>
      openWorkerPool({
        ...limits,
        command: WORKER_COMMAND,
        folder: await mkdtemp(join(tmpdir(), 'flowdrop-workers-')),
        maxResultBytes: 1_000_000_000,
      }),
  }));
});
