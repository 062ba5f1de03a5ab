/** Child process of `stage.test.ts`: stages pages of 2,000 rows until it is killed. Argument: the engine's data path. */
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { openStage } from '../../src/stage/stage.ts';
import { createJob, createPage, createTrade, DATE, windowAt } from '../support/trades.ts';

const PAGE_ROWS = 2000;
const engine = await openEmbeddedEngine({ path: process.argv[2] ?? '' });
const stage = await openStage(engine, createJob(), DATE, '');
process.stdout.write('open\n');
for (let page = 0; ; page += 1) {
  const rows = Array.from({ length: PAGE_ROWS }, (_, i) => createTrade(page * PAGE_ROWS + i));
  await stage.put(windowAt(page), createPage(rows));
  process.stdout.write(`${page}\n`);
}
