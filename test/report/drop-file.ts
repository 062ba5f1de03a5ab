/** Sealed drops for the report's tests: trade records to a Parquet file with the drop's types, written by the engine. */
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll } from 'vitest';
import { KNOWN_FAMILIES } from '../../src/api-contract/family.ts';
import { TRADE_COLUMNS, type TradeColumn } from '../../src/api-contract/trade.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { quoteString } from '../../src/engine/literal.ts';
import { openDropFile } from '../../src/report/drop-source.ts';
import type { Exposure } from '../../src/report/exposure-model.ts';
import { buildFlowReport, type FlowOptions } from '../../src/report/flow-report.ts';
import type { SealedDrop } from '../../src/report/model.ts';
import { type ExposureOptions, queryExposure, withStates } from '../../src/report/query/exposure.ts';
import type { PastSession } from '../../src/report/query/past-sessions.ts';
import { writeSummary } from '../../src/seal/summary.ts';

/** A record as the API sends it. */
export interface Trade {
  readonly id: string;
  readonly symbol: string;
  readonly date: string;
  readonly time: string;
  readonly put_call: string;
  readonly strike: number;
  readonly expiration_date: string;
  readonly option_activity_type: string;
  readonly oi: number;
  readonly size: number;
  readonly price: number;
  readonly underlying_price: number;
  readonly iv: number | null;
  readonly premium: number;
  readonly sentiment: string;
  readonly option_symbol: string;
  readonly side: string;
  readonly gamma: number | null;
  readonly [column: string]: string | number | null;
}

/** The templates that ship. */
export const TEMPLATES = fileURLToPath(new URL('../../templates', import.meta.url));

/** One real session of VIX options; beside the repository, never in it. */
const VIX_FILE = fileURLToPath(new URL('../../../shared/data/vix-trades-2016-06-01.ndjson.gz', import.meta.url));

export const hasVixDay = existsSync(VIX_FILE);

/** The reason to print when the tests on real data are skipped. */
export const VIX_MISSING = 'SKIPPED: the real VIX day is not beside the repository (../shared/data)';

export function readVixDay(): readonly Trade[] {
  const lines = gunzipSync(readFileSync(VIX_FILE)).toString('utf8').trim().split('\n');
  return lines.map((line) => JSON.parse(line) as Trade);
}

/** What a test changes. Drops of other makers have nulls where the type has none; `nan` and `inf` are written as such. */
export type TradeChanges = { readonly [Name in keyof Trade]?: Trade[Name] | null };

/** A plain record; `changes` make it what the test is about. */
export function createTrade(changes: TradeChanges = {}): Trade {
  const trade = {
    id: '1',
    symbol: 'SPY',
    date: '2026-11-19',
    time: `${changes.date ?? '2026-11-19'} 09:30:02`,
    put_call: 'CALL',
    strike: 600,
    expiration_date: '2026-11-20',
    option_activity_type: 'AUTO',
    underlying_type: 'ETF',
    oi: 1000,
    size: 10,
    price: 1.25,
    underlying_price: 601.5,
    bid: 1.2,
    bid_size: 10,
    ask: 1.3,
    ask_size: 10,
    iv: 0.18,
    premium: 1250,
    sentiment: 'BULLISH',
    trade_count: 1,
    expiry_days: 1,
    delta: 0.5,
    vega: 0.1,
    theta: -0.1,
    rho: 0.01,
    exchange: '5',
    daily_volume: 10,
    earning_date: '',
    updated_timestamp: '1795080602025',
    market_cap: '',
    option_symbol: 'SPY261120C00600000',
    side: 'ASK',
    moneyness: 'ITM',
    gamma: 0.02,
    dex: 300_750,
    dei: 500,
    ...changes,
  };
  return trade as Trade; // Odd records lack what the type promises: the loops of the tests ask first.
}

/** What a record always has. */
const KEYS: readonly string[] = ['id', 'symbol', 'date', 'time'];

/** A folder for one test file's drops; `remove` deletes it. */
export async function createDropFolder(): Promise<{ readonly path: string; readonly remove: () => Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'flowdrop-report-'));
  return { path, remove: async () => await rm(path, { recursive: true, force: true }) };
}

const USUAL: FlowOptions = {
  ...{ symbols: [], now: new Date('2026-11-19T22:32:00Z'), job: 'nightly' },
  ...{ before: [], marketStructure: null },
};

/** How a drop is written, where it is not as usual; see `writeDrop`. */
interface Written {
  readonly name?: string;
  readonly columns?: readonly TradeColumn[];
  readonly isLoose?: boolean;
}

