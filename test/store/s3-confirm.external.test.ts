/**
 * Services that say that they have written and have not, on the way to a real S3 server. What holds for every store is in
 * `test/contract/store.external.test.ts`.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { finishSealing } from '../../src/ledger/finish.ts';
import { dropKey, manifestKey, sealingPrefix } from '../../src/ledger/layout.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import { publishDrop } from '../../src/ledger/publish.ts';
import type { Store } from '../../src/store/store.ts';
import type { Fault, SeenRequest } from '../support/fault-plan.ts';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import { createDraft } from '../support/manifest.ts';
import { startS3 } from '../support/s3-server.ts';
import { useS3Stores } from '../support/s3-stores.ts';
import { listKeys, readText } from '../support/store-keys.ts';
import { DATE } from '../support/trades.ts';

const { server } = await startS3();
const MIB = 1024 * 1024;
const ERROR =
  '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>InternalError</Code><Message>again</Message></Error>';
const FAULT = { name: 'StoreFault', code: 'STORE_FAILED', hint: expect.any(String) };

/** Bodies of a status of 200 that say nothing of a success. */
const ODD_BODIES = [
  ['an error', ERROR],
  ['an error and a line end', `${ERROR}\n`],
  ['a page', '<html><body>Please log in.<br></body></html>'],
  ['a page that is XML', '<html><body>Please log in.</body></html>'],
  ['a result without a tag', '<CopyObjectResult><LastModified>2026-11-19T00:00:00Z</LastModified></CopyObjectResult>'],
  ['a result that breaks off', '<CopyObjectResult><LastModified>2026-11-'],
  ['nothing', ''],
] as const;

const WRITES = {
  copy: ({ method, headers }: SeenRequest) => method === 'PUT' && headers['x-amz-copy-source'] !== undefined,
  file: ({ method, path }: SeenRequest) => method === 'PUT' && path.includes('/large'),
  manifest: ({ method, path }: SeenRequest) => method === 'PUT' && path.includes('/manifest.json'),
  decision: ({ method, path }: SeenRequest) => method === 'PUT' && path.includes('/decision.json'),
} as const;

// Skipped where no S3 server can be started: not root, or not Debian. CI throws instead of skipping.
describe.skipIf(server === undefined)('a service that says it has written, and has not', () => {
  const s3 = useS3Stores(server, 'confirm');
  let proxy: FaultProxy;
  let store: Store;
  let direct: Store;

  beforeAll(async () => {
    if (server !== undefined) proxy = await startFaultProxy(server.endpoint);
  });
  afterAll(async () => await proxy?.close());

  beforeEach(async () => {
    store = await s3.open({ endpoint: proxy.url });
    direct = await s3.open();
  });
  afterEach(() => proxy.follow([]));

  const lie = (write: keyof typeof WRITES, fault: Fault, times = Number.POSITIVE_INFINITY) =>
    proxy.follow([{ on: WRITES[write], fault, times }]);
  const say = (text: string) => ({ kind: 'status', status: 200, body: { text } }) as const;

  test.each(ODD_BODIES)('a copy answered by 200 with %s is repeated, and fails when it stays so', async (_, body) => {
    await direct.put('from', { bytes: Buffer.from('the day') });
    // Of the same size: a look at the size alone would take it for the copy.
    await direct.put('to', { bytes: Buffer.from('another') });
    lie('copy', say(body));
    await expect(store.copy('from', 'to')).rejects.toMatchObject(FAULT);
    expect([await readText(direct, 'from'), await readText(direct, 'to')]).toEqual(['the day', 'another']);
    lie('copy', say(body), 1);
    expect(await store.copy('from', 'to')).toEqual({ key: 'to', sizeBytes: 7 });
    expect(await readText(direct, 'to')).toBe('the day');
  });

  describe('a large file', () => {
    let path: string;
    beforeEach(async () => {
      path = s3.path('large');
      await writeFile(path, randomBytes(11 * MIB));
    });
    const isThere = { key: 'large', sizeBytes: 11 * MIB };

    test('that is answered by 200 with an error is sent again, and fails when it stays so', async () => {
      await direct.put('large', { bytes: Buffer.from('previous') });
      lie('file', say(ERROR));
      await expect(store.put('large', { path })).rejects.toMatchObject(FAULT);
      expect(await readText(direct, 'large')).toBe('previous');
      lie('file', say(ERROR), 1);
      await store.put('large', { path });
      expect(await direct.head('large')).toEqual(isThere);
    });

    test('that stalled on the way is sent again', async () => {
      const text = ERROR.replace('InternalError', 'RequestTimeout');
      proxy.follow([{ on: WRITES.file, fault: { kind: 'status', status: 400, body: { text } }, times: 1 }]);
      await store.put('large', { path });
      expect(await direct.head('large')).toEqual(isThere);
    });

    test('that vanishes before it is sent again is a fault', async () => {
      proxy.follow(async (request) => {
        if (WRITES.file(request)) await rm(path);
        return { kind: 'status', status: 503, body: 'xml' };
      });
      const hint = expect.stringContaining('local file');
      await expect(store.put('large', { path })).rejects.toMatchObject({ ...FAULT, hint });
      expect(await direct.head('large')).toBeUndefined();
    });

    test('that became another object before it was looked at is a fault', async () => {
      for (const damaged of [randomBytes(11 * MIB), Buffer.from('short')]) {
        proxy.follow(async ({ method }) => {
          if (method === 'HEAD') await direct.put('large', { bytes: damaged });
          return undefined;
        });
        const hint = expect.stringContaining('damaged');
        await expect(store.put('large', { path })).rejects.toMatchObject({ ...FAULT, hint });
      }
    });
  });

  const publish = async (content: string) => {
    const path = s3.path(`drop-${randomUUID()}`);
    await writeFile(path, content);
    return await publishDrop(new Ledger(store, 'trades'), { drop: path }, createDraft());
  };

  test.each([
    ['copy that is answered with an error', 'copy', say(`${ERROR}\n`)],
    ['copy that is not kept', 'copy', { kind: 'not-kept' }],
    ['manifest that is answered with an error', 'manifest', say(ERROR)],
    ['manifest that is not kept', 'manifest', { kind: 'not-kept' }],
  ] as const)('after a %s nothing of the seal is removed, and the next run seals', async (_, write, fault) => {
    lie(write, fault);
    await expect(publish('the day')).rejects.toMatchObject(FAULT);
    expect(await new Ledger(direct, 'trades').manifest(DATE)).toBeUndefined();
    expect(await listKeys(direct, sealingPrefix('trades'))).toHaveLength(2);
    proxy.follow([]);
    await finishSealing(new Ledger(store, 'trades'), s3.path('scratch'), Date.now());
    expect(await readText(direct, dropKey('trades', DATE))).toBe('the day');
    expect(await listKeys(direct)).toEqual([manifestKey('trades', DATE), dropKey('trades', DATE)]);
  });

  test('a decision that is acknowledged and not kept publishes nothing', async () => {
    lie('decision', { kind: 'not-kept' });
    await expect(publish('the day')).rejects.toMatchObject(FAULT);
    expect(await listKeys(direct, 'trades/')).toEqual([]);
    proxy.follow([]);
    expect((await publish('the day')).won).toBe(true);
    expect(await readText(direct, dropKey('trades', DATE))).toBe('the day');
  });
});
