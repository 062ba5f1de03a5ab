/**
 * The market-structure drop's own exposure beside ours: the difference, and what a reader is told when it is large. The
 * drops are Parquet files of the columns that the job `api: market-structure` seals; our numbers are in `exposure.test.ts`.
 */
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { quoteString } from '../../src/engine/literal.ts';
import { SNAPSHOT_COLUMNS } from '../../src/job/snapshot-columns.ts';
import type { MarketStructureGex } from '../../src/report/exposure-model.ts';
import { compareStructure } from '../../src/report/query/exposure.ts';
import { createTrade, measureExposure, useDrops } from './drop-file.ts';

const DATE = '2026-11-19';
const SPOT = 500;
/** One call of gamma 0.02 and one put of gamma 0.01, 1,000 contracts each, at 500. */
const CALL_GEX = 0.02 * 1000 * 100 * SPOT ** 2 * 0.01;
const PUT_GEX = -CALL_GEX / 2;

interface Snapshot {
  readonly symbol: string;
  readonly spot: number | null;
  readonly call_gex: number | null;
  readonly put_gex: number | null;
  readonly intraday_gex_as_of: string | null;
}

const SNAPSHOT: Snapshot = {
  symbol: 'SPY',
  spot: SPOT,
  call_gex: CALL_GEX,
  put_gex: PUT_GEX,
  intraday_gex_as_of: `${DATE} 20:46:30`,
};

const drops = useDrops();
let tradesPath: string;
let files = 0;

beforeAll(async () => {
  const call = createTrade({ gamma: 0.02, oi: 1000, underlying_price: SPOT });
  const put = { ...call, id: '2', put_call: 'PUT', option_symbol: 'P', gamma: 0.01 };
  const dark = { ...call, id: '3', symbol: 'DARK', underlying_price: 0 };
  tradesPath = (await drops.write([call, put, dark])).path;
});

async function compare(snapshots: readonly Snapshot[], symbol = 'SPY'): Promise<MarketStructureGex | null | undefined> {
  return (await expose(await writeStructure(snapshots))).focus.find((own) => own.symbol === symbol)?.marketStructure;
}

async function expose(marketStructure: string | null) {
  const options = { date: DATE, focus: ['SPY', 'DARK'], marketStructure, chain: null };
  return await measureExposure(drops.engine, tradesPath, options);
}

/** A drop with all columns of the job, those that no number comes from null or empty. */
async function writeStructure(snapshots: readonly Snapshot[]): Promise<string> {
  files += 1;
  const path = join(drops.folder, `structure-${files}.parquet`);
  const types = {
    string: 'String',
    int64: 'Int64',
    int32: 'Int32',
    double: 'Float64',
    date: 'Date32',
    instant: "DateTime64(3, 'UTC')",
    wall: "DateTime64(3, 'UTC')",
  };
  const columns = SNAPSHOT_COLUMNS['market-structure'].map(
    ({ name, type, nullable }) => `${name} ${nullable ? `Nullable(${types[type]})` : types[type]}`,
  );
  // The engine makes no column of an empty text: one row too many, and a limit.
  const text = [...snapshots, SNAPSHOT].map((snapshot) => JSON.stringify({ date: DATE, ...snapshot })).join('\n');
  await drops.engine.command(
    `INSERT INTO FUNCTION file(${quoteString(path)}, Parquet)
     SELECT * FROM format(JSONEachRow, ${quoteString(columns.join(', '))}, ${quoteString(text)}) LIMIT ${snapshots.length}`,
  );
  return path;
}

describe('market structure', () => {
  it('that agrees is shown without an explanation', async () => {
    expect(await compare([SNAPSHOT])).toEqual({ intradayGex: CALL_GEX + PUT_GEX, difference: 0, explanation: '' });
    const near = await compare([{ ...SNAPSHOT, call_gex: CALL_GEX * 1.1 }]);
    expect(near?.difference).toBeCloseTo(-0.1 / 0.6, 9);
    expect(near?.explanation).toBe('');
  });

  it('that differs by more than a quarter is explained by the series that traded, and by its time', async () => {
    const far = await compare([{ ...SNAPSHOT, call_gex: CALL_GEX * 2 }]);
    expect(far?.difference).toBeCloseTo(-1 / 1.5, 9);
    expect(far?.explanation).toBe(
      "Ours has only the 2 series that traded and the session's last values, theirs the full chain as of 20:46 UTC.",
    );
  });

  it('beside a whole chain does not say that ours is of traded series', () => {
    const sums = { callGex: 2e6, putGex: -1e6, netGex: 1e6, callDex: 0, putDex: 0, netDex: 0 };
    const after = { netGexAfter: 1e6, netDexAfter: 0, endedContracts: 0 };
    const counts = { contracts: 10_000, adjustedContracts: 0, unknownContracts: 0, ...after };
    const ours = { symbol: 'SPY', spot: SPOT, isWholeChain: true, ...sums, ...counts };
    const theirs = {
      ...{ symbol: 'SPY', intradayGex: 3e6, difference: -2 / 3 },
      ...{ theirSpot: SPOT, clock: '20:46' },
    };
    expect(compareStructure(ours, theirs).explanation).toBe(
      "Ours is of the chain at the session's last price, theirs of the full chain as of 20:46 UTC.",
    );
  });

  it('names another price of the underlying', async () => {
    const far = await compare([{ ...SNAPSHOT, spot: 480.25, call_gex: CALL_GEX * 2, intraday_gex_as_of: null }]);
    expect(far?.explanation).toBe(
      "Theirs is at a price of 480.25, ours at 500.00; ours has only the 2 series that traded and the session's last values, theirs the full chain.",
    );
  });

  it('is the newest summary of the symbol', async () => {
    const newer = { ...SNAPSHOT, call_gex: 9e9, intraday_gex_as_of: `${DATE} 20:50:00` };
    const both = await compare([SNAPSHOT, newer, { ...SNAPSHOT, call_gex: 8e9, intraday_gex_as_of: null }]);
    expect(both?.intradayGex).toBe(9e9 + PUT_GEX);
  });

  it('of 0 beside ours is a whole difference', async () => {
    expect((await compare([{ ...SNAPSHOT, call_gex: 0, put_gex: 0 }]))?.difference).toBe(1);
  });

  it.each<[string, readonly Snapshot[]]>([
    [
      'without an intraday summary',
      [{ ...SNAPSHOT, spot: null, call_gex: null, put_gex: null, intraday_gex_as_of: null }],
    ],
    ['of other symbols', [{ ...SNAPSHOT, symbol: 'QQQ' }]],
    ['without rows', []],
  ])('%s is null', async (_name, snapshots) => {
    expect(await compare(snapshots)).toBeNull();
  });

  it('of a symbol without a price of ours is null, as there is nothing to compare', async () => {
    expect(await compare([{ ...SNAPSHOT, symbol: 'DARK' }], 'DARK')).toBeNull();
  });

  it('that is not sealed is null', async () => {
    expect((await expose(null)).lead?.marketStructure).toBeNull();
  });

  it('from a drop of something else is refused with the missing columns, and no table is left', async () => {
    await expect(expose(tradesPath)).rejects.toMatchObject({
      code: 'REPORT_COLUMNS_MISSING',
      kind: 'usage',
      message: expect.stringContaining('has no column spot, call_gex, put_gex, intraday_gex_as_of'),
    });
    expect(await drops.engine.rows('SELECT name FROM system.tables WHERE is_temporary')).toEqual([]);
  });
});
