/**
 * Sealed dates whose rows a source re-keys, loads twice, loses, or gives another date, as an operator sees them: what is
 * sealed afterwards, who is told, and how a person overrides it.
 */

import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { expect, it } from 'vitest';
import { closeSecond, previousSessions } from '../../src/calendar/session.ts';
import { formatSecond } from '../../src/calendar/wall-clock.ts';
import { dropKey, manifestKey } from '../../src/ledger/layout.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import { computeLookback } from '../../src/plan/dates.ts';
import { startFront } from '../chaos/front.ts';
import type { TableRow } from '../chaos/rows.ts';
import { ChaosTable, closeTables } from '../chaos/table.ts';
import { startSmtpReceiver } from '../mail/smtp-receiver.ts';
import { useCleanups } from '../support/cleanups.ts';
import { readWithHyparquet } from '../support/drop.ts';
import { isPage } from '../support/engine-source.ts';
import { flowdrop, KEY, readJson } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createTrade } from '../support/trades.ts';

const ROWS = 400;
const OPEN_SECOND = 34_200;
const NEWEST = computeLookback(Date.now()).lastSettled ?? '';
const [LOADED = '', GREW = '', LOST = '', GAVE = '', TOOK = ''] = previousSessions(NEWEST, 6);

const { cleanups, folder } = useCleanups();
// Last, after the tables.
cleanups.push(closeTables);

function createRow(date: string, k: number, changes: Readonly<Record<string, unknown>> = {}): TableRow {
  const width = date === '' ? 1 : (closeSecond(date, 'equity') - OPEN_SECOND) / ROWS;
  const time = `${date} ${formatSecond(OPEN_SECOND + Math.floor((k % ROWS) * width))}`;
  const values = { ...createTrade(k), id: `${date}-${k}`, date, time, ...changes };
  return { id: String(values.id), values };
}

const again = ({ values }: TableRow) => createRow('', 0, { ...values, id: `again-${String(values['id'])}` });
const idsOf = (rows: readonly TableRow[]) => rows.map(({ id }) => id);

it('takes over trades that have another id or date, and holds what was loaded twice or is gone', async () => {
  const cwd = await folder();
  const days = new Map(
    [NEWEST, LOADED, GREW, LOST, GAVE, TOOK].map((date) => [
      date,
      Array.from({ length: ROWS }, (_, k) => createRow(date, k)),
    ]),
  );
  const day = (date: string) => days.get(date) ?? [];
  const table = await ChaosTable.create('time', [...days.values()].flat());
  cleanups.push(() => table.drop());
  const front = await startFront({ table, rowLimit: 5_000, isPage });
  cleanups.push(() => front.close());
  const receiver = await startSmtpReceiver();
  cleanups.push(() => receiver.close());
  const env = {
    ...{ FLOWDROP_API_URL: front.url, FLOWDROP_API_KEY: KEY, FLOWDROP_REQUESTS_PER_SECOND: '50' },
    FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${receiver.port}`,
  };
  const reports =
    'reports:\n  - template: flow\n    to: [desk@example.com]\n    correct_above: 0\nalerts:\n  to: [ops@example.com]';
  const job = await writeJob(cwd, { name: 'nightly', reports });
  const type = async (command: string, ...more: string[]) => await flowdrop([command, job, ...more], { cwd, env });
  const store = join(cwd, 'drops');
  const manifest = async (date: string) => await readJson<Manifest>(store, manifestKey('trades', date));
  const rows = async (date: string) => await readWithHyparquet(join(store, dropKey('trades', date)));
  const mailsTo = (address: string) => receiver.messages.filter(({ to }) => to === address);
  expect((await type('run')).code).toBe(0);

  const rekeyed = day(NEWEST).map(again);
  const gave = day(GAVE).slice(50, 200);
  const gone = day(LOST).slice(100, 220);
  await table.change({
    remove: [...idsOf(day(NEWEST)), ...idsOf(gave), ...idsOf(gone)],
    add: [
      ...rekeyed,
      ...day(LOADED).map(again),
      // Another contract, and a few prints that are equal to others.
      ...Array.from({ length: 60 }, (_, k) => createRow(GREW, k, { id: `late-${k}`, strike: 7_777 })),
      ...day(GREW).slice(0, 8).map(again),
      ...gave.map(({ id }, k) => createRow(TOOK, k + 50, { id, strike: 9_999 })),
    ],
  });
  const audited = await type('run');
  expect(audited.code, audited.stderr).toBe(3);
  expect(await manifest(NEWEST)).toMatchObject({
    ...{ revision: 2, condition: 'available', rows: ROWS },
    changes: { added: 0, removed: 0, altered: 0, rekeyed: ROWS },
  });
  expect((await rows(NEWEST)).map(({ id }) => id).toSorted()).toEqual(idsOf(rekeyed).toSorted());
  expect(await manifest(GREW)).toMatchObject({ condition: 'available', rows: ROWS + 68 });
  expect(await manifest(GAVE)).toMatchObject({ condition: 'available', rows: ROWS - 150 });
  expect(await manifest(TOOK)).toMatchObject({ condition: 'available', rows: ROWS + 150 });
  for (const [date, reason] of [
    [LOADED, '400 of 400 new rows have contract, time, price and size of a row that stays'],
    [LOST, '120 of 400 sealed rows are gone'],
  ] as const) {
    expect(await manifest(date)).toMatchObject({ revision: 2, condition: 'degraded', rows: ROWS });
    expect((await manifest(date)).degraded_reason).toContain(reason);
    expect((await rows(date)).map(({ id }) => id).toSorted()).toEqual(idsOf(day(date)).toSorted());
    expect(audited.stdout).toContain(`${date}: degraded`);
  }
  // One report at first, and no correction.
  expect(mailsTo('desk@example.com')).toHaveLength(1);
  const alert = await PostalMime.parse(mailsTo('ops@example.com').at(-1)?.source ?? '');
  expect(alert.text).toContain('400 of 400 new rows');
  expect(alert.text).toContain('120 of 400 sealed rows are gone');

  // The same rule by hand.
  await table.change({ remove: idsOf(day(GREW).slice(0, 100)), add: [] });
  const lost = await type('backfill', '--all', '--from', GREW, '--to', GREW);
  expect(lost.code, lost.stderr).toBe(3);
  expect(await manifest(GREW)).toMatchObject({ condition: 'degraded', rows: ROWS + 68, source_rows: ROWS + 68 });

  const wrong = await type('backfill', '--accept-change');
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('--accept-change takes one date')]);
  const accepted = await type('backfill', '--from', LOADED, '--to', LOADED, '--accept-change');
  expect(accepted.code, accepted.stderr).toBe(0);
  expect(await manifest(LOADED)).toMatchObject({
    ...{ revision: 3, condition: 'available', rows: 2 * ROWS },
    changes: {
      added: ROWS,
      accepted: { by: expect.stringContaining('@'), doubt: expect.stringContaining('400 of 400') },
    },
  });
  const verified = await type('verify');
  expect(verified.code, verified.stdout).toBe(0);
}, 600_000);
