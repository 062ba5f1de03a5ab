/**
 * `npm run simulate [-- --runs N] [--seed S]`: whole lives of a dataset, one after the other in this process, each drawn from
 * a seed of its own. `--life SEED` prints the story of one. With `--evenings own-day` or `--evenings session` the market trades
 * all segments, and the source dates evenings so.
 */
import { parseArgs } from 'node:util';
import { parseCount, watchStop } from '../support/program.ts';
import type { Evenings } from './draw.ts';
import { simulateLife } from './simulate.ts';
import { createTotals } from './tally.ts';
import { World } from './world.ts';

const DEFAULT_RUNS = 300;
const SEEDS = 1_000_000;
/** How often the totals so far are printed, in lives. */
const EVERY = 100;

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: String(DEFAULT_RUNS) },
    seed: { type: 'string', default: String(Date.now() % SEEDS) },
    life: { type: 'string' },
    evenings: { type: 'string' },
  },
});
const evenings = readEvenings(values.evenings);
const isOne = values.life !== undefined;
const first = isOne ? parseCount('--life', values.life) : parseCount('--seed', values.seed);
const count = isOne ? 1 : parseCount('--runs', values.runs);
const isStopping = watchStop();
console.log(`simulate: ${count} lives, seeds ${first} to ${first + count - 1}`);
const world = await World.open();
const totals = createTotals();
for (let done = 0; done < count && !isStopping(); done += 1) {
  const result = await simulateLife(world, first + done, undefined, evenings);
  totals.add(result);
  if (isOne || result.problems.length > 0) console.log(result.story.join('\n'));
  for (const problem of result.problems) console.log(`life ${result.seed}: ${problem}`);
  if ((done + 1) % EVERY === 0 && done + 1 < count) console.log(totals.describe());
}
console.log(totals.describe());
await world.close();
process.exitCode = totals.failed.length === 0 ? 0 : 1;

function readEvenings(text: string | undefined): Evenings | undefined {
  if (text === undefined || text === 'own-day' || text === 'session') return text;
  throw new RangeError(`--evenings is ${JSON.stringify(text)}; allowed are own-day and session`);
}
