/**
 * One odd row never costs a date, and never gets in altered: every column with every odd value over a real source that
 * sends its bytes, by both entry points, read back by DuckDB and Polars. What a page does by itself is in
 * `test/stage/stage.test.ts`. A value that cannot be read in a column of a model or for reference becomes null: the trade
 * stays, and manifest, status and mail say so.
 */

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import pl from 'nodejs-polars';
import { beforeAll, describe, expect, it } from 'vitest';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { dropKey } from '../../src/ledger/layout.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import { useCleanups } from '../support/cleanups.ts';
import { queryDuckDb } from '../support/drop.ts';
import { type Finished, flowdrop, listFiles, readManifest, workerEnvironment } from '../support/flowdrop.ts';
import { serveHttp } from '../support/http-server.ts';
import { type RawRow, type RawSource, startRawSource, toRaw, writeRow } from '../support/raw-source.ts';
import { createTrade, DATE, type TradeRow } from '../support/trades.ts';

const NOW = '2026-11-19T23:15:00Z';
const GOOD_ROWS = 2_000;
const LIMIT = 500;

const { folder, keep } = useCleanups();
const engine = await keep(openEmbeddedEngine());

/** What must become of a value: taken as this, null, or its row in quarantine for this reason. */
type Fate = { readonly as: unknown } | { readonly reason: string };

interface OddCase {
  readonly column: string;
  /** Bytes of the value in the page; empty for no such field. */
  readonly token: string | Buffer;
  readonly fate: Fate;
  /** What the source's own table has, where it decides how it counts. */
  readonly table?: TradeRow;
}

const BAD_UTF8 = Buffer.concat([Buffer.from('"C'), Buffer.from([0xff, 0xfe]), Buffer.from('E"')]);
const identity = new Set(['id', 'symbol', 'date', 'time']);
/** What cannot be read in these is null, and does not cost the trade. */
const MODEL = new Set([
  ...['iv', 'delta', 'gamma', 'vega', 'theta', 'rho', 'dex', 'dei', 'bid', 'bid_size', 'ask', 'ask_size'],
  ...['underlying_price', 'moneyness', 'side', 'earning_date', 'market_cap', 'expiry_days', 'daily_volume'],
]);

