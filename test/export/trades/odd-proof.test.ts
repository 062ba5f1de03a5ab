/**
 * What a recount proves beside cells that cannot be compared, and beside pages whose first counts are lost: an odd value
 * hides no correction of other rows, and a manifest claims no more than was compared. Rows that move without such trouble are in
 * `moving.slow.test.ts`.
 */
import { rm, writeFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { createFlowJob, expectSameGroups, useDateSource } from '../../support/date-source.ts';
import { createEngineSource, type EngineSource, fillTrades, isCount, isPage } from '../../support/engine-source.ts';
import { createJob, createTrades, DATE, type TradeRow } from '../../support/trades.ts';

const ROWS = 1_000;
const LIMIT = 400;
const NOW = Date.parse('2026-11-20T03:00:00Z');
const job = createJob();
const table = await useDateSource(NOW);
const { engine } = table;

async function fill(order: 'time' | 'symbol', change: (k: number) => TradeRow): Promise<void> {
  Object.assign(table.limits, { axis: order, rowLimit: LIMIT });
  await fillTrades(engine, createTrades(ROWS, change), order);
}

/** The same source, in whose pages one row has a null. */
function withNull(source: EngineSource, id: string, column: string): EngineSource {
  return {
    ...source,
    ask: async (sql, options) => {
      const page = await source.ask(sql, options);
      if (!isPage(sql)) return page;
      const rows = JSON.parse(Buffer.from(page.data).toString('utf8')) as TradeRow[];
      const sent = rows.map((row) => (row['id'] === id ? { ...row, [column]: null } : row));
      return { ...page, data: Buffer.from(JSON.stringify(sent)), firstRow: sent[0] };
    },
  };
}

/** Corrects rows once, after the last page, and leaves their update marks as they are. */
function correcting(where: () => string): EngineSource {
  let isDone = false;
  const source: EngineSource = createEngineSource(engine, {
    ...{ rowLimit: LIMIT, meta: true, nowMs: NOW },
    before: async (sql) => {
      if (isDone || !isCount(sql) || source.pages().length === 0) return;
      isDone = true;
      await engine.command(
        `ALTER TABLE RawOptionTrades UPDATE premium = premium + 1000 WHERE ${where()} SETTINGS mutations_sync = 2`,
      );
    },
  });
  return source;
}

const sumOf = async (from: string, where: string) =>
  await engine.rows(`SELECT count() AS n, sum(premium) AS premium FROM ${from} WHERE ${where}`);

describe('beside a row with a null that the contract has not', () => {
  const spy = (k: number): TradeRow => (k % 2 ? { symbol: 'SPY' } : {});
  const oddRow = async () => {
    const [row] = await engine.rows<{ id: string; time: string }>(
      "SELECT id, time FROM RawOptionTrades WHERE symbol = 'SPY' ORDER BY time, id LIMIT 1",
    );
    return row ?? { id: '', time: '' };
  };

  it.each(['time', 'symbol'] as const)(
    'along %s, corrections of all rows are sealed: it is no column that is compared',
    async (order) => {
      await fill(order, spy);
      const { id, time } = await oddRow();
      const source = correcting(() => (order === 'symbol' ? "symbol = 'SPY'" : `time = '${time}'`));
      const { stage, completed } = await table.prove(withNull(source, id, 'bid'), job);
      expect(await sumOf(stage.table, 'true')).toEqual(await sumOf('RawOptionTrades', 'true'));
      expect(completed.recount?.proved).toBe('ids and values');
    },
  );

  it('in a column that is compared, corrections of its other seconds are sealed, and the values of its own are not claimed', async () => {
    await fill('symbol', spy);
    const { id, time } = await oddRow();
    const source = correcting(() => "symbol = 'SPY'");
    const { stage, completed } = await table.prove(withNull(source, id, 'sentiment'), job);
    const elsewhere = `time != '${time}'`;
    expect(await sumOf(stage.table, elsewhere)).toEqual(await sumOf('RawOptionTrades', elsewhere));
    expect(completed.recount?.proved).toBe('ids');
  });
});

const flow = createFlowJob();

it.each([
  { name: 'are gone', spoil: (path: string) => rm(path) },
  { name: 'cannot be read', spoil: (path: string) => writeFile(path, '[{"second": 3420') },
])(
  'groups that an earlier run staged are asked for again when the counts from before them $name',
  async ({ spoil }) => {
    await fill('time', (k) => ({ time: `${DATE} 09:${30 + (k % 20)}:00` }));
    Object.assign(table.limits, { rowLimit: 100 });
    let pages = 0;
    let isKilled = true;
    const source = createEngineSource(engine, {
      ...{ rowLimit: 100, meta: true, nowMs: NOW },
      before: (sql) => {
        pages += isPage(sql) ? 1 : 0;
        if (isKilled && pages > 4) throw new RangeError('killed');
      },
    });
    await expect(table.prove(source, flow)).rejects.toThrow('killed');
    isKilled = false;
    await spoil(table.countsPath);
    await engine.command(
      'ALTER TABLE RawOptionTrades UPDATE premium = premium + 1000 WHERE 1 SETTINGS mutations_sync = 2',
    );
    const { stage } = await table.prove(source, flow);
    await expectSameGroups(engine, stage);
  },
);
