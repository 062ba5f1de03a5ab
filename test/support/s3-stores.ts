/** S3 stores for the tests of one file: each test has a prefix of its own, and what it opened is closed after it. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { S3Client } from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { openS3Store, type S3Surroundings } from '../../src/store/s3.ts';
import type { S3Options } from '../../src/store/s3-client.ts';
import type { Store } from '../../src/store/store.ts';
import { type S3Server, useS3Credentials } from './s3-server.ts';

/** Call it in `describe`, before hooks of its own. @param name of prefixes and the folder */
export function useS3Stores(server: S3Server | undefined, name: string) {
  const opened: Store[] = [];
  let base = '';
  let prefix = '';
  let client: S3Client | undefined;
  const there = <T>(thing: T | undefined): T => {
    if (thing === undefined) throw new Error('skipped');
    return thing;
  };

  beforeAll(async () => {
    if (server === undefined) return;
    useS3Credentials(server);
    base = await mkdtemp(join(tmpdir(), `flowdrop-s3-${name}-`));
    client = new S3Client({ endpoint: server.endpoint, forcePathStyle: server.pathStyle, region: server.region });
  });
  afterAll(async () => {
    client?.destroy();
    if (base) await rm(base, { recursive: true, force: true });
  });
  beforeEach(() => {
    prefix = `${name}/${randomUUID()}`;
  });
  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close();
  });

  const place = (): S3Options => {
    const { bucket, endpoint, pathStyle, region } = there(server);
    return { bucket, prefix, endpoint, pathStyle, region };
  };
  return {
    /** Of a file of the tests. */
    path: (file: string) => join(base, file),
    client: () => there(client),
    address: (key: string) => ({ Bucket: there(server).bucket, Key: `${prefix}/${key}` }),
    async open(options: Partial<S3Options> = {}, surroundings: S3Surroundings = {}) {
      const store = await openS3Store({ ...place(), ...options }, surroundings);
      opened.push(store);
      return store;
    },
  };
}
