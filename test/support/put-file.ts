/**
 * A process of its own that puts a file into a store in a directory, for tests that kill or limit it:
 * `put-file.ts <directory> <key> <path>`.
 */
import { isFault } from '../../src/core/errors.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';

const [place = '', key = '', path = ''] = process.argv.slice(2);
const store = await openDirectoryStore(place);
try {
  await store.put(key, { path });
} catch (error) {
  if (!isFault(error)) throw error;
  process.stderr.write(`${error.code}: ${error.message}\n${error.hint ?? ''}\n`);
  process.exitCode = 1;
}
await store.close();
