/** Faults of the S3 store at the socket. What holds for every store is in `test/contract/store.external.test.ts`. */
import { randomBytes } from 'node:crypto';
import { readdir, writeFile } from 'node:fs/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { openS3Store } from '../../src/store/s3.ts';
import type { Store } from '../../src/store/store.ts';
import { startS3 } from '../support/s3-server.ts';
import { useS3Stores } from '../support/s3-stores.ts';
import { readText } from '../support/store-keys.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const { server } = await startS3();
const LARGE_BYTES = 40_000_000;

// Skipped where no S3 server can be started: not root, or not Debian. CI throws instead of skipping.
describe.skipIf(server === undefined)('s3 store', () => {
  const s3 = useS3Stores(server, 's3');
  const { open } = s3;
  let proxy: TcpProxy;
  let store: Store;
  let direct: Store;

  beforeAll(async () => {
    if (server === undefined) return;
    await writeFile(s3.path('large'), randomBytes(LARGE_BYTES));
    const { hostname, port } = new URL(server.endpoint);
    proxy = await startTcpProxy({ host: hostname, port: Number(port) });
  });
  afterAll(async () => await proxy?.close());

  beforeEach(async () => {
    direct = await open();
    store = await open({ endpoint: `http://127.0.0.1:${proxy.port}` });
  });

  afterEach(() => {
    proxy.heal();
    vi.unstubAllEnvs();
  });

  test('a large put that is aborted in the middle leaves no object', async () => {
    const abort = new AbortController();
    const before = proxy.requestBytes;
    const putting = store.put('a/large', { path: s3.path('large') }, { signal: abort.signal });
    await vi.waitFor(() => expect(proxy.requestBytes - before).toBeGreaterThan(4_000_000), {
      interval: 1,
      timeout: 10_000,
    });
    abort.abort();
    await expect(putting).rejects.toMatchObject({ code: 'INTERRUPTED', kind: 'interrupted' });
    expect(proxy.requestBytes - before).toBeLessThan(LARGE_BYTES);
    expect(await direct.head('a/large')).toBeUndefined();
  });

  test('a network that breaks in the middle of a large put leaves the previous object', async () => {
    await store.put('a/large', { bytes: Buffer.from('previous') });
    proxy.breakWith({ direction: 'request', afterBytes: 20_000_000, lasting: true });
    const putting = store.put('a/large', { path: s3.path('large') });
    await expect(putting).rejects.toMatchObject({ code: 'STORE_FAILED', hint: expect.any(String) });
    expect(await readText(direct, 'a/large')).toBe('previous');
    proxy.heal();
    await store.put('a/large', { path: s3.path('large') });
    expect(await direct.head('a/large')).toEqual({ key: 'a/large', sizeBytes: LARGE_BYTES });
  });

  test('one broken connection in a large put is repaired by repeating it', async () => {
    proxy.breakWith({ direction: 'request', afterBytes: 20_000_000, lasting: false });
    const faults = proxy.faults;
    await store.put('a/large', { path: s3.path('large') });
    expect(proxy.faults).toBe(faults + 1);
    expect(await direct.head('a/large')).toEqual({ key: 'a/large', sizeBytes: LARGE_BYTES });
  });

  test('putIfAbsent whose answer was lost finds its own object, and is true', async () => {
    await store.head('warm'); // The connection exists, so the lost answer is the one to the PUT.
    proxy.breakWith({ direction: 'answer', afterBytes: 0, lasting: false });
    const faults = proxy.faults;
    expect(await store.putIfAbsent('a/manifest.json', Buffer.from('ours'))).toBe(true);
    expect(proxy.faults).toBe(faults + 1);
    expect(await store.putIfAbsent('a/manifest.json', Buffer.from('ours'))).toBe(false);
  });

  test('putIfAbsent whose answer was lost is false when the object is a rival’s', async () => {
    await direct.put('a/manifest.json', { bytes: Buffer.from('theirs') });
    proxy.breakWith({ direction: 'answer', afterBytes: 0, lasting: false });
    expect(await store.putIfAbsent('a/manifest.json', Buffer.from('ours'))).toBe(false);
    expect(await readText(direct, 'a/manifest.json')).toBe('theirs');
  });

  test('a download whose body breaks off once is repeated, and one that breaks off for good leaves no file', async () => {
    await direct.put('a/large', { path: s3.path('large') });
    proxy.breakWith({ direction: 'answer', afterBytes: 10_000_000, lasting: false });
    const faults = proxy.faults;
    expect(await store.download('a/large', s3.path('once/large'))).toBe(true);
    expect(proxy.faults).toBe(faults + 1);
    expect(await readdir(s3.path('once'))).toEqual(['large']);
    proxy.breakWith({ direction: 'answer', afterBytes: 10_000_000, lasting: true });
    const downloading = store.download('a/large', s3.path('never/large'));
    await expect(downloading).rejects.toMatchObject({ code: 'STORE_FAILED' });
    expect(await readdir(s3.path('never'))).toEqual([]);
  });

  test('a download that is aborted in the middle leaves no file', async () => {
    await direct.put('a/large', { path: s3.path('large') });
    const abort = new AbortController();
    const downloading = store.download('a/large', s3.path('aborted/large'), abort.signal);
    await vi.waitFor(async () => expect(await readdir(s3.path('aborted'))).toHaveLength(1), { interval: 1 });
    abort.abort();
    await expect(downloading).rejects.toMatchObject({ code: 'INTERRUPTED' });
    expect(await readdir(s3.path('aborted'))).toEqual([]);
  });

  test('a wrong secret is a fault that says so and shows no secret', async () => {
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'wrong-secret-value');
    vi.stubEnv('AWS_SESSION_TOKEN', '');
    const wrong = await open();
    const fault: unknown = await wrong.put('x', { bytes: Buffer.from('x') }).catch((error: unknown) => error);
    expect(fault).toMatchObject({ code: 'STORE_FAILED', hint: expect.stringMatching(/secret key|permission/) });
    expect(JSON.stringify(fault, Object.getOwnPropertyNames(fault))).not.toMatch(/wrong-secret-value|Signature=/);
  });

  test('a bucket that does not exist is a fault, not an absent object', async () => {
    const lost = await open({ bucket: 'flowdrop-no-such-bucket' });
    const fault = { code: 'STORE_FAILED', hint: expect.stringContaining('bucket') };
    await expect(lost.get('x')).rejects.toMatchObject(fault);
    await expect(lost.put('x', { bytes: Buffer.from('x') })).rejects.toMatchObject(fault);
    await expect(lost.list('')[Symbol.asyncIterator]().next()).rejects.toMatchObject(fault);
  });

  test('a body or a file that is damaged on the way is refused, and what was there before stays', async () => {
    await writeFile(s3.path('fragile'), Buffer.alloc(20_000_000, 'a large fragile body'));
    await store.put('a', { bytes: Buffer.from('previous') });
    for (const [key, body] of [
      ['a', { bytes: Buffer.from('a small fragile body') }],
      ['a', { bytes: Buffer.alloc(100_000, 'a small fragile body') }],
      ['new', { path: s3.path('fragile') }],
    ] as const) {
      proxy.corrupt('fragile');
      const faults = proxy.faults;
      await expect(store.put(key, body)).rejects.toMatchObject({ code: 'STORE_FAILED' });
      expect(proxy.faults).toBe(faults + 1);
      expect(await readText(direct, key)).toBe(key === 'new' ? undefined : 'previous');
    }
  });
});

test('an endpoint where nothing listens is a fault that names the setting', async () => {
  const probe = await startTcpProxy({ host: '127.0.0.1', port: 1 });
  await probe.close(); // Its port is free now, so nothing listens there.
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'any');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'any-secret');
  const endpoint = `http://127.0.0.1:${probe.port}`;
  const store = await openS3Store({ bucket: 'bucket', prefix: '', endpoint, region: 'us-east-1', pathStyle: true });
  const fault = { code: 'STORE_FAILED', hint: expect.stringContaining('AWS_ENDPOINT_URL_S3') };
  await expect(store.get('x')).rejects.toMatchObject(fault);
  await expect(store.putIfAbsent('x', Buffer.from('x'))).rejects.toMatchObject(fault);
  await store.close();
  vi.unstubAllEnvs();
});
