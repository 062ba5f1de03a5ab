/** The bounded version of `npm run server-drop-chaos`. */
import { expect, it } from 'vitest';
import { startS3, useS3Credentials } from '../support/s3-server.ts';
import { describeServerDrop, runServerDropChaos } from './server-drops.ts';

const RUNS = 2;
const SEED = 11_000;

const { server, reason } = await startS3();
if (server) useS3Credentials(server);

// Skipped only where no S3 server can be started: not root, or not Debian. CI throws instead.
it.skipIf(server === undefined)(
  `drops that a server writes survive faults${reason === undefined ? '' : ` (${reason})`}`,
  async () => {
    if (server === undefined) return;
    const note = (result: Parameters<typeof describeServerDrop>[0]) => console.log(describeServerDrop(result));
    const results = await runServerDropChaos(server, { runs: RUNS, seed: SEED }, note);
    expect(results.filter(({ problems }) => problems.length > 0)).toEqual([]);
  },
  300_000,
);
