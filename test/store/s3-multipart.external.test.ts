/**
 * Objects in parts: that the whole is compared with what was sent, copies above the limit of one request, and the parts
 * that a killed worker leaves. Broken networks are in `s3-network.external.test.ts`, settings in `s3-settings.external.test.ts`.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFile, truncate, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { CreateMultipartUploadCommand, HeadObjectCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { shiftClock, systemClock } from '../../src/core/clock.ts';
import type { S3Surroundings } from '../../src/store/s3.ts';
import type { Store } from '../../src/store/store.ts';
import type { SeenRequest } from '../support/fault-plan.ts';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import { startS3 } from '../support/s3-server.ts';
import { useS3Stores } from '../support/s3-stores.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

const { server } = await startS3();
const MIB = 1024 * 1024;
const LARGE_BYTES = 11 * MIB + 123;
const HOUR_MS = 3_600_000;
const PUT_FILE = fileURLToPath(new URL('../support/put-file.ts', import.meta.url));
/** The smallest parts that S3 takes, so that small files have several. */
const SMALL = { putBytes: 6 * MIB, partBytes: 5 * MIB };

// Skipped where no S3 server can be started: not root, or not Debian. CI throws instead of skipping.
describe.skipIf(server === undefined)('s3 objects in parts', () => {
  const s3 = useS3Stores(server, 'parts');
  const { listUploads } = s3;
  let large: string;
  let proxy: FaultProxy;
  let requests: SeenRequest[];

  beforeAll(async () => {
    if (server === undefined) return;
    large = s3.path('large');
    await writeFile(large, randomBytes(LARGE_BYTES));
    proxy = await startFaultProxy(server.endpoint);
  });
  afterAll(async () => await proxy?.close());
  beforeEach(() => before(async () => {}));

  /** What happens before a request is passed on; all are kept. */
  function before(act: (request: SeenRequest) => Promise<void>): void {
    requests = [];
    proxy?.follow(async (request) => {
      requests.push(request);
      await act(request);
      return undefined;
    });
  }

  const open = async ({ limits, ...surroundings }: S3Surroundings = {}, endpoint = proxy.url) =>
    await s3.open({ endpoint }, { ...surroundings, limits: { ...SMALL, ...limits } });

  async function expectContent(store: Store, key: string): Promise<void> {
    const copy = s3.path('copy');
    expect(await store.download(key, copy)).toBe(true);
    expect(Buffer.compare(await readFile(copy), await readFile(large))).toBe(0);
  }

  test('an object that is not what was sent is removed, and the put fails', async () => {
    const store = await open();
    const direct = await open({}, server?.endpoint);
    for (const damaged of [randomBytes(LARGE_BYTES), Buffer.from('short')]) {
      // As if the service had damaged it: between the completion and the comparison it becomes another object.
      before(async ({ method }) => {
        if (method === 'HEAD') await direct.put('a', { bytes: damaged });
      });
      await expect(store.put('a', { path: large })).rejects.toMatchObject({
        code: 'STORE_FAILED',
        message: expect.stringContaining('the object was removed'),
        hint: expect.stringContaining('damaged'),
      });
      expect(await direct.head('a')).toBeUndefined();
      expect(await listUploads()).toEqual([]);
    }
  });

  test('an object that another worker removed before it was looked at is sent again', async () => {
    const store = await open();
    const direct = await open({}, server?.endpoint);
    let removals = 0;
    before(async ({ method }) => {
      if (method !== 'HEAD' || removals > 0) return;
      removals += 1;
      await direct.remove('a');
    });
    await store.put('a', { path: large });
    expect(removals).toBe(1);
    await expectContent(store, 'a');
    expect(await listUploads()).toEqual([]);
  });

  test('a file that becomes shorter while it is sent leaves no object and no parts', async () => {
    const shrinking = s3.path('shrinking');
    await writeFile(shrinking, randomBytes(LARGE_BYTES));
    const store = await open();
    before(async ({ path }) => {
      if (path.includes('uploads')) await truncate(shrinking, 6 * MIB);
    });
    await expect(store.put('a', { path: shrinking })).rejects.toMatchObject({
      code: 'STORE_FAILED',
      message: expect.stringContaining('shorter'),
    });
    expect(await store.head('a')).toBeUndefined();
    expect(await listUploads()).toEqual([]);
  });

  test('a copy above the limit of one request is made in parts, keeps the bytes, and has the content type of its name', async () => {
    const store = await open({ limits: { copyBytes: 7 * MIB, copyPartBytes: 5 * MIB } });
    await store.put('from é/a b.parquet', { path: large });
    requests.length = 0;
    await store.copy('from é/a b.parquet', 'to.ndjson');
    const ranges = requests.flatMap(({ headers }) => headers['x-amz-copy-source-range'] ?? []);
    expect(ranges.toSorted()).toEqual([
      `bytes=0-${5 * MIB - 1}`,
      `bytes=${10 * MIB}-${LARGE_BYTES - 1}`,
      `bytes=${5 * MIB}-${10 * MIB - 1}`,
    ]);
    await expectContent(store, 'to.ndjson');
    const { ContentType } = await s3.client().send(new HeadObjectCommand(s3.address('to.ndjson')));
    expect(ContentType).toBe('application/x-ndjson');
    expect(await listUploads()).toEqual([]);
  });

  test('a copy in parts whose source is gone leaves nothing', async () => {
    const store = await open({ limits: { copyBytes: 7 * MIB, copyPartBytes: 5 * MIB } });
    const direct = await open({}, server?.endpoint);
    await store.put('from', { path: large });
    before(async ({ path }) => {
      if (path.includes('uploads')) await direct.remove('from');
    });
    await expect(store.copy('from', 'to')).rejects.toMatchObject({ code: 'STORE_FAILED' });
    expect(await direct.head('to')).toBeUndefined();
    expect(await listUploads()).toEqual([]);
  });

  test('a copy up to the limit of one request is one request, between looks at source and target', async () => {
    const store = await open();
    await store.put('from', { path: large });
    requests.length = 0;
    await store.copy('from', 'to');
    expect(requests.map(({ method }) => method)).toEqual(['HEAD', 'PUT', 'HEAD']);
    await expectContent(store, 'to');
  });

  /** Kills a process in the middle of an upload: its connection stands still there until it is dead. */
  async function leaveParts(key: string): Promise<void> {
    const { hostname, port } = new URL(server?.endpoint ?? '');
    const wire = await startTcpProxy({ host: hostname, port: Number(port) });
    const path = s3.path('larger');
    await writeFile(path, randomBytes(40 * MIB));
    wire.breakWith({ direction: 'request', afterBytes: 30 * MIB, lasting: true, how: 'stall' });
    const options = JSON.stringify({ ...s3.place(), endpoint: `http://127.0.0.1:${wire.port}` });
    const child: ChildProcess = spawn(process.execPath, ['--import', 'tsx', PUT_FILE, options, key, path], {
      stdio: 'ignore',
    });
    const ended = once(child, 'exit');
    await vi.waitFor(() => expect(wire.faults).toBeGreaterThan(0), { timeout: 20_000 });
    child.kill('SIGKILL');
    expect(await ended).toEqual([null, 'SIGKILL']);
    await wire.close();
    expect(await listUploads()).toContain(key);
  }

  test('the parts of a worker that was killed are removed by a writer a day later, and not before', async () => {
    await leaveParts('_flowdrop/sealing/trades/session=2026-11-19/rev=1/0a.parquet');
    await leaveParts('elsewhere/not-ours.parquet');
    const notes: string[] = [];
    const later = (hours: number): S3Surroundings => ({
      clock: shiftClock(systemClock, systemClock.now() + hours * HOUR_MS),
      note: (text) => notes.push(text),
    });
    const soon = await open(later(23));
    await soon.put('a', { bytes: Buffer.from('x') });
    expect(await listUploads()).toHaveLength(2);
    const nextDay = await open(later(25));
    expect(await nextDay.head('a')).toBeDefined();
    expect(await listUploads()).toHaveLength(2);
    await nextDay.put('a', { bytes: Buffer.from('y') });
    expect(await listUploads()).toEqual(['elsewhere/not-ours.parquet']);
    expect(notes).toEqual([expect.stringContaining('_flowdrop/sealing/trades/session=2026-11-19/rev=1/0a.parquet')]);
  }, 60_000);

  test('leftovers of files, copies and history are removed, page by page, and uploads of others are not', async () => {
    const ours = [
      '_flowdrop/sealing/trades/session=2026-11-19/rev=1/0a.parquet',
      '_flowdrop/trades/history/session=2026-11-19/rev=1/trades.parquet',
      'trades/session=2026-11-19/trades.parquet',
    ];
    const others = ['a/trades/session=2026-11-19/x.parquet', 'notes/x', 'trades/date=today/x.parquet', 'x.parquet'];
    for (const key of [...ours, ...others]) await s3.client().send(new CreateMultipartUploadCommand(s3.address(key)));
    const notes: string[] = [];
    const clock = shiftClock(systemClock, systemClock.now() + 25 * HOUR_MS);
    const store = await open({ clock, note: (text) => notes.push(text), limits: { uploadsOnPage: 2 } });
    await store.put('a', { bytes: Buffer.from('x') });
    expect((await listUploads()).toSorted()).toEqual(others);
    expect(notes).toEqual(ours.map((key) => expect.stringContaining(key)));
  });

  test('leftovers are looked for once in a store’s life, and only below the prefix of the store', async () => {
    const store = await open();
    await store.head('a');
    for (const key of ['a', 'b', 'c']) await store.put(key, { bytes: Buffer.from(key) });
    const listings = requests.filter(({ method, path }) => method === 'GET' && path.includes('uploads'));
    expect(listings).toHaveLength(1);
    expect(listings[0]?.path).toContain(`prefix=${encodeURIComponent(`${s3.place().prefix}/`)}&`);
  });

  test('a right to list uploads that is missing fails nothing and is noted', async () => {
    const notes: string[] = [];
    const store = await open({ note: (text) => notes.push(text) });
    // A header that was not signed makes the server answer 403, as it does when the right is missing.
    before(async ({ method, path, headers }) => {
      if (method === 'GET' && path.includes('uploads')) headers['x-amz-date'] = '20200101T000000Z';
    });
    await store.put('a', { bytes: Buffer.from('x') });
    expect(await store.head('a')).toEqual({ key: 'a', sizeBytes: 1 });
    expect(notes).toEqual([expect.stringContaining('could not be listed')]);
  });
});