const cases: readonly OddCase[] = TRADE_COLUMNS.flatMap(({ name: column, drop }): readonly OddCase[] => {
  const taken = (token: string | Buffer, as: unknown, table: TradeRow = {}): OddCase => ({
    ...{ column, token, table, fate: { as } },
  });
  const bad = (token: string | Buffer, reason: string, table: TradeRow = {}): OddCase => ({
    ...{ column, token, table, fate: MODEL.has(column) && reason !== 'is not UTF-8' ? { as: null } : { reason } },
  });
  const inTable = (value: unknown): TradeRow => (column === 'updated_timestamp' ? { updated_timestamp: value } : {});
  const nothing = identity.has(column)
    ? [bad('null', 'is null', column === 'id' ? { id: null } : {})]
    : [taken('null', null, inTable(null)), taken('', null, inTable(null))];
  const object = bad('{"a": [1, 2.50]}', 'is an object or a list', inTable('{"a": [1, 2.50]}'));
  switch (drop) {
    case 'string':
      return [
        ...nothing,
        object,
        bad(BAD_UTF8, 'is not UTF-8'),
        bad('"\\ud83d"', 'has an incomplete character'),
        ...(column === 'id' || column === 'symbol' ? [] : [taken('""', ''), taken('12.50', '12.50')]),
        taken(
          '"\\u00fc\\u0000\\ud83d\\ude00"',
          'ü\u0000😀',
          column === 'id' ? { id: 'ü\u0000😀' } : column === 'symbol' ? { symbol: 'ü\u0000😀' } : {},
        ),
      ];
    case 'int32':
      return [
        ...nothing,
        object,
        taken('12.0', 12),
        taken('1.2e1', 12),
        taken('"12"', 12),
        taken('""', null),
        bad('12.5', 'is not a whole number'),
        bad('"twelve"', 'is not a whole number'),
        bad('true', 'is not a whole number'),
        bad('18446744073709551621', 'does not fit into 32 bits'),
        bad('2147483648', 'does not fit into 32 bits'),
      ];
    case 'int64':
      return [
        ...nothing,
        taken('"9223372036854775807"', '9223372036854775807'),
        taken('12.0', '12'),
        taken('12', '12'),
        bad('"9223372036854775808"', 'does not fit into 64 bits'),
        bad('"12.5"', 'is not a whole number'),
      ];
    case 'double':
      return [
        ...nothing,
        object,
        taken('0.30000000000000004', 0.30000000000000004),
        taken('"12.50"', 12.5),
        taken('""', null),
        bad('"NaN"', 'is not a finite number'),
        bad('NaN', 'is not a finite number'),
        bad('"Infinity"', 'is not a finite number'),
        bad('"-inf"', 'is not a finite number'),
        bad('1e999', 'is not a finite number'),
        bad('"high"', 'is not a number'),
        bad('true', 'is not a number'),
      ];
    case 'date':
      if (column === 'date') {
        return [
          ...nothing,
          bad('"2026-11-18"', 'is not the requested date'),
          bad('"20261119"', 'is not a date YYYY-MM-DD'),
        ];
      }
      return [
        ...nothing,
        taken('"2026-12-18T00:00:00"', '2026-12-18'),
        bad('"2026-02-30"', 'is not a date YYYY-MM-DD'),
        bad('"12/18/2026"', 'is not a date YYYY-MM-DD'),
        bad('"2026-12-18T09:30:00"', 'is not a date YYYY-MM-DD'),
      ];
    case 'wall':
      // Not null: a source cannot count a row by a time that it does not have.
      return [
        ...['-05:00', 'Z', ' PM'].map((end) => {
          const time = `${DATE} 09:30:00${end}`;
          return bad(JSON.stringify(time), 'is not a time YYYY-MM-DD HH:MM:SS', { time });
        }),
        ...['24:00:00', '25:31:00', '09:61:00', '09:30:61'].map((clock) => {
          const time = `${DATE} ${clock}`;
          return bad(JSON.stringify(time), 'is not a time YYYY-MM-DD HH:MM:SS', { time });
        }),
        bad(`"${DATE} 09:30:00.1234567"`, 'has more digits than milliseconds', { time: `${DATE} 09:30:00.1234567` }),
        taken(`"${DATE} 09:30:00.5"`, `${DATE} 09:30:00.5`, { time: `${DATE} 09:30:00.5` }),
      ];
    case 'instant': {
      const instant = (token: string) => inTable(token);
      return [
        ...nothing,
        taken('1795000000123', '2026-11-18 11:06:40.123', instant('1795000000123')),
        taken('"2026-11-18T11:06:40.5Z"', '2026-11-18 11:06:40.5', instant('2026-11-18T11:06:40.5Z')),
        taken('"2026-11-18 12:06:40+01:00"', '2026-11-18 11:06:40', instant('2026-11-18 12:06:40+01:00')),
        bad('"18446744073709551615"', 'is not an instant in milliseconds', instant('18446744073709551615')),
        bad('"-5"', 'is not an instant in milliseconds', instant('-5')),
        bad('"soon"', 'is not an instant', instant('soon')),
      ];
    }
    default:
      return drop satisfies never;
  }
});

const words: readonly OddCase[] = [
  { column: 'put_call', token: '"call"', fate: { as: 'CALL' } },
  { column: 'put_call', token: '"Swap"', fate: { as: 'Swap' } },
  { column: 'sentiment', token: '"Bullish"', fate: { as: 'BULLISH' } },
];
const odd: readonly OddCase[] = [...cases, ...words];

/** Each odd row has a good trade's other values, and an id that says which it is. */
function createRows(): readonly RawRow[] {
  const good = Array.from({ length: GOOD_ROWS }, (_, k) => toRaw(createTrade(k)));
  const strange = odd.map(({ column, token, table = {} }, at): RawRow => {
    const row = createTrade(at * 7, { id: idOf(at) });
    const sent = token.length === 0 ? Object.fromEntries(Object.entries(row).filter(([name]) => name !== column)) : row;
    return { row: { ...row, ...table }, bytes: writeRow(sent, token.length === 0 ? {} : { [column]: token }) };
  });
  return [...good, ...strange];
}

const idOf = (at: number) => `odd-${String(at).padStart(4, '0')}`;

interface QuarantineLine {
  readonly window: string;
  readonly column: string;
  readonly reason: string;
  readonly encoding: 'json' | 'base64';
  readonly row: string;
}

