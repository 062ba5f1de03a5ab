/** Memory as a test can compare it: what nobody refers to any more is not counted. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void; // The flag above gives new contexts this function.

/** What the process holds once garbage is gone, bytes. */
export async function measureHeld(): Promise<{ readonly rss: number; readonly arrayBuffers: number }> {
  // Buffers go in the turn after their owners.
  for (let round = 0; round < 2; round += 1) {
    collect();
    await new Promise(setImmediate);
  }
  const { rss, arrayBuffers } = process.memoryUsage();
  return { rss, arrayBuffers };
}
