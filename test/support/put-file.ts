/**
 * A process of its own that puts a file into a store, for tests that kill or limit it:
 * `put-file.ts <directory, or options of an S3 store as JSON> <key> <path>`.
 */
import { isFault } from '../../src/core/errors.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { openS3Store } from '../../src/store/s3.ts';
import type { S3Options } from '../../src/store/s3-client.ts';

const [place = '', key = '', path = ''] = process.argv.slice(2);
// The test that starts this writes the options.
const store = await (place.startsWith('{') ? openS3Store(JSON.parse(place) as S3Options) : openDirectoryStore(place));
try {
  await store.put(key, { path });
} catch (error) {
  if (!isFault(error)) throw error;
  process.stderr.write(`${error.code}: ${error.message}\n${error.hint ?? ''}\n`);
  process.exitCode = 1;
}
await store.close();
