/**
 * One drop of each kind of dataset, and a summary, read by six readers that are not ours: each must find the same names,
 * types, nullability and values, also over folders `session=.../`. How a drop is made is tested in `test/seal`.
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { tableFromIPC } from 'apache-arrow';
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import polars from 'nodejs-polars';
import { readParquet } from 'parquet-wasm';
import { ParquetReader } from 'parquetjs-lite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type DropType, TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { readJob } from '../../src/job/job-folder.ts';
import { allowNulls, toJobColumn } from '../../src/job/resolve-job.ts';
import { SNAPSHOT_COLUMNS } from '../../src/job/snapshot-columns.ts';
import { dropKey, fileKey, SUMMARY_FILENAME } from '../../src/ledger/layout.ts';
import { writeFooter } from '../../src/seal/footer.ts';
import { type DropColumn, listDropColumns, verifyParquet, writeParquet } from '../../src/seal/write-parquet.ts';
import { openStage } from '../../src/stage/stage.ts';
import { startClickHouseFront } from '../support/clickhouse-front.ts';
import { countWithParquetJs, queryDuckDb } from '../support/drop.ts';
import { createTradesTable, insertTrades } from '../support/engine-source.ts';
import { flowdrop } from '../support/flowdrop.ts';
import { createPage, createTrade, DATE, type TradeRow, windowAt } from '../support/trades.ts';

const JOBS = fileURLToPath(new URL('../../jobs', import.meta.url));
const EARLIER = '2026-11-18';

/** A value that every reader can be brought to: dates as text, times as milliseconds, 64-bit integers as text. */
type Plain = string | number | null;

interface Drop {
  /** The date before and that of the drop, each with the rows of its file. */
  readonly dates: readonly (readonly [string, number])[];
  readonly columns: readonly DropColumn[];
  readonly path: string;
  /** In the order of the file. */
  readonly rows: readonly (readonly Plain[])[];
}

/** What each reader calls a type. */
interface TypeNames {
  readonly duckdb: string;
  readonly arrow: string;
  readonly clickhouse: string;
  readonly polars: string;
}

const NAMES: Readonly<Record<DropType, TypeNames>> = {
  string: { duckdb: 'VARCHAR', arrow: 'Utf8', clickhouse: 'String', polars: 'String' },
  int32: { duckdb: 'INTEGER', arrow: 'Int32', clickhouse: 'Int32', polars: 'Int32' },
  int64: { duckdb: 'BIGINT', arrow: 'Int64', clickhouse: 'Int64', polars: 'Int64' },
  double: { duckdb: 'DOUBLE', arrow: 'Float64', clickhouse: 'Float64', polars: 'Float64' },
  date: { duckdb: 'DATE', arrow: 'Date32<DAY>', clickhouse: 'Date32', polars: 'Date' },
  wall: {
    duckdb: 'TIMESTAMP',
    arrow: 'Timestamp<MICROSECOND>',
    // Its name for a wall clock: it reads one as if it were UTC, and shows it as such.
    clickhouse: "DateTime64(6, 'UTC')",
    polars: 'Datetime(us,)',
  },
  instant: {
    duckdb: 'TIMESTAMP WITH TIME ZONE',
    arrow: 'Timestamp<MICROSECOND, UTC>',
    clickhouse: "DateTime64(6, 'UTC')",
    polars: 'Datetime(us,UTC)',
  },
};

let folder: string;
let engine: Engine;
let trades: Drop;
let flow: Drop;
let chain: Drop;
let structure: Drop;
let server: Drop;
let summary: Drop;

/** Numbers at the ends of what the types hold, texts that formats trip over, and nulls. */
function createTrades(date: string, count: number): readonly TradeRow[] {
  const odd: readonly TradeRow[] = [
    { symbol: '', exchange: 'ü 🚀 "quoted" \\ \t' },
    { oi: -2_147_483_648, size: 2_147_483_647, premium: 1.7976931348623157e308, price: 5e-324 },
    { iv: null, gamma: null, dex: -0.1, dei: 0.1 + 0.2 },
    { market_cap: '9223372036854775807', expiration_date: '2100-01-01', earning_date: '1970-01-01' },
    { time: `${date} 00:00:00`, updated_timestamp: '0' },
    { time: `${date} 23:59:59`, updated_timestamp: '1795150800001' },
  ];
  return Array.from({ length: count }, (_, k) => {
    const row = createTrade(k, { date });
    const time = String(row['time']).replace(DATE, date);
    return { ...row, time, ...odd[k] };
  });
}

