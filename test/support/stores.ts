/** Both implementations of the store, for tests of what is kept in one: a directory, and a real S3 server. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { openS3Store } from '../../src/store/s3.ts';
import type { Store } from '../../src/store/store.ts';
import { startS3, useS3Credentials } from './s3-server.ts';

export interface StoreKind {
  readonly name: string;
  /** Where no S3 server can be started: not root, or not Debian. CI throws instead. */
  readonly isMissing: boolean;
  /** A store of its own; directories lie below `base`. */
  open(base: string): Promise<Store>;
}

const s3 = await startS3();

export const STORES: readonly StoreKind[] = [
  {
    name: 'a directory',
    isMissing: false,
    open: async (base) => await openDirectoryStore(join(base, `store-${randomUUID()}`)),
  },
  {
    name: 'S3',
    isMissing: s3.server === undefined,
    open: async () => {
      if (s3.server === undefined) throw new Error(s3.reason);
      useS3Credentials(s3.server);
      const { bucket, endpoint, pathStyle, region } = s3.server;
      return await openS3Store({ bucket, prefix: `stores/${randomUUID()}`, endpoint, pathStyle, region });
    },
  },
];
