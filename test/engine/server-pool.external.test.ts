/**
 * What only the pool over a real ClickHouse server has: statements that end on the server too, and
 * what the server tells about itself. The contract of all pools is in `test/contract/engine-pool.external.test.ts`.
 */
import { once } from 'node:events';
import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { EngineFault } from '../../src/engine/engine-fault.ts';
import {
  isTooOld,
  keepKnown,
  openServerEngine,
  openServerPool,
  readCapabilities,
  type ServerEngine,
  type ServerPool,
} from '../../src/engine/server.ts';
import { startClickHouse } from '../support/clickhouse-server.ts';

const { server, reason } = await startClickHouse();

/** For what a server does in a moment, unless it is in trouble. */
const WAIT = { timeout: 20_000, interval: 5 };
/** The reader's profile would end an endless query. */
const UNBOUNDED = 'SETTINGS max_rows_to_read = 0';

// Skipped only where no server can be had, which `support/clickhouse-server.ts` says aloud; CI never skips it.
describe.skipIf(server === undefined)('the pool over a real server', () => {
  let admin: ServerEngine;
  let pool: ServerPool;

  const open = (url = server?.readerUrl ?? '') => openServerPool({ url, size: 2, maxWaiting: 5 });

  beforeAll(async () => {
    if (server === undefined) throw new Error(reason);
    admin = await openServerEngine({ url: server.adminUrl });
    await admin.command('CREATE DATABASE flowdrop');
    pool = await open();
  });

  afterAll(async () => {
    await pool?.close();
    await admin?.close();
    await server?.stop();
  });

  const request = () => ({ owner: 'a', signal: new AbortController().signal });

  /** Queries of the service's user that the server is working on. */
  const running = async () =>
    (await admin.rows<{ query: string }>("SELECT query FROM system.processes WHERE user = 'flowdrop'")).map(
      ({ query }) => query,
    );

  async function untilRunning(mark: string): Promise<void> {
    await vi.waitFor(async () => expect(await running()).toContainEqual(expect.stringContaining(mark)), WAIT);
  }

  /** Starts an endless query whose text has `mark`, and waits until the server runs it. */
  async function startMarked(mark: string) {
    const control = new AbortController();
    const result = pool.use({ owner: 'a', signal: control.signal }, (engine) =>
      engine.rows(`SELECT sum(number), '${mark}' FROM system.numbers ${UNBOUNDED}`),
    );
    result.catch(() => {});
    await untilRunning(mark);
    return { control, result };
  }

  /** A place is given back when the server has ended the statement. */
  async function untilFree(own = pool): Promise<void> {
    await vi.waitFor(() => expect(own.running).toBe(0), WAIT);
  }

  test('an aborted query is gone from the server when its place is free', async () => {
    const { control, result } = await startMarked('mark-1');
    control.abort(new RangeError('given up'));
    await expect(result).rejects.toThrow('given up');
    expect(pool.running).toBe(1);
    await untilFree();
    expect(await running()).toEqual([]);
  });

  test('a query that is aborted right after it was sent is gone as well', async () => {
    for (let round = 0; round < 20; round += 1) {
      const control = new AbortController();
      const result = pool.use({ owner: 'a', signal: control.signal }, async (engine) => {
        const asking = engine.rows(
          'SELECT sum(number) FROM system.numbers SETTINGS max_rows_to_read = 0, max_execution_time = 20',
        );
        for (let turn = 0; turn < round; turn += 1) await new Promise(setImmediate);
        control.abort(new RangeError('given up'));
        await asking;
      });
      await expect(result).rejects.toThrow('given up');
    }
    await untilFree();
    expect(await running()).toEqual([]);
  });

  test('closing the pool ends its queries on the server', async () => {
    const own = await open();
    const result = own.use(request(), (engine) =>
      engine.rows(`SELECT sum(number), 'mark-2' FROM system.numbers ${UNBOUNDED}`),
    );
    result.catch(() => {});
    await untilRunning('mark-2');
    await own.close();
    await expect(result).rejects.toThrow('closed');
    expect(await running()).toEqual([]);
  });

  test('a query whose connection breaks is ended on the server and is a failure without a number', async () => {
    const target = new URL(server?.readerUrl ?? '');
    const sockets = new Set<Socket>();
    const proxy = createServer((client) => {
      const upstream = createConnection({ host: target.hostname, port: Number(target.port) });
      for (const socket of [client, upstream]) sockets.add(socket.on('error', () => {}));
      client.pipe(upstream).pipe(client);
    }).listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    const url = new URL(target);
    url.port = String((proxy.address() as AddressInfo).port); // A listening TCP server has an address with a port.
    const own = await open(url.href);
    const result = own.use(request(), (engine) =>
      engine.rows(`SELECT sum(number), 'mark-3' FROM system.numbers ${UNBOUNDED}`),
    );
    result.catch(() => {});
    await untilRunning('mark-3');
    for (const socket of sockets) socket.destroy();
    await expect(result).rejects.toMatchObject({ code: 'ENGINE_FAILED', clickhouseCode: 0 });
    await untilFree(own);
    expect(await running()).toEqual([]);
    for (const socket of sockets) socket.destroy();
    proxy.close();
    await own.close();
  });

  test('a server that cannot be reached, or refuses the user, is told when the pool is opened', async () => {
    await expect(open('http://flowdrop:change-me@127.0.0.1:1/flowdrop')).rejects.toThrow(EngineFault);
    const wrong = (server?.readerUrl ?? '').replace('change-me', 'wrong');
    await expect(open(wrong)).rejects.toMatchObject({ clickhouseCode: expect.toSatisfy((code) => code > 0) });
  });

  test('the server tells its version, settings, functions and what its user may do', async () => {
    const own = pool.capabilities;
    expect(own.version).toMatch(/^\d+\.\d+\./);
    expect(own.readonly).toBe(2);
    expect(own.settings.has('max_rows_to_read')).toBe(true);
    expect(own.functions).toEqual(expect.arrayContaining(['toString', 'quantile', 'count']));
    expect((await readCapabilities(admin)).readonly).toBe(0);
    expect(keepKnown({ max_threads: 1, no_such_setting: 2 }, own)).toEqual({ max_threads: 1 });
  });
});

test.each(['', 'localhost:8123', 'ftp://user:secret@host/'])(
  'the address %j is refused, and not shown',
  async (url) => {
    const opening = openServerPool({ url, size: 1, maxWaiting: 1 });
    await expect(opening).rejects.toMatchObject({
      code: 'SERVER_URL_INVALID',
      kind: 'usage',
      hint: expect.any(String),
    });
    await expect(opening).rejects.not.toThrow('secret');
  },
);

test.each([
  ['18.16.1', true],
  ['23.12.4.1', true],
  ['24.1.9', true],
  ['24.2.1.1', false],
  ['24.10.1', false],
  ['26.7.1.1', false],
])('version %s is too old: %s', (version, expected) => {
  expect(isTooOld(version)).toBe(expected);
});