/** Answer rows of the shipped aggregating job. */
function createFlow(date: string, count: number): readonly TradeRow[] {
  return Array.from({ length: count }, (_, k) => ({
    minute: `${date} 09:${String(30 + (k % 30))}`,
    symbol: `SYM${Math.floor(k / 30)}`,
    total_premium: k * 100.5,
    call_premium: k * 60.25,
    put_premium: k * 40.25,
    bullish_premium: 1e-7 * k,
    bearish_premium: 0,
    neutral_premium: -1.5,
    contracts: String(9_007_199_254_740_993n + BigInt(k)),
    trades: String(k),
  }));
}

/** Rows of a snapshot job: every column with a value of its type, and with none where it may be null. */
function createSnapshots(api: 'chain' | 'market-structure', date: string, count: number): readonly TradeRow[] {
  const fill = (type: DropType, k: number): Plain => {
    const values: Readonly<Record<DropType, Plain>> = {
      string: `{"k": ${k}, "text": "ü 🚀 \\"quoted\\""}`,
      int32: k,
      int64: String(9_007_199_254_740_993n + BigInt(k)),
      double: (k % 7) * 0.1 - 0.3,
      date: `2027-01-${String((k % 28) + 1).padStart(2, '0')}`,
      wall: `${date} 10:00:00`,
      instant: String(1_795_150_800_001 + k),
    };
    return values[type];
  };
  return Array.from({ length: count }, (_, k) => ({
    ...Object.fromEntries(
      SNAPSHOT_COLUMNS[api].map(({ name, type, nullable }, index) => [
        name,
        nullable && (k + index) % 5 === 0 ? null : fill(type, k),
      ]),
    ),
    ...{ symbol: `SYM${k % (api === 'chain' ? 7 : count)}`, date },
    ...(api === 'chain' ? { option_symbol: `SYM270101C${String(k).padStart(8, '0')}` } : {}),
  }));
}

async function makeDrops(
  file: string,
  create: (date: string, count: number) => readonly TradeRow[],
  earlier: number,
  later: number,
): Promise<Drop> {
  await makeDrop(file, EARLIER, create(EARLIER, earlier));
  const drop = await makeDrop(file, DATE, create(DATE, later));
  return {
    ...drop,
    dates: [
      [EARLIER, earlier],
      [DATE, later],
    ],
  };
}

async function makeDrop(file: string, date: string, rows: readonly TradeRow[]): Promise<Omit<Drop, 'dates'>> {
  const job = await readJob(join(JOBS, file), '');
  const { dataset, sort } = job.drop;
  const path = join(folder, 'store', dropKey(dataset, date));
  await mkdir(dirname(path), { recursive: true });
  const stage = await openStage(engine, job, date, '');
  await stage.put(windowAt(0), createPage(rows));
  const columns = listDropColumns(job.source.columns, await stage.extraFields());
  const sum = await writeParquet(engine, job, { table: stage.table, duplicates: 0 }, columns, path);
  await writeFooter(path, { columns, sort, keyValues: { 'flowdrop.job': job.name } });
  await verifyParquet(engine, path, columns, sum);
  await stage.discard();
  return { columns, path, rows: expectRows(rows, columns, sort) };
}

function expectRows(rows: readonly TradeRow[], columns: readonly DropColumn[], sort: readonly string[]) {
  const sorted = [...rows].sort((a, b) => compareKeys(a, b, sort));
  return sorted.map((row) => columns.map((column) => plainOf(row, column)));
}

/** Numbers by size, texts by their bytes, nulls last. */
function compareKeys(a: TradeRow, b: TradeRow, sort: readonly string[]): number {
  for (const name of sort) {
    const [left, right] = [a[name], b[name]];
    if (left === right) continue;
    if (left === null || right === null) return left === null ? 1 : -1;
    const order =
      typeof left === 'number' && typeof right === 'number'
        ? left - right
        : Buffer.compare(Buffer.from(String(left)), Buffer.from(String(right)));
    if (order !== 0) return order;
  }
  return 0;
}

