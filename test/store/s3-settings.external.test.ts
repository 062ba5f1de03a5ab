/**
 * How objects are written to S3 (`drop.s3`): every setting on the wire of every writing request, and on the objects as
 * far as the server has it. Ceph's gateway 16.2 has KMS, storage classes, ACLs, and the tags of PutObject; it overlooks
 * SSE-S3 and new tags of copies, so those are shown on the wire only.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises';
import { GetObjectAclCommand, GetObjectTaggingCommand, HeadObjectCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { ObjectOptions, Store } from '../../src/store/store.ts';
import type { Fault, SeenRequest } from '../support/fault-plan.ts';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import { S3_KMS_KEY, S3_STORAGE_CLASS, startS3 } from '../support/s3-server.ts';
import { useS3Stores } from '../support/s3-stores.ts';
import { readText } from '../support/store-keys.ts';

const { server } = await startS3();
const MIB = 1024 * 1024;
const DROP = 'trades/session=2026-11-19/trades.parquet';
const HISTORY = '_flowdrop/trades/history/session=2026-11-19/rev=1/trades.parquet';
/** Neither is a Parquet object that stays. */
const PASSING = ['_flowdrop/sealing/trades/session=2026-11-19/rev=1/0a.parquet', '_flowdrop/reports/x/report.html'];
const MANIFEST = '_flowdrop/trades/session=2026-11-19/manifest.json';
const KMS: ObjectOptions = { encryption: 'sse-kms', kmsKey: S3_KMS_KEY };
const LABELS: ObjectOptions = {
  storageClass: S3_STORAGE_CLASS,
  tags: { team: 'quant desk', 'cost/center': 'a+b=ü&' },
  acl: 'bucket-owner-full-control',
};
const LABEL_HEADERS = {
  'x-amz-tagging': 'team=quant%20desk&cost%2Fcenter=a%2Bb%3D%C3%BC%26',
  'x-amz-acl': 'bucket-owner-full-control',
};

