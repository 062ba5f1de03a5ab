/**
 * Where a chaos run writes: a directory that may be unmounted, or a real S3 server behind a proxy that breaks answers or
 * connections, or lies. It tells what is there in the end, and takes it away again.
 */
import { watch } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DeleteObjectCommand, GetObjectCommand, paginateListObjectsV2, S3Client } from '@aws-sdk/client-s3';
import { describeFault, startFaultProxy } from '../support/fault-proxy.ts';
import { listFiles } from '../support/flowdrop.ts';
import { type S3Server, s3Environment } from '../support/s3-server.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { Happening } from './happening.ts';
import type { Scenario } from './scenario.ts';
import { NO_TROUBLE, type Trouble } from './trouble.ts';

export interface Place {
  /** `drop.to` of the job. */
  readonly to: string;
  readonly env: Readonly<Record<string, string>>;
  /** Kinds of the faults that were done, one entry each. */
  readonly faults: () => readonly string[];
  /** What happens to requests from now on. */
  trouble(trouble: Trouble): void;
  /** Calls once, at the `count`th request, or change of the folder, from now. @returns a way to stop listening */
  onOperation(count: number, act: () => void): () => void;
  /**
   * Puts an empty folder in the place of the store, as an unmounted disk leaves its mount point. Nothing happens to one
   * that nothing is in yet but what it is known by: a store may have any disk until it is a store.
   */
  unmount(): Promise<void>;
  /** The store is back. @returns names of what was written into the empty folder meanwhile */
  mount(): Promise<readonly string[]>;
  /** Takes an object away. */
  remove(key: string): Promise<void>;
  /** Names of everything that is there, temporary files included. */
  list(): Promise<readonly string[]>;
  /** Brings an object into a local file. @returns the file's path */
  fetch(key: string): Promise<string>;
  close(): Promise<void>;
}

/** A file on its way to its name. */
export const TEMPORARY = /(^|\/)\.flowdrop-[0-9a-f]{16}\.tmp$/;
/** What a store is known by. */
export const IDENTITY = /^_flowdrop\//;

export async function openPlace(
  scenario: Scenario,
  cwd: string,
  s3: S3Server | undefined,
  run: string,
): Promise<Place> {
  if (scenario.store === 'directory') return await openDirectory(join(cwd, 'drops'));
  if (s3 === undefined) throw new Error(`${scenario.name} needs an S3 server`);
  return await openS3(s3, `chaos/${run}`, cwd, scenario.always === 's3-bytes');
}

async function openDirectory(folder: string): Promise<Place> {
  await mkdir(folder, { recursive: true });
  const away = `${folder}.away`;
  let isAway = false;
  let unmounts = 0;
  return {
    to: folder,
    env: {},
    faults: () => Array.from({ length: unmounts }, () => 'unmounted'),
    trouble: () => undefined,
    onOperation(count, act) {
      const changes = new Happening();
      changes.on(count, act);
      const watcher = watch(folder, { recursive: true }, () => changes.note());
      // What vanishes while it is being watched is no failure: files are renamed and removed all the time.
      watcher.on('error', () => {});
      return () => watcher.close();
    },
    async unmount() {
      const names = await listFiles(folder);
      if (isAway || names.length === 0 || names.every((name) => TEMPORARY.test(name))) return;
      // While it gets what it is known by, which takes milliseconds, it is nobody's store yet.
      if (names.every((name) => IDENTITY.test(name)) && names.some((name) => TEMPORARY.test(name))) return;
      isAway = true;
      unmounts += 1;
      await rename(folder, away);
      // A worker may make the folder anew in the moment between.
      await mkdir(folder, { recursive: true });
    },
    async mount() {
      if (!isAway) return [];
      isAway = false;
      const written = await listFiles(folder);
      await rm(folder, { recursive: true });
      await rename(away, folder);
      return written;
    },
    remove: (key) => rm(join(folder, key)),
    list: () => listFiles(folder),
    fetch: async (key) => join(folder, key),
    close: async () => undefined,
  };
}

async function openS3(server: S3Server, prefix: string, cwd: string, breaksBytes: boolean): Promise<Place> {
  const operations = new Happening();
  const client = new S3Client({
    endpoint: server.endpoint,
    region: server.region,
    forcePathStyle: server.pathStyle,
    credentials: { accessKeyId: server.accessKeyId, secretAccessKey: server.secretAccessKey },
  });
  const bucket = { Bucket: server.bucket };
  const http = await startFaultProxy(server.endpoint);
  const follow = ({ s3 }: Trouble, first = http.requests) =>
    http.follow((request) => {
      operations.note();
      return s3(request.number - first, request);
    });
  follow(NO_TROUBLE);
  const { hostname, port } = new URL(http.url);
  const tcp = await startTcpProxy({ host: hostname, port: Number(port) });
  const listObjects = async () => {
    const keys: string[] = [];
    for await (const { Contents } of paginateListObjectsV2({ client }, { ...bucket, Prefix: `${prefix}/` })) {
      keys.push(...(Contents ?? []).map(({ Key = '' }) => Key));
    }
    return keys;
  };
  return {
    to: `s3://${server.bucket}/${prefix}`,
    env: s3Environment({ ...server, endpoint: breaksBytes ? `http://127.0.0.1:${tcp.port}` : http.url }),
    faults: () => [
      ...http.injected.map(({ fault }) => `s3 ${describeFault(fault)}`),
      ...Array.from({ length: tcp.faults }, () => 's3 broken connection'),
    ],
    trouble(next) {
      follow(next);
      tcp.heal();
      if (next.bytes) tcp.breakWith({ ...next.bytes, lasting: false });
    },
    onOperation: (count, act) => operations.on(count, act),
    unmount: async () => undefined,
    mount: async () => [],
    async remove(key) {
      await client.send(new DeleteObjectCommand({ ...bucket, Key: `${prefix}/${key}` }));
    },
    async list() {
      return (await listObjects()).map((key) => key.slice(prefix.length + 1)).sort();
    },
    async fetch(key) {
      const { Body } = await client.send(new GetObjectCommand({ ...bucket, Key: `${prefix}/${key}` }));
      const path = join(cwd, key.replaceAll('/', '_'));
      await writeFile(path, (await Body?.transformToByteArray()) ?? new Uint8Array());
      return path;
    },
    async close() {
      for (const Key of await listObjects()) await client.send(new DeleteObjectCommand({ ...bucket, Key }));
      client.destroy();
      await tcp.close();
      await http.close();
    },
  };
}
