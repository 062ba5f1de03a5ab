/**
 * `npm run daemons [-- --ticks N] [--kills N] [--seed S]`: two daemons share a schedule through a real Redis, one after
 * the other is killed in the middle of a run and started again, and who ran what is counted. The lease is the product's.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { LEASE_MS } from '../../src/daemon/coordinator.ts';
import { makeFolder } from '../support/flowdrop.ts';
import { startRedis } from '../support/redis-server.ts';
import { runTwoDaemons } from './two-daemons.ts';

const { values } = parseArgs({
  options: {
    ticks: { type: 'string', default: '100' },
    kills: { type: 'string', default: '5' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    'lease-ms': { type: 'string', default: String(LEASE_MS) },
  },
});
const [ticks, kills, seed, leaseMs] = [values.ticks, values.kills, values.seed, values['lease-ms']].map(Number);
const { server, reason } = await startRedis();
if (!server || !ticks || !kills || seed === undefined || !leaseMs) {
  throw new Error(reason ?? '--ticks, --kills, --seed and --lease-ms take numbers');
}
const folder = await makeFolder();
try {
  const file = join(folder.path, 'lines');
  await writeFile(file, '');
  console.log(`daemons: ${ticks} ticks, ${kills} kills, seed ${seed}, lease ${leaseMs} ms`);
  const result = await runTwoDaemons({
    ...{ url: server.url, file, ticks, kills, seed, leaseMs },
    ...{ workSeconds: 2, note: (line: string) => console.log(line) },
  });
  const { lost, doubled, startedTwice, killed, takenOver } = result;
  console.log(`completed once: ${result.completed} of ${result.ticks}; lost ${lost.length}, doubled ${doubled.length}`);
  console.log(`begun twice without a kill: ${startedTwice.length}`);
  console.log(`killed in a run: ${killed.length} ticks; taken over: ${takenOver.length}`);
  console.log(
    `lines by daemon: ${JSON.stringify(result.byDaemon)}; starts by reason: ${JSON.stringify(result.byReason)}`,
  );
  console.log(`faults: ${result.faults.length}`, ...result.faults.slice(0, 3));
  const isRight = lost.length + doubled.length + startedTwice.length === 0 && takenOver.length === killed.length;
  process.exitCode = isRight && killed.length >= kills ? 0 : 1;
} finally {
  await folder.remove();
  await server.stop();
}
