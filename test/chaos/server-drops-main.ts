/** `npm run server-drop-chaos [-- --runs N] [--seed S]`: drops that a server writes, under faults; prints each run and a tally. */
import { parseArgs } from 'node:util';
import { setup } from '../support/build.ts';
import { startS3, useS3Credentials } from '../support/s3-server.ts';
import { describeServerDrop, runServerDropChaos } from './server-drops.ts';

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '200' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  },
});
process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';
setup();
const { server, reason } = await startS3();
if (server === undefined) throw new Error(`it needs an S3 server: ${reason}`);
useS3Credentials(server);
const options = { runs: Number(values.runs), seed: Number(values.seed) };
const results = await runServerDropChaos(server, options, (result) => console.log(describeServerDrop(result)));
const faults = results.flatMap((result) => result.faults);
const counts = [...new Set(faults)].sort().map((fault) => `${fault} x${faults.filter((one) => one === fault).length}`);
const failed = results.filter(({ problems }) => problems.length > 0).length;
console.log(`faults: ${counts.join(', ')}`);
console.log(`${results.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
