/**
 * `npm run daemons [-- --ticks N] [--daemons N] [--kills N] [--stops N] [--outages N] [--seed S]`: daemons as processes
 * share a schedule through a real Redis, by a moved clock and with the product's lease. They are killed, idle and in the
 * middle of runs, stopped and started again, Redis is ended under them, and the API keeps a run for longer than a lease. Who ran which tick, what is sealed and what was
 * mailed is counted from outside; the last lines are the tally. It fails on any miss.
 */
import { parseArgs } from 'node:util';
import { setup } from '../support/build.ts';
import { makeFolder } from '../support/flowdrop.ts';
import { startRedis } from '../support/redis-server.ts';
import { liveThroughTicks } from './shared-ticks.ts';
import { countSharedTicks } from './shared-ticks-count.ts';

const { values } = parseArgs({
  options: {
    ticks: { type: 'string', default: '100' },
    daemons: { type: 'string', default: '2' },
    kills: { type: 'string', default: '5' },
    stops: { type: 'string', default: '2' },
    outages: { type: 'string', default: '4' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  },
});
const options = {
  ticks: parseCount('--ticks', values.ticks, 1),
  daemons: parseCount('--daemons', values.daemons, 2),
  kills: parseCount('--kills', values.kills, 0),
  stops: parseCount('--stops', values.stops, 0),
  outages: parseCount('--outages', values.outages, 0),
  seed: parseCount('--seed', values.seed, 0),
};
setup();
const begun = performance.now();
const { server: redis, reason } = await startRedis({ isKept: true });
if (!redis) throw new Error(reason);
const folder = await makeFolder();
try {
  console.log(`daemons: ${JSON.stringify(options)}`);
  const note = (line: string) => console.log(line);
  const stop = new AbortController();
  // The tick that has begun comes to its end, and the tally tells of those that were. Ctrl-C would reach the daemons, too.
  process.on('SIGTERM', () => stop.abort());
  const lived = await liveThroughTicks({ ...options, folder: folder.path, redis, signal: stop.signal, note });
  const { problems, lines } = await countSharedTicks(lived, redis);
  for (const line of lines) console.log(line);
  for (const problem of problems) console.log(`WRONG: ${problem}`);
  console.log(`${problems.length} wrong, ${Math.round((performance.now() - begun) / 1000)} s`);
  process.exitCode = problems.length === 0 ? 0 : 1;
} finally {
  await folder.remove();
  await redis.stop();
}

function parseCount(flag: string, text: string, least: number): number {
  const count = Number(text);
  if (Number.isInteger(count) && count >= least) return count;
  throw new RangeError(`${flag} is ${JSON.stringify(text)}; allowed is a whole number from ${least}`);
}
