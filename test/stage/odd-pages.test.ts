/** Odd pages that the engine alone would take wrongly: fields of any name, numbers and times in other forms. */
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { openStage } from '../../src/stage/stage.ts';
import { discardStages } from '../../src/stage/stage-table.ts';
import { createJob, createPage, createTrade, DATE, windowAt } from '../support/trades.ts';

const ROWS = 10;
let engine: Engine;
beforeAll(async () => {
  engine = await openEmbeddedEngine();
});
afterAll(async () => await engine.close());
beforeEach(async () => await discardStages(engine, DATE));

it.each([
  { name: '_file', column: 'field_file' },
  { name: '_window', column: 'field_window' },
  { name: '_part', column: 'field_part' },
  { name: '_row_exists', column: 'field_row_exists' },
  { name: '_block_number', column: 'field_block_number' },
  { name: '', column: 'field' },
  { name: ': ', column: ': ' },
  { name: 'name ', column: 'name ' },
  { name: 'a.b', column: 'a.b' },
  { name: 'ID', column: 'ID' },
  { name: 'q_rows', column: 'q_rows' },
  { name: '__proto__', column: 'field__proto__' },
  { name: `"quoted" \\ 'and'\n\`more\` ü`, column: `"quoted" \\ 'and'\n\`more\` ü` },
])('a field named $name is kept as $column, and its page by its window', async ({ name, column }) => {
  const stage = await openStage(engine, createJob(), DATE, 'api://trades');
  const rows = (from: number) => Array.from({ length: ROWS }, (_, k) => createTrade(from + k));
  const withField = rows(ROWS).map((row, k) => Object.fromEntries([...Object.entries(row), [name, `value ${k % 3}`]]));
  await Promise.all([stage.put(windowAt(1), createPage(rows(0))), stage.put(windowAt(2), createPage(withField))]);
  expect(await stage.extraFields()).toEqual([column]);
  expect((await stage.windows()).map(({ window, rows: count }) => [window.from.second, count])).toEqual([
    [1, ROWS],
    [2, ROWS],
  ]);
  const quoted = `\`${column.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
  const found = await engine.rows<{ n: number }>(
    `SELECT count() AS n FROM ${stage.table} WHERE startsWith(${quoted}, 'value ')`,
  );
  expect(Number(found[0]?.n)).toBe(ROWS);
  expect((await stage.quarantine()).rows).toBe(0);
});

it.each([
  { value: '12.0000000000000000001', good: ROWS - 1 },
  { value: '2147483647.0000001', good: ROWS - 1 },
  { value: '12', good: ROWS },
  { value: '12.0', good: ROWS },
])('a whole number that comes as the text $value is taken exactly, or not at all', async ({ value, good }) => {
  const stage = await openStage(engine, createJob(), DATE, 'api://trades');
  const rows = Array.from({ length: ROWS }, (_, k) => createTrade(k, k === 3 ? { size: value as never } : {}));
  await stage.put(windowAt(1), createPage(rows));
  expect([(await stage.totals()).rows, (await stage.quarantine()).rows]).toEqual([good, ROWS - good]);
});

it('half a character is never staged, as bytes or as an escape', async () => {
  const stage = await openStage(engine, createJob(), DATE, 'api://trades');
  const { data, ...told } = createPage([
    createTrade(0),
    createTrade(1, { exchange: 'C~' }),
    createTrade(2, { note: '~' }),
  ]);
  const bytes = Buffer.from(
    Buffer.from(data).toString('latin1').replace('C~', 'C\xed\xa0\x80').replace('~', '\\ud83d'),
    'latin1',
  );
  await stage.put(windowAt(1), { ...told, data: bytes });
  expect((await stage.quarantine()).reasons).toEqual([{ column: '', reason: 'is not UTF-8', rows: 1 }]);
  expect(await engine.rows(`SELECT note FROM ${stage.table} ORDER BY note`)).toEqual([
    { note: '' },
    { note: '\ufffd' },
  ]);
});

it.each([
  ['updated_timestamp', '1969-12-31 23:59:59', { bad: 1 }],
  ['updated_timestamp', '1970-01-01 00:00:00', {}],
  ['updated_timestamp', '0001795000000000', { rewritten: 1 }],
  ['updated_timestamp', '1795000000000', {}],
  ['market_cap', '007', { rewritten: 1 }],
  ['market_cap', '+7', { rewritten: 1 }],
  ['market_cap', '-7', {}],
  ['market_cap', '9223372036854775808', { nulls: 1 }],
])('%s %s is judged the same in a page with a bad row as in one without', async (name, value, expected) => {
  for (const date of [undefined, 'soon']) {
    const stage = await openStage(engine, createJob(), DATE, 'api://trades');
    const rows = [createTrade(0), createTrade(1, { [name]: value })];
    await stage.put(windowAt(1), createPage(date === undefined ? rows : [...rows, createTrade(2, { date })]));
    const { reasons, rewritten, nulls } = await stage.quarantine();
    const of = (lines: readonly { readonly column: string; readonly rows: number }[]) =>
      lines.find(({ column }) => column === name)?.rows;
    const found = { bad: of(reasons), rewritten: of(rewritten), nulls: of(nulls) };
    expect([date, found]).toEqual([date, { bad: undefined, rewritten: undefined, nulls: undefined, ...expected }]);
    await stage.discard();
  }
});
