/**
 * Sealed dates whose rows a source re-keys, loads twice, loses, or gives another date, as an operator sees them: what is
 * sealed afterwards, who is told, and how a person overrides it.
 */

import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { expect, it } from 'vitest';
import { previousSessions } from '../../src/calendar/session.ts';
import { dropKey } from '../../src/ledger/layout.ts';
import { computeLookback } from '../../src/plan/dates.ts';
import type { TableRow } from '../chaos/rows.ts';
import { startSmtpReceiver } from '../mail/smtp-receiver.ts';
import { readWithHyparquet } from '../support/drop.ts';
import { flowdrop, readManifest } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createSpreadRow, useTables } from './table-front.ts';

const ROWS = 400;
const NEWEST = computeLookback(Date.now()).lastSettled ?? '';
const [LOADED = '', GREW = '', LOST = '', GAVE = '', TOOK = ''] = previousSessions(NEWEST, 6);

const { folder, openTable, keep } = useTables();

const again = ({ id, values }: TableRow) => ({ id: `again-${id}`, values: { ...values, id: `again-${id}` } });
const idsOf = (rows: readonly TableRow[]) => rows.map(({ id }) => id);

it('takes over trades that have another id or date, and holds what was loaded twice or is gone', async () => {
  const cwd = await folder();
  const days = new Map(
    [NEWEST, LOADED, GREW, LOST, GAVE, TOOK].map((date) => [
      date,
      Array.from({ length: ROWS }, (_, k) => createSpreadRow(date, k, ROWS)),
    ]),
  );
  const day = (date: string) => days.get(date) ?? [];
  const source = await openTable([...days.values()].flat());
  const { table } = source;
  const receiver = await keep(startSmtpReceiver());
  const env = { ...source.env, FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${receiver.port}` };
  const reports =
    'reports:\n  - template: flow\n    to: [desk@example.com]\n    correct_above: 0\nalerts:\n  to: [ops@example.com]';
  const job = await writeJob(cwd, { reports });
  const type = async (code: number, command: string, ...more: string[]) =>
    await flowdrop([command, job, ...more], { cwd, env, code });
  const store = join(cwd, 'drops');
  const manifest = async (date: string) => await readManifest(store, date);
  const rows = async (date: string) => await readWithHyparquet(join(store, dropKey('trades', date)));
  const mailsTo = (address: string) => receiver.messages.filter(({ to }) => to === address);
  await type(0, 'run');

  const rekeyed = day(NEWEST).map(again);
  const gave = day(GAVE).slice(50, 200);
  const gone = day(LOST).slice(100, 220);
  await table.change({
    remove: [...idsOf(day(NEWEST)), ...idsOf(gave), ...idsOf(gone)],
    add: [
      ...rekeyed,
      ...day(LOADED).map(again),
      // Another contract, and a few prints that are equal to others.
      ...Array.from({ length: 60 }, (_, k) => createSpreadRow(GREW, k, ROWS, { id: `late-${k}`, strike: 7_777 })),
      ...day(GREW).slice(0, 8).map(again),
      ...gave.map(({ id }, k) => createSpreadRow(TOOK, k + 50, ROWS, { id, strike: 9_999 })),
    ],
  });
  const audited = await type(3, 'run');
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
  await type(3, 'backfill', '--all', '--from', GREW, '--to', GREW);
  expect(await manifest(GREW)).toMatchObject({ condition: 'degraded', rows: ROWS + 68, source_rows: ROWS + 68 });

  const wrong = await type(2, 'backfill', '--accept-change');
  expect(wrong.stderr).toContain('--accept-change takes one date');
  await type(0, 'backfill', '--from', LOADED, '--to', LOADED, '--accept-change');
  expect(await manifest(LOADED)).toMatchObject({
    ...{ revision: 3, condition: 'available', rows: 2 * ROWS },
    changes: {
      added: ROWS,
      accepted: { by: expect.stringContaining('@'), doubt: expect.stringContaining('400 of 400') },
    },
  });
  await type(0, 'verify');
}, 600_000);
