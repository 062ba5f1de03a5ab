/** Reading a directory store while its dates are restated, with and without a table; see `live-suite.ts`. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { describeRestatements, type LivePlace } from './live-suite.ts';

async function openPlace(isTable: boolean): Promise<LivePlace> {
  const path = await mkdtemp(join(tmpdir(), 'flowdrop-live-'));
  return {
    isTable,
    open: () => openDirectoryStore(path),
    access: { kind: 'directory', path },
    remove: () => rm(path, { recursive: true, force: true }),
  };
}

describeRestatements({
  'a directory': () => openPlace(false),
  'a directory with a table': () => openPlace(true),
});
