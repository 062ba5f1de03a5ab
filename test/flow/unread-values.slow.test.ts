/**
 * A value that cannot be read in a column of a model or for reference becomes null: the trade stays, and manifest, status and
 * mail say so. Every such column with every odd value is in `bad-rows.slow.test.ts`. Nor does an update time that is null or
 * written in another form keep a date from being proved.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, listFiles, readManifest, workerEnvironment } from '../support/flowdrop.ts';
import { serveHttp } from '../support/http-server.ts';
import { type RawRow, startRawSource, writeRow } from '../support/raw-source.ts';
import { createTrade, DATE } from '../support/trades.ts';

const NOW = '2026-11-19T23:15:00Z';
const ROWS = 1_000;
const { cleanups, folder, keep } = useCleanups();
const engine = await keep(openEmbeddedEngine());

/** A source of these rows, and a folder for a worker. */
async function openRows(rows: readonly RawRow[]) {
  const source = await keep(startRawSource(engine, rows, { rowLimit: ROWS, now: NOW }));
  return { source, env: source.env, cwd: await folder() };
}
const PLAIN = 'name: nightly\nsource: {api: historical}\ndrop: {to: drops, dataset: trades}\n';

it('a model that failed for 2% of the trades costs no trade, and status and mail say so', async () => {
  const rows = Array.from({ length: ROWS }, (_, k): RawRow => {
    const isOdd = k % 50 === 0;
    const row = createTrade(k, { strike: 100, ...(isOdd ? { iv: Number.NaN, delta: Number.NaN } : {}) });
    const odd = { ...(isOdd ? { iv: '"nan"', delta: 'NaN' } : {}), ...(k === 7 ? { earning_date: '"N/A"' } : {}) };
    // One trade is lost: its contract cannot be read.
    return { row, bytes: writeRow(row, k === 9 ? { strike: '"high"', premium: '1234.5' } : odd) };
  });
  const { cwd, env } = await openRows(rows);
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
  const says = ['iv', 'delta'].map((name) => `2.0% of "${name}" are null (20 of 999)`).join('; ');
  const nulls = `${DATE} has unexpected nulls: 20 delta, 20 iv, 1 earning_date`;
  for (const part of [nulls, `is unusual: ${says}`, lost])
    expect(status.stdout.replaceAll(/\s+/g, ' ')).toContain(part);
  await flowdrop(['report', 'nightly.yaml', '--preview', 'shown'], { cwd, env });
  const text = (await listFiles(join(cwd, 'shown'))).find((name) => name.endsWith('.txt')) ?? '';
  const mail = (await readFile(join(cwd, 'shown', text), 'utf8')).replaceAll(/\s+/g, ' ');
  // Two thirds have no earning_date, as always: one that cannot be read is no finding.
  expect(mail).toContain(`Unusual: ${says}.`);
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
  const { cwd, env } = await openRows(rows);
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
  const { url, close } = await serveHttp(async (request, response) => {
    const { symbol, date } = (await json(request)) as { symbol: string; date: string };
    response.writeHead(200, { 'content-type': 'application/json', date: new Date(NOW).toUTCString() });
    response.end(JSON.stringify({ status: 'SUCCESS', data: chains[symbol] ?? [], meta: { symbol, date } }));
  });
  cleanups.push(close);
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
  const { source, cwd, env } = await openRows(rows);
  source.onPage = (page) => {
    Object.assign(rows[5] ?? {}, { bytes: page === 0 ? Buffer.from('{"exception": "Code: 395"}') : right });
  };
  await writeFile(join(cwd, 'nightly.yaml'), PLAIN);
  await flowdrop(['run', 'nightly.yaml'], { cwd, env, code: 0 });
  const taken = { condition: 'available', rows: 100, extra_columns: ['venue'] };
  expect(await readManifest(join(cwd, 'drops'), DATE)).toMatchObject(taken);
});
