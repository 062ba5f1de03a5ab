/**
 * Rights of a store that are missing one by one, stores that are not fit, and disks without room or rights. The command,
 * and the rest of what it looks at, is in `test/cli/doctor/doctor.slow.test.ts`.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteBucketPolicyCommand,
  DeleteObjectCommand,
  ListObjectsV2Command,
  PutBucketPolicyCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { checkRoom, checkStateDirectory, checkStore, type Finding } from '../../../src/cli/doctor/checks.ts';
import { removeEmptyFolders } from '../../../src/core/atomic-file.ts';
import { openS3Store } from '../../../src/store/s3.ts';
import { useCleanups } from '../../support/cleanups.ts';
import { startS3, useS3Credentials } from '../../support/s3-server.ts';
import { findMountObstacle, mountSmallDisk, type SmallDisk } from '../../support/small-disk.ts';

const { server } = await startS3();
const mountObstacle = await findMountObstacle();

let folder: string;
const cleanups = useCleanups();
beforeAll(async () => {
  folder = await cleanups.folder();
});

const failed = (findings: readonly Finding[]) =>
  findings.filter(({ status }) => status === 'fail').map(({ check }) => check);
const find = (findings: readonly Finding[], check: string) => findings.find((finding) => finding.check === check);

// Skipped where no S3 server can be started: not root, or not Debian. CI throws instead of skipping.
describe.skipIf(server === undefined)('an S3 store', () => {
  /** Of this test alone: its policy takes rights away. */
  const bucket = `flowdrop-doctor-${randomUUID().slice(0, 8)}`;
  const options = () => {
    if (server === undefined) throw new Error('skipped');
    const { endpoint, pathStyle, region } = server;
    return { bucket, prefix: 'drops', endpoint, pathStyle, region };
  };
  let client: S3Client;

  beforeAll(async () => {
    if (server === undefined) return;
    useS3Credentials(server);
    client = new S3Client({ endpoint: server.endpoint, forcePathStyle: server.pathStyle, region: server.region });
    await client.send(new CreateBucketCommand({ Bucket: bucket }));
  });
  afterEach(async () => {
    await client.send(new DeleteBucketPolicyCommand({ Bucket: bucket }));
    for (const Key of await listKeys()) await client.send(new DeleteObjectCommand({ Bucket: bucket, Key }));
  });
  afterAll(async () => {
    if (server === undefined) return;
    await client.send(new DeleteBucketCommand({ Bucket: bucket }));
    client.destroy();
  });

  async function listKeys(): Promise<string[]> {
    const { Contents } = await client.send(new ListObjectsV2Command({ Bucket: bucket }));
    return (Contents ?? []).map(({ Key = '' }) => Key);
  }

  async function deny(...actions: readonly string[]): Promise<void> {
    const Resource = [`arn:aws:s3:::${bucket}`, `arn:aws:s3:::${bucket}/*`];
    const Statement = [{ Effect: 'Deny', Principal: '*', Action: actions, Resource }];
    const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
    await client.send(new PutBucketPolicyCommand({ Bucket: bucket, Policy }));
  }

  async function examine(): Promise<readonly Finding[]> {
    const store = await openS3Store(options());
    try {
      return await checkStore(store);
    } finally {
      await store.close();
    }
  }

  test('with every right passes, and is as empty as before', async () => {
    const findings = await examine();
    expect(findings.map(({ check, status }) => [check, status])).toEqual(
      ['list', 'put', 'get', 'conditional put', 'copy', 'delete'].map((right) => [`store: ${right}`, 'ok']),
    );
    expect(await listKeys()).toEqual([]);
  });

  test.each([
    { right: 's3:ListBucket', fails: ['store: list'] },
    // What is written is looked at, so without this right nothing can be written either.
    { right: 's3:GetObject', fails: ['store: put', 'store: get', 'store: conditional put', 'store: copy'] },
    { right: 's3:PutObject', fails: ['store: put', 'store: conditional put', 'store: copy'] },
  ])('without $right fails in $fails and leaves nothing', async ({ right, fails }) => {
    await deny(right);
    const findings = await examine();
    expect(failed(findings)).toEqual(fails);
    expect(find(findings, fails[0] ?? '')).toMatchObject({
      seen: expect.stringContaining('AccessDenied'),
      next: expect.stringContaining('The credentials lack a permission'),
    });
    await client.send(new DeleteBucketPolicyCommand({ Bucket: bucket }));
    expect(await listKeys()).toEqual([]);
  });

  test('without the right to delete names what it had to leave', async () => {
    await deny('s3:DeleteObject');
    const findings = await examine();
    expect(failed(findings)).toEqual(['store: delete']);
    await client.send(new DeleteBucketPolicyCommand({ Bucket: bucket }));
    const left = await listKeys();
    expect(left).toHaveLength(3);
    for (const key of left) expect(find(findings, 'store: delete')?.next).toContain(key.replace('drops/', ''));
  });

  test('that lets nobody in is told once, not for every right', async () => {
    await deny('s3:ListBucket', 's3:PutObject', 's3:GetObject', 's3:DeleteObject');
    expect(failed(await examine())).toEqual(['store: list', 'store: put']);
  });
});

describe('the state directory', () => {
  test('that is not there is not made', async () => {
    const path = join(folder, 'deep', 'down', 'state');
    const findings = await checkStateDirectory(path);
    expect(findings.map(({ check, status }) => [check, status])).toEqual([['state directory', 'ok']]);
    expect(await readdir(folder)).not.toContain('deep');
  });

  test('of a trial is removed with its empty parents only', async () => {
    await mkdir(join(folder, 'kept', 'empty'), { recursive: true });
    await writeFile(join(folder, 'kept', 'file'), '');
    await removeEmptyFolders(join(folder, 'kept', 'empty'), folder);
    expect(await readdir(join(folder, 'kept'))).toEqual(['file']);
  });

  // Skipped where this user may not mount a small disk.
  describe.skipIf(mountObstacle !== undefined)('on a small disk', () => {
    let disk: SmallDisk;
    let place: string;
    beforeEach(async () => {
      place = join(folder, `disk-${randomUUID()}`);
      disk = await mountSmallDisk(place, 64 << 20);
    });
    afterEach(async () => await disk.remove());

    test('has no room for a night, whatever is written there', async () => {
      const places = [
        { what: 'drops', path: join(place, 'drops', 'later'), bytes: 50_000_000 },
        { what: 'state', path: place, bytes: 30_000_000 },
        { what: 'mail', path: folder, bytes: 1 },
      ];
      const findings = await checkRoom(places, false);
      expect(findings.map(({ status }) => status).sort()).toEqual(['fail', 'ok']);
      expect(findings.find(({ status }) => status === 'fail')).toMatchObject({
        seen: expect.stringMatching(/^67\.1 MB free for drops .*, state .*; a night needs about 80\.0 MB$/),
        next: expect.stringMatching(/^Free 12\.9 MB on this disk, or use another one: `drop\.to`/),
      });
    });

    test('that is read-only fails, with what to do', async () => {
      expect(await disk.makeReadOnly()).toBe(true);
      const findings = await checkStateDirectory(join(place, 'state'));
      expect(failed(findings)).toEqual(['state directory']);
      expect(findings[0]?.next).toContain('FLOWDROP_STATE_DIR');
    });
  });
});
