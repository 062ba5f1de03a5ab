/**
 * Rows under one id, from the source to the mail: a correction counts once, whatever it corrects, also after an audit that
 * fetches only a part of the date. Which rows are versions is in `test/export/repeated-ids.test.ts`.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { describe, expect, it } from 'vitest';
import { closeSecond } from '../../src/calendar/session.ts';
import { formatSecond } from '../../src/calendar/wall-clock.ts';
import { dropKey, manifestKey } from '../../src/ledger/layout.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import { computeLookback } from '../../src/plan/dates.ts';
import { startFront } from '../chaos/front.ts';
import type { TableRow } from '../chaos/rows.ts';
import { ChaosTable, closeTables } from '../chaos/table.ts';
import { useCleanups } from '../support/cleanups.ts';
import { queryDuckDb } from '../support/drop.ts';
import { isPage } from '../support/engine-source.ts';
import { flowdrop, KEY, readJson } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createTrade } from '../support/trades.ts';

const ROWS = 300;
const LIMIT = 50;
/** The newest session that is over, by the clock of this machine, which is the API's too. */
const DATE = computeLookback(Date.now()).lastSettled ?? '';
const WIDTH = (closeSecond(DATE, 'equity') - 34_200) / ROWS;
const timeOf = (k: number) => `${DATE} ${formatSecond(34_200 + Math.floor(k * WIDTH))}`;

const { cleanups, folder } = useCleanups();
// Last, after the tables.
cleanups.push(closeTables);

/** @param key of the row in the table: its id need not be its own */
function createRow(k: number, changes: Readonly<Record<string, unknown>> = {}, key = `row-${k}`): TableRow {
  return {
    id: key,
    values: { ...createTrade(k), id: `row-${k}`, date: DATE, time: timeOf(k), premium: 1000, ...changes },
  };
}

const later = { updated_timestamp: '1799000000000', premium: 3000 };
const CORRECTIONS = [
  createRow(20, { ...later, time: timeOf(200) }, 'time'),
  createRow(21, { ...later, strike: 7, option_symbol: 'SYM1261218C00007000' }, 'strike'),
  createRow(22, { ...later, symbol: 'OTHER', option_symbol: 'OTHER261218C00007000' }, 'symbol'),
];
const OTHER_TRADE = createRow(23, { symbol: 'OTHER', option_symbol: 'OTHER261218C00007000', premium: 4000 }, 'other');

describe.each([
  ['historical', 'time'],
  ['portal', 'symbol'],
] as const)('rows under one id, of %s by %s', (api, order) => {
  it('count once if one corrects the other, and are named with their premium if they are two trades', async () => {
    const cwd = await folder();
    const rows = Array.from({ length: ROWS }, (_, k) => createRow(k));
    const table = await ChaosTable.create(order, [...rows, ...CORRECTIONS, OTHER_TRADE]);
    cleanups.push(() => table.drop());
    const front = await startFront({ table, rowLimit: LIMIT, isPage });
    cleanups.push(() => front.close());
    const env = {
      ...{ FLOWDROP_API_URL: front.url, FLOWDROP_PORTAL_URL: front.url, FLOWDROP_API_KEY: KEY },
      ...{ FLOWDROP_REQUESTS_PER_SECOND: '50', FLOWDROP_OUTBOX_DIR: join(cwd, 'outbox') },
    };
    const job = await writeJob(cwd, { api, reports: 'reports:\n  - template: flow\n    to: [desk@example.com]' });
    const first = await flowdrop(['run', job], { cwd, env });
    expect(first.code, first.stderr).toBe(0);
    const manifest = async () => await readJson<Manifest>(join(cwd, 'drops'), manifestKey('trades', DATE));
    const counted = { rows: ROWS + 1, source_rows: ROWS + 4, duplicates: 3, ids: ROWS };
    expect(await manifest()).toMatchObject({ revision: 1, condition: 'available', ...counted });
    const drop = join(cwd, 'drops', dropKey('trades', DATE));
    const sum = { premium: 1000 * (ROWS - 3) + 3 * 3000 + 4000 };
    expect(await queryDuckDb(`SELECT sum(premium)::DOUBLE AS premium FROM '${drop}'`)).toEqual([sum]);
    const [mail = ''] = await readdir(join(cwd, 'outbox'));
    const { text } = await PostalMime.parse(await readFile(join(cwd, 'outbox', mail)));
    expect(text?.replaceAll(/\s+/g, ' ')).toContain(
      '2 trades have the id of another trade, or none: $5.00K of premium, all of it counted.',
    );

    // A late row far from the corrections: the audit fetches little, and the rest comes from the drop, without their older rows.
    await table.change({ remove: [], add: [createRow(290, { id: 'late' }, 'late')] });
    const second = await flowdrop(['run', job], { cwd, env });
    expect(second.code, second.stdout + second.stderr).toBe(0);
    expect(await manifest()).toMatchObject({
      revision: 2,
      ...counted,
      rows: ROWS + 2,
      source_rows: ROWS + 5,
      ids: ROWS + 1,
    });
    // Then the source withdraws a correction of the time: what it corrected is a row again.
    const mirror = await writeJob(cwd, { api, reports: 'audit: mirror' });
    await table.change({ remove: ['row-20'], add: [createRow(20), createRow(291, { id: 'later' }, 'later')] });
    const third = await flowdrop(['run', mirror], { cwd, env });
    expect(third.code, third.stdout + third.stderr).toBe(0);
    expect(await manifest()).toMatchObject({ revision: 3, rows: ROWS + 3, source_rows: ROWS + 5, duplicates: 2 });
    expect(await queryDuckDb(`SELECT premium FROM '${drop}' WHERE id = 'row-20'`)).toEqual([{ premium: 1000 }]);
    const verified = await flowdrop(['verify', mirror, '--deep'], { cwd, env });
    expect(verified.code, verified.stdout).toBe(0);
  }, 120_000);
});
