/** Tables whose rows a test changes while commands read them through the API; the table and its front are those of chaos. */
import { closeSecond, OPEN_SECOND } from '../../src/calendar/session.ts';
import { formatSecond } from '../../src/calendar/wall-clock.ts';
import { type Front, type FrontOptions, startFront } from '../chaos/front.ts';
import type { TableRow } from '../chaos/rows.ts';
import { ChaosTable, closeTables } from '../chaos/table.ts';
import { type Cleanups, useCleanups } from '../support/cleanups.ts';
import { isPage } from '../support/engine-source.ts';
import { KEY } from '../support/flowdrop.ts';
import { createTrade, type TradeRow } from '../support/trades.ts';

export interface TableFront {
  readonly table: ChaosTable;
  readonly front: Front;
  /** Environment of a worker. */
  readonly env: Readonly<Record<string, string>>;
}

interface Tables extends Cleanups {
  openTable(
    rows: readonly TableRow[],
    options?: Partial<FrontOptions> & { readonly order?: 'time' | 'symbol' },
  ): Promise<TableFront>;
}

/** To be called outside of any test. */
export function useTables(): Tables {
  const kept = useCleanups();
  const { cleanups, keep } = kept;
  // Last, after the tables.
  cleanups.push(closeTables);
  return {
    ...kept,
    async openTable(rows, { order = 'time', ...options } = {}) {
      const table = await ChaosTable.create(order, rows);
      cleanups.push(() => table.drop());
      const front = await keep(startFront({ table, rowLimit: 5_000, isPage, ...options }));
      const at = { FLOWDROP_API_URL: front.url, FLOWDROP_PORTAL_URL: front.url, FLOWDROP_API_KEY: KEY };
      return { table, front, env: { ...at, FLOWDROP_REQUESTS_PER_SECOND: '50' } };
    },
  };
}

/** Row `k` of so many, evenly from the opening to the close of stock options. */
export function createSpreadRow(date: string, k: number, rows: number, changes: TradeRow = {}): TableRow {
  const width = (closeSecond(date, 'equity') - OPEN_SECOND) / rows;
  const time = `${date} ${formatSecond(OPEN_SECOND + Math.floor((k % rows) * width))}`;
  const values = { ...createTrade(k), id: `${date}-${k}`, date, time, ...changes };
  return { id: String(values.id), values };
}