/** A server's table by the product as a user runs it; dates long past, which no clock undoes. */
async function makeServerDrop(): Promise<void> {
  const dates: readonly (readonly [string, number])[] = [
    ['2025-03-03', 200],
    ['2025-03-04', 700],
  ];
  const create = (date: string, count: number) =>
    Array.from({ length: count }, (_, k) => {
      const trade = createTrade(k);
      const odd = k === 0 ? { symbol: '', exchange: 'ü 🚀 "quoted" \\ \t' } : {};
      return { ...trade, date, time: String(trade['time']).replace(DATE, date), ...odd };
    });
  const front = await startClickHouseFront();
  try {
    await createTradesTable(front.engine);
    for (const [date, count] of dates) await insertTrades(front.engine, create(date, count));
    await writeFile(
      join(folder, 'server.yaml'),
      'name: server\nsource: {api: clickhouse, table: flowdrop_tables.RawOptionTrades}\ndrop: {to: store, dataset: server}\n',
    );
    const args = ['backfill', 'server.yaml', '--from', '2025-03-03', '--to', '2025-03-04'];
    const run = await flowdrop(args, { cwd: folder, env: { FLOWDROP_CLICKHOUSE_URL: front.url } });
    expect(run.code, run.stderr).toBe(0);
  } finally {
    await front.close();
  }
  const [, [date, count] = ['', 0]] = dates;
  const sort = ['symbol', 'time', 'id'];
  const columns = listDropColumns(allowNulls(TRADE_COLUMNS.map(toJobColumn), sort), []);
  const path = join(folder, 'store', dropKey('server', date));
  server = { dates, columns, path, rows: expectRows(create(date, count), columns, sort) };
  await readSummary(join(folder, 'store', fileKey('server', date, SUMMARY_FILENAME)), create(date, count), dates);
}

/** Its sums are tested where it is made: here hyparquet says what is in it, and the other readers must agree. */
async function readSummary(path: string, trades: readonly TradeRow[], dates: Drop['dates']): Promise<void> {
  const file = await asyncBufferFromFile(path);
  const { schema } = await parquetMetadataAsync(file);
  const types: Readonly<Record<string, DropType>> = { BYTE_ARRAY: 'string', INT64: 'int64', DOUBLE: 'double' };
  const columns = schema.slice(1).map(({ name, type, repetition_type }): DropColumn => {
    const known = types[type ?? ''];
    if (known === undefined) throw new TypeError(`the summary's ${name} is of the type ${type}`);
    return {
      name,
      type: known,
      nullable: repetition_type === 'OPTIONAL',
      hasNulls: false,
      emptyIsNull: false,
      description: '',
    };
  });
  const rows = await parquetReadObjects({ file, compressors });
  const symbols = new Set(trades.map(({ symbol }) => String(symbol)));
  const whole = rows.filter(({ segment }) => segment === '');
  expect(whole.map(({ symbol }) => symbol)).toEqual([...symbols].sort());
  expect(rows[0]).toMatchObject({ symbol: '', recorded_trades: BigInt(trades.length) });
  const plain = rows.map((row) => columns.map(({ name, type }) => plainFrom(row[name], type)));
  const [[earlier] = [''], [later] = ['']] = dates;
  const [before] = await queryDuckDb(
    `SELECT count(*)::INTEGER AS n FROM read_parquet('${path.replace(later, earlier)}', hive_partitioning = false)`,
  );
  summary = {
    columns,
    path,
    rows: plain,
    dates: [
      [earlier, Number(before?.['n'])],
      [later, plain.length],
    ],
  };
}

/** What the API sent, as the drop must hold it. */
function plainOf(row: TradeRow, { name, type, emptyIsNull }: DropColumn): Plain {
  const value = row[name];
  if (value === null || value === undefined || (emptyIsNull && value === '')) return null;
  if (type === 'wall') return Date.parse(`${String(value).replace(' ', 'T')}Z`);
  if (type === 'instant') return Number(value);
  return type === 'int32' || type === 'double' ? Number(value) : String(value);
}

/** What a reader gave: bigints, dates and its own nulls are brought to the plain form. */
function plainFrom(value: unknown, type: DropType): Plain {
  if (value === null || value === undefined) return null;
  if (type === 'date') return value instanceof Date ? value.toISOString().slice(0, 10) : String(value);
  if (type === 'wall' || type === 'instant') return value instanceof Date ? value.getTime() : Number(value);
  return type === 'int64' || type === 'string' ? String(value) : Number(value);
}

const plainRows = (drop: Drop, rows: readonly Readonly<Record<string, unknown>>[]) =>
  rows.map((row) => drop.columns.map(({ name, type }) => plainFrom(row[name], type)));

const namesOf = ({ columns }: Drop, reader: keyof TypeNames) =>
  columns.map(({ name, type }) => [name, NAMES[type][reader]]);