const readQuarantine = async (place: string): Promise<readonly QuarantineLine[]> =>
  (await readFile(join(place, 'quarantine.ndjson'), 'utf8'))
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as QuarantineLine);

const placeOf = (cwd: string) => join(cwd, 'drops', '_flowdrop', 'trades', `session=${DATE}`);
const bytesOf = ({ encoding, row }: QuarantineLine) => Buffer.from(row, encoding === 'base64' ? 'base64' : 'utf8');

async function writeBadRowsJob(cwd: string, extra = '', api = 'historical'): Promise<string> {
  const path = join(cwd, 'nightly.yaml');
  await writeFile(path, `name: nightly\nsource: {api: ${api}}\ndrop: {to: drops, dataset: trades}\n${extra}`);
  return path;
}

/** A source of these rows, and a folder for a worker. */
async function openRows(rows: readonly RawRow[], rowLimit = LIMIT) {
  const source = await keep(startRawSource(engine, rows, { rowLimit, now: NOW }));
  return { source, env: source.env, cwd: await folder() };
}

/** Runs a job over a source of these rows. */
async function runOver(rows: readonly RawRow[], extra = '', api = 'historical') {
  const { source, cwd } = await openRows(rows);
  const job = await writeBadRowsJob(cwd, extra, api);
  const again = async () => await flowdrop(['--json', 'run', job], { cwd, env: source.env });
  return { source, cwd, again, run: await again() };
}

const isBad = ({ fate }: OddCase) => 'reason' in fate;

describe.each(['historical', 'portal'])(
  'a day with an odd value of every kind in every column, by the entry point %s',
  (api) => {
    let source: RawSource;
    let cwd: string;
    let place: string;
    let manifest: Manifest;
    const rows = createRows();

    beforeAll(async () => {
      let run: Finished;
      ({ run, cwd, source } = await runOver(rows, 'rows: {max: 1}\n', api));
      // Degraded dates inside the lookback make a run incomplete.
      expect(run.code, run.stderr).toBe(3);
      place = placeOf(cwd);
      manifest = await readManifest(join(cwd, 'drops'), DATE);
    });

    it('seals every good row, and each value exactly or as null', async () => {
      const sealed = await queryDuckDb(
        `SELECT * REPLACE (time::VARCHAR AS time, (updated_timestamp AT TIME ZONE 'UTC')::VARCHAR AS updated_timestamp, date::VARCHAR AS date, expiration_date::VARCHAR AS expiration_date, earning_date::VARCHAR AS earning_date, market_cap::VARCHAR AS market_cap) FROM read_parquet('${join(cwd, 'drops', dropKey('trades', DATE))}', hive_partitioning = false)`,
      );
      const byId = new Map(sealed.map((row) => [String(row['id']), row]));
      expect(sealed).toHaveLength(GOOD_ROWS + odd.filter((each) => !isBad(each)).length);
      const wrong = odd.flatMap((each, at) => {
        const id = each.column === 'id' && 'as' in each.fate ? String(each.fate.as) : idOf(at);
        const found = byId.get(id)?.[each.column];
        const expected = 'as' in each.fate ? each.fate.as : undefined;
        return Object.is(found, expected) ? [] : [{ column: each.column, token: String(each.token), found, expected }];
      });
      expect(wrong).toEqual([]);
    });

    it('keeps every bad row in quarantine with its window, its reason and its bytes', async () => {
      const lines = await readQuarantine(place);
      const bad = odd
        .map((each, at) => ({ ...each, bytes: rows[GOOD_ROWS + at]?.bytes ?? Buffer.from('') }))
        .filter(isBad);
      const found = new Map(lines.map((line) => [bytesOf(line).toString('latin1'), line]));
      const wrong = bad.flatMap(({ column, fate, bytes }) => {
        const line = found.get(bytes.toString('latin1'));
        const reason = 'reason' in fate ? fate.reason : '';
        const about = reason === 'is not UTF-8' ? '' : column;
        return line?.reason === reason && line.column === about
          ? []
          : [{ column, bytes: bytes.toString('latin1').slice(0, 400), reason, line }];
      });
      expect(wrong).toEqual([]);
      expect(lines).toHaveLength(bad.length);
      expect(lines.every(({ window }) => manifest.windows.some((known) => known.window === window))).toBe(true);
    });

    it('is degraded, and its manifest says how many rows and why, and what was taken in another form', () => {
      const bad = odd.filter(isBad).length;
      expect(manifest).toMatchObject({
        condition: 'degraded',
        degraded_reason: expect.stringContaining(
          `${bad} of ${GOOD_ROWS + odd.length} rows are in quarantine (premium $`.replace(/(\d)(\d{3})\b/, '$1,$2'),
        ),
        rows: GOOD_ROWS + odd.length - bad,
        source_rows: GOOD_ROWS + odd.length,
        quarantine: { filename: 'quarantine.ndjson', rows: bad },
      });
      expect(manifest.quarantine?.reasons.reduce((sum, { rows: count }) => sum + count, 0)).toBe(bad);
      expect(manifest.files.map(({ filename }) => filename)).toEqual([
        'trades.parquet',
        'summary.parquet',
        'counts.parquet',
        'quarantine.ndjson',
      ]);
      expect(manifest.rewritten).toContainEqual({ column: 'oi', form: 'other number form', rows: 2 });
      expect(manifest.rewritten).toContainEqual({ column: 'put_call', form: 'other case', rows: 1 });
      expect(manifest.nulls).toContainEqual({ column: 'side', rows: 2 });
      expect(manifest.nulls).toContainEqual({ column: 'iv', reason: 'is not a finite number', rows: 5 });
      const required = manifest.schema.filter(({ nullable }) => !nullable).map(({ name }) => name);
      expect(required).toEqual([...identity]);
    });

    it('is read by Polars, and verified with its quarantine', async () => {
      const frame = pl.readParquet(join(cwd, 'drops', dropKey('trades', DATE)));
      expect(frame.height).toBe(manifest.rows);
      const job = join(cwd, 'nightly.yaml');
      const verify = await flowdrop(['verify', job], { cwd, env: source.env });
      expect(verify.stdout + verify.stderr).toMatch(/in quarantine/);
      expect(verify.code).toBe(0);
      const file = join(place, 'quarantine.ndjson');
      const before = await readFile(file);
      await writeFile(file, before.subarray(0, -20));
      const damaged = await flowdrop(['verify', job], { cwd, env: source.env });
      expect(damaged).toMatchObject({ code: 1, stdout: expect.stringContaining('quarantine.ndjson has the hash') });
      await writeFile(file, before);
    });
  },
);