/** An engine, and a folder for drops and summaries, from before the tests until after them. */
export function useDrops() {
  let engine: Engine;
  let folder: Awaited<ReturnType<typeof createDropFolder>>;
  let files = 0;
  beforeAll(async () => {
    engine = await openEmbeddedEngine();
    // As in ClickHouse Local, where a printed query finds a file by its name.
    await engine.command('USE default');
    folder = await createDropFolder();
  });
  afterAll(async () => {
    await engine.close();
    await folder.remove();
  });
  const write = async (trades: readonly Trade[], { name, columns, isLoose }: Written = {}) => {
    files += 1;
    return await writeDrop(engine, folder.path, name ?? `day-${files}`, trades, columns, isLoose);
  };
  const build = async (drop: SealedDrop, options: Partial<FlowOptions> = {}) =>
    await buildFlowReport(engine, drop, { ...USUAL, ...options });
  return {
    get engine() {
      return engine;
    },
    get folder() {
      return folder.path;
    },
    write,
    build,
    report: async (trades: readonly Trade[], options: Partial<FlowOptions> = {}) =>
      await build(await write(trades), options),
    async summarise(date: string, trades: readonly Trade[], written: Written = {}): Promise<PastSession> {
      const { path: drop } = await write(trades, written);
      const path = drop.replace('.parquet', '.summary.parquet');
      await writeSummary(engine, { path: drop, date }, path);
      return { date, path };
    },
  };
}

/**
 * Writes the records as `<name>.parquet` and returns the drop that a seal would describe.
 * @param isLoose whether every column but those of `KEYS` may be null, as in drops of other makers
 */
export async function writeDrop(
  engine: Engine,
  folder: string,
  name: string,
  trades: readonly Trade[],
  columns: readonly TradeColumn[] = TRADE_COLUMNS,
  isLoose = false,
): Promise<SealedDrop> {
  const input = join(folder, `${name}.ndjson`);
  const path = join(folder, `${name}.parquet`);
  // JSON has no NaN: the engine reads it as a text.
  const write = (_name: string, value: unknown) =>
    typeof value === 'number' && !Number.isFinite(value)
      ? String(value).replace('Infinity', 'inf').toLowerCase()
      : value;
  await writeFile(input, trades.map((trade) => `${JSON.stringify(trade, write)}\n`).join(''));
  const loosen = (column: TradeColumn) =>
    isLoose && !KEYS.includes(column.name) ? { ...column, nullable: true } : column;
  const structure = TRADE_COLUMNS.map((column) => `${column.name} ${readType(loosen(column), isLoose)}`).join(', ');
  await engine.command(
    `INSERT INTO FUNCTION file(${quoteString(path)}, Parquet)
     SELECT ${columns.map((column) => `${typed(column)} AS ${column.name}`).join(', ')}
     FROM file(${quoteString(input)}, JSONEachRow, ${quoteString(structure)})`,
  );
  const times = trades.map((trade) => trade.time).sort();
  return {
    dataset: 'trades',
    date: trades[0]?.date ?? '2026-11-19',
    revision: 1,
    condition: 'available',
    rows: trades.length,
    min_time: times[0] ?? null,
    max_time: times.at(-1) ?? null,
    sealed_at: '2026-11-19T22:31:07.000Z',
    sha256: 'c0ffee'.padEnd(64, '0'),
    location: `s3://quant-drops/options/trades/session=2026-11-19/${name}.parquet`,
    path,
  };
}

function readType({ wire, nullable }: TradeColumn, isLoose: boolean): string {
  if (wire === 'float') return nullable ? 'Nullable(Float64)' : 'Float64';
  const type = wire === 'integer' ? 'Int32' : 'String';
  return isLoose && nullable ? `Nullable(${type})` : type;
}

function typed({ name, drop, nullable }: TradeColumn): string {
  // Numbers are null on the wire; only text is empty there.
  const source = nullable && drop !== 'double' ? `nullIf(${name}, '')` : name;
  switch (drop) {
    case 'date':
      return `toDate32(${source})`;
    case 'wall':
      return `toDateTime64(${source}, 3, 'UTC')`;
    case 'instant':
      return `fromUnixTimestamp64Milli(toInt64(${source}), 'UTC')`;
    case 'int64':
      return `toInt64(${source})`;
    case 'string':
    case 'int32':
    case 'double':
      return source;
    default:
      return drop satisfies never;
  }
}

/** The exposure of the records of a file. @param view what is counted of it, as a FROM clause takes it */
export async function measureExposure(
  engine: Engine,
  path: string,
  measured: Omit<ExposureOptions, 'families'>,
  view = (file: string) => file,
): Promise<Exposure> {
  const file = openDropFile(engine, path, {});
  const source = { ...file, table: view(file.table) };
  const options = { ...measured, families: KNOWN_FAMILIES };
  return (await withStates(source, options.date, () => queryExposure(source, options))).exposure;
}