/** SQL of DuckDB that makes times numbers, because its JSON would cut them. */
const duckColumns = ({ columns }: Drop) =>
  columns
    .map(({ name, type }) => (type === 'wall' || type === 'instant' ? `epoch_ms("${name}") AS "${name}"` : `"${name}"`))
    .join(', ');

const clickhouseColumns = ({ columns }: Drop) =>
  columns
    .map(({ name, type }) => {
      if (type === 'wall' || type === 'instant') return `toUnixTimestamp64Milli(${name}) AS ${name}`;
      return type === 'int64' ? `toString(${name}) AS ${name}` : name;
    })
    .join(', ');

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'flowdrop-interop-'));
  // The server's engine comes first and goes: a process has one at a time.
  await makeServerDrop();
  engine = await openEmbeddedEngine({ path: join(folder, 'engine') });
  trades = await makeDrops('nightly-trades.yaml', createTrades, 300, 2000);
  flow = await makeDrops('symbol-minute-flow.yaml', createFlow, 60, 900);
  chain = await makeDrops('option-chain.yaml', (date, count) => createSnapshots('chain', date, count), 40, 500);
  structure = await makeDrops(
    'market-structure.yaml',
    (date, count) => createSnapshots('market-structure', date, count),
    5,
    12,
  );
});

afterAll(async () => {
  await engine.close();
  await rm(folder, { recursive: true, force: true });
});

const DROPS: readonly (readonly [string, () => Drop])[] = [
  ['trades', () => trades],
  ['the aggregating job', () => flow],
  ['option chains', () => chain],
  ['market structure', () => structure],
  ["a ClickHouse server's table", () => server],
  ['summaries', () => summary],
];

describe.each(DROPS)('a drop of %s is read alike by', (_title, drop) => {
  test('DuckDB', async () => {
    const file = `read_parquet('${drop().path}', hive_partitioning = false, file_row_number = true)`;
    const described = await queryDuckDb(`DESCRIBE SELECT * EXCLUDE file_row_number FROM ${file}`);
    expect(described.map((row) => [row['column_name'], row['column_type']])).toEqual(namesOf(drop(), 'duckdb'));
    const schema = await queryDuckDb(
      `SELECT repetition_type FROM parquet_schema('${drop().path}') WHERE num_children IS NULL`,
    );
    expect(schema.map((row) => row['repetition_type'] === 'OPTIONAL')).toEqual(
      drop().columns.map(({ nullable }) => nullable),
    );
    const rows = await queryDuckDb(`SELECT ${duckColumns(drop())} FROM ${file} ORDER BY file_row_number`);
    expect(plainRows(drop(), rows)).toEqual(drop().rows);
  });

  test('hyparquet', async () => {
    const file = await asyncBufferFromFile(drop().path);
    const { schema } = await parquetMetadataAsync(file);
    expect(schema.slice(1).map(({ name, repetition_type }) => [name, repetition_type])).toEqual(
      drop().columns.map(({ name, nullable }) => [name, nullable ? 'OPTIONAL' : 'REQUIRED']),
    );
    for (const [index, { type }] of drop().columns.entries()) {
      const logical = schema[index + 1]?.logical_type;
      if (type === 'wall' || type === 'instant')
        expect(logical).toMatchObject({ isAdjustedToUTC: type === 'instant', unit: 'MICROS' });
    }
    expect(plainRows(drop(), await parquetReadObjects({ file, compressors }))).toEqual(drop().rows);
  });

  // It has no ZSTD: columns and rows of the footer are what it can tell.
  test('parquetjs-lite, as far as the footer', async () => {
    expect(await countWithParquetJs(drop().path)).toBe(drop().rows.length);
    const reader = await ParquetReader.openFile(drop().path, { rawStatistics: true });
    const fields = Object.values(reader.getSchema().fields);
    await reader.close();
    expect(fields.map(({ name, repetitionType }) => [name, repetitionType])).toEqual(
      drop().columns.map(({ name, nullable }) => [name, nullable ? 'OPTIONAL' : 'REQUIRED']),
    );
  });

  test('parquet-wasm', async () => {
    const table = tableFromIPC(readParquet(await readFile(drop().path)).intoIPCStream());
    expect(table.schema.fields.map(({ name, type, nullable }) => [name, String(type), nullable])).toEqual(
      drop().columns.map(({ name, type, nullable }) => [name, NAMES[type].arrow, nullable]),
    );
    const rows = table.toArray().map((row) => {
      const fields: Record<string, unknown> = row.toJSON();
      for (const { name, type } of drop().columns)
        if (type === 'date' && fields[name] != null) fields[name] = new Date(Number(fields[name]));
      return fields;
    });
    expect(plainRows(drop(), rows)).toEqual(drop().rows);
  });

  test('ClickHouse', async () => {
    const file = `file('${drop().path}', Parquet)`;
    const described = await engine.rows<{ name: string; type: string }>(
      `DESCRIBE ${file} SETTINGS use_hive_partitioning = 0`,
    );
    expect(described.map(({ name, type }) => [name, type])).toEqual(
      drop().columns.map(({ name, type, nullable }) => {
        const own = NAMES[type].clickhouse;
        return [name, nullable ? `Nullable(${own})` : own];
      }),
    );
    const rows = await engine.rows<Record<string, unknown>>(
      `SELECT ${clickhouseColumns(drop())} FROM ${file} SETTINGS max_threads = 1, input_format_parquet_preserve_order = 1, use_hive_partitioning = 0`,
    );
    expect(plainRows(drop(), rows)).toEqual(drop().rows);
  });

  test('Polars', () => {
    const frame = polars.readParquet(drop().path);
    expect(Object.entries(frame.schema).map(([name, type]) => [name, describePolars(type)])).toEqual(
      namesOf(drop(), 'polars'),
    );
    // Its records have numbers only: 64-bit integers would be rounded.
    const wide = drop().columns.filter(({ type }) => type === 'int64');
    const records = frame.withColumns(...wide.map(({ name }) => polars.col(name).cast(polars.Utf8))).toRecords();
    expect(plainRows(drop(), records)).toEqual(drop().rows);
  });
});