describe('too many bad rows', () => {
  const wrongDates = (count: number): readonly RawRow[] =>
    Array.from({ length: GOOD_ROWS }, (_, k) => createTrade(k)).map((row, k) => ({
      row,
      bytes: writeRow(row, k % Math.floor(GOOD_ROWS / count) === 0 ? { date: '"2026-11-18"' } : {}),
    }));
  const fail = async (rows: readonly RawRow[], extra: string) => {
    const { cwd, run } = await runOver(rows, extra);
    expect(run.code, run.stderr).toBe(1);
    expect((await listFiles(join(cwd, 'drops'))).filter((name) => name.startsWith('trades/session='))).toEqual([]);
    const { dates } = JSON.parse(run.stdout) as { dates: { error: { code: string; message: string; hint: string } }[] };
    return dates[0]?.error;
  };

  it('such as those of another date fail the date, with an example and what is allowed', async () => {
    expect(await fail(wrongDates(500), '')).toMatchObject({
      code: 'BAD_ROWS',
      message: expect.stringMatching(/allowed are 2 \(rows\.max: 0\.001\).*"date" is not the requested date: \{"id"/),
      hint: expect.stringContaining('raise `rows.max` in '),
    });
  });

  it('such as all of a day fail it with the way to keep them, and `rows.max: 1` keeps them', async () => {
    const rows = wrongDates(GOOD_ROWS).slice(0, 100);
    expect(await fail(rows, '')).toMatchObject({ code: 'BAD_ROWS', hint: expect.stringContaining('`rows.max: 1`') });
    const { cwd, run } = await runOver(rows, 'rows: {max: 1}\n');
    expect(run.code, run.stderr).toBe(3);
    expect(await readManifest(join(cwd, 'drops'), DATE)).toMatchObject({
      ...{ condition: 'degraded', rows: 0, source_rows: 100 },
      quarantine: { rows: 100, reasons: [{ column: 'date', rows: 100 }] },
    });
    expect(await readQuarantine(placeOf(cwd))).toHaveLength(100);
  });

  it('or a single one fail the date where the job takes none', async () => {
    expect(await fail(wrongDates(1), 'rows: {on_bad: fail}\n')).toMatchObject({
      code: 'PAGE_REFUSED',
      message: expect.stringContaining('"date" is not the requested date: {"id"'),
      hint: expect.stringContaining('rows.on_bad: fail'),
    });
  });

  it('are asked for again by the next run, which seals the day when they are right', async () => {
    const rows = wrongDates(500);
    const { cwd, run: refused, again } = await runOver(rows, 'rows: {max: 0.2}\n');
    expect(refused.code).toBe(1);
    for (const [k, { row }] of rows.entries()) Object.assign(rows[k] ?? {}, { bytes: writeRow(row) });
    const run = await again();
    expect(run.code, run.stderr).toBe(0);
    const manifest = await readManifest(join(cwd, 'drops'), DATE);
    expect(manifest).toMatchObject({ condition: 'available', rows: GOOD_ROWS });
    expect(manifest.quarantine).toBeUndefined();
  });
});

const ROWS = 1_000;
const PLAIN = 'name: nightly\nsource: {api: historical}\ndrop: {to: drops, dataset: trades}\n';

it('a model that failed for 2% of the trades costs no trade, and status and mail say so', async () => {
  const rows = Array.from({ length: ROWS }, (_, k): RawRow => {
    const isOdd = k % 50 === 0;
    const row = createTrade(k, { strike: 100, ...(isOdd ? { iv: Number.NaN, delta: Number.NaN } : {}) });
    const odd = { ...(isOdd ? { iv: '"nan"', delta: 'NaN' } : {}), ...(k === 7 ? { earning_date: '"N/A"' } : {}) };
    // One trade is lost: its contract cannot be read.
    return { row, bytes: writeRow(row, k === 9 ? { strike: '"high"', premium: '1234.5' } : odd) };
  });
  const { cwd, env } = await openRows(rows, ROWS);
  await writeFile(join(cwd, 'nightly.yaml'), `${PLAIN}reports: [{template: flow, to: [desk@example.com]}]\n`);
  await flowdrop(['run', 'nightly.yaml', '--no-report'], { cwd, env, code: 3 });
  const lost = `1 of 1,000 rows is in quarantine (premium $1.23K): 1 "strike" is not a number`;
  expect(await readManifest(join(cwd, 'drops'), DATE)).toMatchObject({
    ...{ rows: ROWS - 1, source_rows: ROWS, degraded_reason: lost },
    quarantine: { rows: 1, premium: 1234.5 },
    nulls: [
      { column: 'delta', reason: 'is not a finite number', rows: 20 },
      { column: 'iv', reason: 'is not a finite number', rows: 20 },
      { column: 'earning_date', reason: 'is not a date YYYY-MM-DD', rows: 1 },
    ],
  });
  const status = await flowdrop(['status', 'nightly.yaml'], { cwd, env });
  const says = ['iv', 'delta'].map((name) => `2.0% of rows have no ${name} (20 of 999)`).join('; ');
  const nulls = `${DATE} has unexpected nulls: 20 delta, 20 iv, 1 earning_date`;
  for (const part of [nulls, `is unusual: ${says}`, lost])
    expect(status.stdout.replaceAll(/\s+/g, ' ')).toContain(part);
  await flowdrop(['report', 'nightly.yaml', '--preview', 'shown'], { cwd, env });
  const text = (await listFiles(join(cwd, 'shown'))).find((name) => name.endsWith('.txt')) ?? '';
  const mail = (await readFile(join(cwd, 'shown', text), 'utf8')).replaceAll(/\s+/g, ' ');
  // Two thirds have no earning_date, as always: one that cannot be read is no finding.
  expect(mail).toContain(`It is unlike other days: ${says}.`);
  expect(mail).toContain(lost);
});

it.each([
  { what: 'null, in text', type: 'string', odd: null, usual: `${DATE} 21:00:00` },
  { what: 'a number with a fraction of zero', type: 'instant', odd: '1795000000000.0', usual: '1795000000000' },
])('a few update times that are $what do not keep the recount from agreeing', async ({ type, odd, usual }) => {
  const rows = Array.from({ length: ROWS }, (_, k): RawRow => {
    const row = createTrade(k, { updated_timestamp: k % 40 === 0 ? odd : usual });
    const { id, symbol, date, time, premium, updated_timestamp } = row;
    return { row, bytes: writeRow({ id, symbol, date, time, premium, updated_timestamp }) };
  });
  const { cwd, env } = await openRows(rows, ROWS);
  const sql = 'SELECT id, symbol, date, time, premium, updated_timestamp FROM RawOptionTrades WHERE {window}';
  await writeFile(
    join(cwd, 'own.yaml'),
    `name: own\nsource: {api: historical, sql: '${sql}', types: {symbol: string, premium: double, updated_timestamp: ${type}}}\ndrop: {to: drops, dataset: own}\n`,
  );
  await flowdrop(['run', 'own.yaml', '--no-report'], { cwd, env, code: 0 });
  const proved = { condition: 'available', rows: ROWS, source_rows: ROWS };
  expect(await readManifest(join(cwd, 'drops'), DATE, 'own')).toMatchObject(proved);
});

it('an odd value of a contract costs at most the contract, and a day may have only such', async () => {
  const contract = (k: number, odd: Readonly<Record<string, unknown>> = {}) => ({
    ...{ option_symbol: `VIX261216C000${20 + k}000`, expiration_date: '2026-12-16', put_call: 'CALL', strike: 20 + k },
    ...{ open_interest: 100, gamma: 0.05, iv: 0.2, ...odd },
  });
  const chains: Readonly<Record<string, readonly unknown[]>> = {
    VIX: [contract(0), contract(1, { gamma: '' }), contract(2, { iv: 'NaN' }), contract(3, { open_interest: '1,000' })],
    SPX: [contract(4, { strike: 'high' })],
  };
  const { url } = await keep(
    serveHttp(async (request, response) => {
      const { symbol, date } = (await json(request)) as { symbol: string; date: string };
      response.writeHead(200, { 'content-type': 'application/json', date: new Date(NOW).toUTCString() });
      response.end(JSON.stringify({ status: 'SUCCESS', data: chains[symbol] ?? [], meta: { symbol, date } }));
    }),
  );
  const cwd = await folder();
  for (const [symbol, dataset] of [
    ['VIX', 'vix'],
    ['SPX', 'spx'],
  ]) {
    await writeFile(
      join(cwd, 'chains.yaml'),
      `name: chains\nsource: {api: chain, symbols: [${symbol}]}\ndrop: {to: drops, dataset: ${dataset}}\nrows: {max: 1}\n`,
    );
    const args = ['backfill', 'chains.yaml', '--from', DATE, '--to', DATE];
    await flowdrop(args, { cwd, env: workerEnvironment(url, url), code: 3 });
  }
  expect(await readManifest(join(cwd, 'drops'), DATE, 'vix')).toMatchObject({
    ...{ rows: 3, source_rows: 4, nulls: [{ column: 'iv', reason: 'is not a finite number', rows: 1 }] },
    quarantine: { rows: 1, reasons: [{ column: 'open_interest', reason: 'is not a number', rows: 1 }] },
  });
  const strike = { rows: 0, source_rows: 1, quarantine: { reasons: [{ column: 'strike' }] } };
  expect(await readManifest(join(cwd, 'drops'), DATE, 'spx')).toMatchObject(strike);
});

it('a member that only a faulty page had, or that has no value, is no column of the file', async () => {
  const rows = Array.from({ length: 100 }, (_, k): RawRow => {
    const row = createTrade(k);
    return { row, bytes: writeRow({ ...row, note: null, ...(k === 7 ? { venue: 'X' } : {}) }) };
  });
  const right = rows[5]?.bytes ?? Buffer.from('');
  const { source, cwd, env } = await openRows(rows, ROWS);
  source.onPage = (page) => {
    Object.assign(rows[5] ?? {}, { bytes: page === 0 ? Buffer.from('{"exception": "Code: 395"}') : right });
  };
  await writeFile(join(cwd, 'nightly.yaml'), PLAIN);
  await flowdrop(['run', 'nightly.yaml'], { cwd, env, code: 0 });
  const taken = { condition: 'available', rows: 100, extra_columns: ['venue'] };
  expect(await readManifest(join(cwd, 'drops'), DATE)).toMatchObject(taken);
});
