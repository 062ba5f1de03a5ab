/**
 * Rows under one id, from the source to the mail: a correction counts once, whatever it corrects, also after an audit that
 * fetches only a part of the date. Which rows are versions is in `test/export/repeated-ids.test.ts`.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { expect, it } from 'vitest';
import { dropKey } from '../../src/ledger/layout.ts';
import { computeLookback } from '../../src/plan/dates.ts';
import type { TableRow } from '../chaos/rows.ts';
import { queryDuckDb } from '../support/drop.ts';
import { flowdrop, readManifest } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createSpreadRow, useTables } from './table-front.ts';

const ROWS = 300;
const LIMIT = 50;
/** The newest session that is over, by the clock of this machine, which is the API's too. */
const DATE = computeLookback(Date.now()).lastSettled ?? '';

const { folder, openTable } = useTables();

/** @param key of the row in the table: its id need not be its own */
function createRow(k: number, changes: Readonly<Record<string, unknown>> = {}, key = `row-${k}`): TableRow {
  const { values } = createSpreadRow(DATE, k, ROWS, { id: `row-${k}`, premium: 1000, ...changes });
  return { id: key, values };
}

const later = { updated_timestamp: '1799000000000', premium: 3000 };
const CORRECTIONS = [
  createRow(20, { ...later, time: createRow(200).values['time'] }, 'time'),
  createRow(21, { ...later, strike: 7, option_symbol: 'SYM1261218C00007000' }, 'strike'),
  createRow(22, { ...later, symbol: 'OTHER', option_symbol: 'OTHER261218C00007000' }, 'symbol'),
];
const OTHER_TRADE = createRow(23, { symbol: 'OTHER', option_symbol: 'OTHER261218C00007000', premium: 4000 }, 'other');

it('rows under one id count once if one corrects the other, and are named with their premium if they are two trades', async () => {
  const cwd = await folder();
  const rows = Array.from({ length: ROWS }, (_, k) => createRow(k));
  const source = await openTable([...rows, ...CORRECTIONS, OTHER_TRADE], { rowLimit: LIMIT });
  const env = { ...source.env, FLOWDROP_OUTBOX_DIR: join(cwd, 'outbox') };
  const reports = 'audit: mirror\nreports:\n  - template: flow\n    to: [desk@example.com]';
  const job = await writeJob(cwd, { reports });
  await flowdrop(['run', job], { cwd, env, code: 0 });
  const manifest = async () => await readManifest(join(cwd, 'drops'), DATE);
  expect(await manifest()).toMatchObject({
    ...{ revision: 1, condition: 'available', rows: ROWS + 1, source_rows: ROWS + 4, duplicates: 3, ids: ROWS },
  });
  const drop = join(cwd, 'drops', dropKey('trades', DATE));
  const sum = { premium: 1000 * (ROWS - 3) + 3 * 3000 + 4000 };
  expect(await queryDuckDb(`SELECT sum(premium)::DOUBLE AS premium FROM '${drop}'`)).toEqual([sum]);
  const [mail = ''] = await readdir(join(cwd, 'outbox'));
  const { text } = await PostalMime.parse(await readFile(join(cwd, 'outbox', mail)));
  expect(text?.replaceAll(/\s+/g, ' ')).toContain(
    '2 trades have the id of another trade, or none: $5.00K of premium, all of it counted.',
  );

  // A late row, and a correction that is withdrawn: the audit fetches little, and the drop lacks the row that counts again.
  const late = createRow(290, { id: 'late' }, 'late');
  await source.table.change({ remove: ['row-20'], add: [createRow(20), late] });
  await flowdrop(['run', job], { cwd, env, code: 0 });
  expect(await manifest()).toMatchObject({ revision: 2, rows: ROWS + 2, source_rows: ROWS + 4, duplicates: 2 });
  expect(await queryDuckDb(`SELECT premium FROM '${drop}' WHERE id = 'row-20'`)).toEqual([{ premium: 1000 }]);
  await flowdrop(['verify', job, '--deep'], { cwd, env, code: 0 });
});