// Skipped where no S3 server can be started: not root, or not Debian. CI throws instead of skipping.
describe.skipIf(server === undefined)('s3 write settings', () => {
  const s3 = useS3Stores(server, 'settings');
  const { address } = s3;
  let proxy: FaultProxy;
  let requests: SeenRequest[];

  beforeAll(async () => {
    if (server === undefined) return;
    await writeFile(s3.path('large'), randomBytes(11 * MIB));
    proxy = await startFaultProxy(server.endpoint);
  });
  afterAll(async () => await proxy?.close());
  beforeEach(() => answerAll(undefined));

  /** What is done to every answer; all requests are kept. */
  function answerAll(fault: Fault | undefined): void {
    requests = [];
    proxy?.follow((request) => {
      requests.push(request);
      return fault;
    });
  }

  const open = async (objects: ObjectOptions) => await s3.open({ endpoint: proxy.url, objects });

  const readHead = async (key: string) => await s3.client().send(new HeadObjectCommand(address(key)));
  const readTags = async (key: string) => {
    const { TagSet = [] } = await s3.client().send(new GetObjectTaggingCommand(address(key)));
    return Object.fromEntries(TagSet.map(({ Key = '', Value }) => [Key, Value]));
  };
  /** The request that makes the object. */
  const findMaking = (key: string): SeenRequest | undefined =>
    requests.find(({ method, path }) => method === 'PUT' && decodeURIComponent(path).includes(`/${address(key).Key}?`));

  /** One object by each way of writing: bytes, bytes on a condition, a file, copies. */
  async function writeAll(store: Store): Promise<readonly string[]> {
    await store.put(DROP, { bytes: Buffer.from('drop') });
    await store.putIfAbsent(MANIFEST, Buffer.from('manifest'));
    await store.put('large/large.parquet', { path: s3.path('large') });
    await store.copy(DROP, 'copied/small.parquet');
    await store.copy('large/large.parquet', 'copied/large.parquet');
    return [DROP, MANIFEST, 'large/large.parquet', 'copied/small.parquet', 'copied/large.parquet'];
  }

  test('tags and ACL are on the wire of every way of writing, the storage class on that of what stays', async () => {
    const store = await open(LABELS);
    const keys = await writeAll(store);
    for (const key of [HISTORY, ...PASSING]) await store.put(key, { bytes: Buffer.from('x') });
    for (const key of [...keys, HISTORY, ...PASSING]) {
      const headers = findMaking(key)?.headers;
      expect(headers, key).toMatchObject(LABEL_HEADERS);
      const stays = key !== MANIFEST && !PASSING.includes(key);
      expect(headers?.['x-amz-storage-class'], key).toBe(stays ? S3_STORAGE_CLASS : undefined);
    }
    const copy = findMaking('copied/small.parquet')?.headers;
    expect(copy).toMatchObject({ 'x-amz-tagging-directive': 'REPLACE' });
  });

  test('storage class, tags, ACL and content type are on the objects', async () => {
    const keys = await writeAll(await open({ ...LABELS, acl: 'public-read' }));
    for (const key of keys) {
      const { Grants = [] } = await s3.client().send(new GetObjectAclCommand(address(key)));
      expect(Grants, key).toContainEqual(expect.objectContaining({ Permission: 'READ' }));
      const head = await readHead(key);
      expect(head.StorageClass, key).toBe(key === MANIFEST ? undefined : S3_STORAGE_CLASS);
      expect(head.ContentType, key).toBe(key === MANIFEST ? 'application/json' : 'application/vnd.apache.parquet');
    }
    for (const key of [DROP, MANIFEST, 'large/large.parquet', 'copied/small.parquet'])
      expect(await readTags(key), key).toEqual(LABELS.tags);
  });

  test('objects are encrypted with the KMS key whichever way they are written, and come back whole', async () => {
    const store = await open(KMS);
    const keys = await writeAll(store);
    for (const key of keys) {
      const head = await readHead(key);
      expect(head, key).toMatchObject({ ServerSideEncryption: 'aws:kms', SSEKMSKeyId: S3_KMS_KEY });
    }
    await store.download('copied/large.parquet', s3.path('kms'));
    expect(Buffer.compare(await readFile(s3.path('kms')), await readFile(s3.path('large')))).toBe(0);
    expect(await readText(store, 'copied/small.parquet')).toBe('drop');
  });

  test('an object that the bucket encrypts is copied although the job asks for nothing', async () => {
    await (await open(KMS)).put('from', { bytes: Buffer.from('encrypted') });
    const makeScratch = vi.fn(async () => await mkdtemp(s3.path('scratch')));
    const plain = await s3.open({}, { makeScratch });
    // Ceph refuses to copy an encrypted object: its bytes go through this machine, in the folder for that.
    await plain.copy('from', 'to');
    expect(makeScratch).toHaveBeenCalledOnce();
    expect((await readdir(s3.path(''))).filter((name) => name.startsWith('scratch'))).toEqual([]);
    expect(await readText(plain, 'to')).toBe('encrypted');
  });

  test('encryption that the service overlooks is a fault, and nothing new stays in the clear', async () => {
    const store = await open({ encryption: 'sse-s3' });
    const plain = await open({});
    await plain.put('source', { bytes: Buffer.from('source') });
    const fault = { code: 'STORE_FAILED', hint: expect.stringContaining('drop.s3.encryption') };
    await expect(store.put('small', { bytes: Buffer.from('x') })).rejects.toMatchObject(fault);
    await expect(store.putIfAbsent('once', Buffer.from('x'))).rejects.toMatchObject(fault);
    await expect(store.put('large', { path: s3.path('large') })).rejects.toMatchObject(fault);
    await expect(store.copy('source', 'copy')).rejects.toMatchObject(fault);
    const hidden = { kind: 'status', status: 403, body: 'empty' } as const;
    proxy.follow([{ on: ({ method, path }) => method === 'HEAD' && path.includes('unseen'), fault: hidden }]);
    await expect(store.put('unseen', { bytes: Buffer.from('x') })).rejects.toMatchObject({ code: 'STORE_FAILED' });
    proxy.follow([]);
    for (const key of ['small', 'once', 'large', 'unseen']) expect(await plain.head(key), key).toBeUndefined();
    // It may have replaced the only copy.
    expect(await plain.head('copy')).toMatchObject({ sizeBytes: 6 });
    for (const key of ['small', 'once', 'large', 'copy'])
      expect(findMaking(key)?.headers['x-amz-server-side-encryption'], key).toBe('AES256');
  });

  test('SSE-S3 is asked for in every way of writing, and taken when the service says so', async () => {
    answerAll({ kind: 'header', name: 'x-amz-server-side-encryption', value: 'AES256' });
    const keys = await writeAll(await open({ encryption: 'sse-s3' }));
    for (const key of keys) expect(findMaking(key)?.headers['x-amz-server-side-encryption'], key).toBe('AES256');
  });

  test('a copy whose encryption only a look at it names, as in MinIO, is taken', async () => {
    const plain = await open({});
    await plain.put('source', { bytes: Buffer.from('source') });
    const store = await open({ encryption: 'sse-s3' });
    const fault = { kind: 'header', name: 'x-amz-server-side-encryption', value: 'AES256' } as const;
    proxy.follow([{ on: ({ method }) => method === 'HEAD', fault }]);
    expect(await store.copy('source', 'copy')).toEqual({ key: 'copy', sizeBytes: 6 });
  });

  test('every body goes with its MD5, and with nothing else when the job says nothing', async () => {
    await writeAll(await open({}));
    const bodies = requests.filter(({ method, headers }) => method === 'PUT' && !headers['x-amz-copy-source']);
    expect(bodies.map(({ headers }) => headers['content-md5'])).toEqual(bodies.map(() => expect.stringMatching(/==$/)));
    expect(bodies).toHaveLength(3);
    const names = requests.flatMap(({ headers }) => Object.keys(headers)).join(' ');
    expect(names).not.toMatch(/x-amz-(storage-class|tagging|acl|server-side)/);
  });

  test('a storage class that the service lacks is a fault that names the setting', async () => {
    const store = await open({ storageClass: 'NO_SUCH_CLASS' });
    await expect(store.put(DROP, { bytes: Buffer.from('x') })).rejects.toMatchObject({
      code: 'STORE_FAILED',
      hint: expect.stringContaining('drop.s3.storage_class'),
    });
  });
});
