/** docs/data.md against the product: the page is what the tables of columns say. Its queries run in `recipes.slow.test.ts`. */
import { expect, it } from 'vitest';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { SNAPSHOT_COLUMNS } from '../../src/job/snapshot-columns.ts';
import { buildDataPage } from './data-page.ts';

// `npx vitest run test/docs/data.test.ts -u` writes it again.
it('the data dictionary is what the tables of columns say', async () => {
  await expect(buildDataPage()).toMatchFileSnapshot('../../docs/data.md');
});

it('every column that is a number has a unit, or says that it has none', () => {
  const columns = [
    ...TRADE_COLUMNS.map(({ drop: type, ...column }) => ({ ...column, type })),
    ...Object.values(SNAPSHOT_COLUMNS).flat(),
  ];
  const bare = columns.filter(({ type, unit }) => ['int32', 'int64', 'double'].includes(type) && unit === undefined);
  expect(bare.map(({ name }) => name)).toEqual([]);
});