/** Rows of every date, by the partition key: no file has a column of that name. */
describe.each(DROPS)('the folders of %s are one table with a column `session` for', (_title, drop) => {
  const glob = () => drop().path.replace(/session=[^/]+/, 'session=*');
  const last = () => drop().dates.at(-1) ?? ['', 0];

  test('DuckDB, which reads only the folders asked for', async () => {
    const table = `read_parquet('${glob()}', hive_partitioning = true)`;
    const rows = await queryDuckDb(
      `SELECT session::DATE::VARCHAR AS d, count(*)::INTEGER AS n FROM ${table} GROUP BY d ORDER BY d`,
    );
    expect(rows.map(({ d, n }) => [d, n])).toEqual(drop().dates);
    const described = await queryDuckDb(`DESCRIBE SELECT session FROM ${table}`);
    expect(described.map((row) => row['column_type'])).toEqual(['DATE']);
    const files = await queryDuckDb(
      `SELECT DISTINCT parse_dirpath(filename) AS folder FROM read_parquet('${glob()}', hive_partitioning = true, filename = true) WHERE session = '${last()[0]}'`,
    );
    expect(files.map((row) => row['folder'])).toEqual([dirname(drop().path)]);
    const plan = await queryDuckDb(`EXPLAIN SELECT symbol FROM ${table} WHERE session = '${last()[0]}'`);
    expect(JSON.stringify(plan)).toContain('Scanning Files: 1/2');
  });

  test('ClickHouse', async () => {
    const rows = await engine.rows<{ d: string; n: number }>(
      `SELECT toString(session) AS d, count() AS n FROM file('${glob()}', Parquet) GROUP BY d ORDER BY d SETTINGS use_hive_partitioning = 1`,
    );
    expect(rows.map(({ d, n }) => [d, Number(n)])).toEqual(drop().dates);
    const paths = await engine.rows<{ path: string }>(
      `SELECT DISTINCT _path AS path FROM file('${glob()}', Parquet) WHERE session = '${last()[0]}' SETTINGS use_hive_partitioning = 1`,
    );
    expect(paths.map(({ path }) => path)).toEqual([drop().path]);
  });

  test('Polars', () => {
    const table = polars.scanParquet(glob(), { hivePartitioning: true, tryParseHiveDates: true });
    const frame = table.groupBy('session').agg(polars.col('symbol').count().alias('n')).sort('session').collectSync();
    expect(frame.toRecords().map(({ session, n }) => [plainFrom(session, 'date'), n])).toEqual(drop().dates);
    expect(describePolars(frame.schema['session'])).toBe('Date');
    const some = table
      .filter(polars.col('session').eq(polars.lit(new Date(last()[0])).cast(polars.Date)))
      .collectSync();
    expect(some.height).toBe(last()[1]);
  });
});

function describePolars(type: unknown): string {
  return /^DataType\((.*)\)$/.exec(String(type))?.[1] ?? String(type);
}
