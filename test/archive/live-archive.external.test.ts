/** Reading an S3 store while its dates are restated; see `live-suite.ts`. Needs a real S3 server. */
import { randomUUID } from 'node:crypto';
import { test } from 'vitest';
import { openS3Store } from '../../src/store/s3.ts';
import { readS3Access } from '../../src/store/s3-client.ts';
import { startS3, useS3Credentials } from '../support/s3-server.ts';
import { describeRestatements, type LivePlace } from './live-suite.ts';

const { server, reason } = await startS3();
if (server) useS3Credentials(server);

async function openPlace(): Promise<LivePlace> {
  if (server === undefined) throw new Error(reason);
  const { bucket, endpoint, pathStyle, region } = server;
  const options = { bucket, prefix: `live/${randomUUID()}`, endpoint, pathStyle, region };
  return {
    isTable: false,
    open: () => openS3Store(options),
    access: await readS3Access(options),
    remove: async () => {
      const store = await openS3Store(options);
      for await (const { key } of store.list('')) await store.remove(key);
      await store.close();
    },
  };
}

// Skipped where no S3 server can be started: not root, or not Debian. CI throws instead of skipping.
if (server) describeRestatements({ S3: openPlace });
else test.skip('an S3 store is read while its dates are restated', () => {});
