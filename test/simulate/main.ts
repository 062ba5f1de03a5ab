/**
 * `npm run simulate [-- --runs N] [--seed S]`: whole lives of a dataset, one after the other in this process, each drawn from
 * a seed of its own. `--life SEED` prints the story of one.
 */
import { parseArgs } from 'node:util';
import { simulateLife } from './simulate.ts';
import { World } from './world.ts';

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '300' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    life: { type: 'string' },
  },
});
const world = await World.open();
const first = Number(values.life ?? values.seed);
const count = values.life === undefined ? Number(values.runs) : 1;
for (let seed = first; seed < first + count; seed += 1) {
  const result = await simulateLife(world, seed);
  if (values.life !== undefined || result.problems.length > 0) console.log(result.story.join('\n'));
  console.log(
    seed,
    Math.round(result.ms),
    result.problems,
    result.equal,
    result.stale,
    result.lost,
    result.mails,
    result.runs.length,
  );
}
await world.close();
