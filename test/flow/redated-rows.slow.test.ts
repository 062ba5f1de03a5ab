/** Rows that get another date stand in one drop in the end: as soon as the source and the store can tell which. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { dropKey } from '../../src/ledger/layout.ts';
import { createRow, planAlteration, type TableRow } from '../chaos/rows.ts';
import { readWithHyparquet } from '../support/drop.ts';
import { flowdrop, readManifest } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createMovedClock } from '../support/moved-clock.ts';
import { useTables } from './table-front.ts';

const ROWS = 400;
const MOVED = 12;
const [GAVE, TOOK] = ['2026-11-19', '2026-11-20'] as const;
const [OPEN_SECOND, CLOSE_SECOND] = [34_200, 57_600];

const { folder, openTable } = useTables();

function createDay(date: string, first = 0): readonly TableRow[] {
  return Array.from({ length: ROWS }, (_, k) =>
    createRow(date, first + k, OPEN_SECOND + Math.floor((k * (CLOSE_SECOND - OPEN_SECOND)) / ROWS)),
  );
}

/** A worker's life with a source of these rows, from the close of the first date on. */
async function begin(rows: readonly TableRow[]) {
  const cwd = await folder();
  let now = Date.parse('2026-11-19T22:00:00Z');
  const source = await openTable(rows, { now: () => now });
  const clock = await createMovedClock(cwd, now);
  const job = await writeJob(cwd, { reports: '' });
  const env = { ...source.env, ...clock.env, FLOWDROP_CLOCK: 'checked' };
  return {
    table: source.table,
    run: async (at: string, code = 0) => {
      now = Date.parse(at);
      await clock.moveTo(now);
      const ended = await flowdrop(['run', job], { cwd, env });
      expect(ended.code, ended.stderr).toBe(code);
    },
    manifest: async (date: string) => await readManifest(join(cwd, 'drops'), date),
    /** Which of these rows are in the drop of a date. */
    among: async (date: string, ids: readonly string[]) => {
      const there = (await readWithHyparquet(join(cwd, 'drops', dropKey('trades', date)))).map(({ id }) => String(id));
      return ids.filter((id) => there.includes(id));
    },
  };
}

function planMove(day: readonly TableRow[], to: string) {
  const at = { on: 'request', number: 1 } as const;
  return planAlteration({ move: 'rows-redated', at, rows: MOVED, spread: 'far', seed: 1, to }, day);
}

it('rows that move to a date which is not over stand in one drop in the end', async () => {
  const day = createDay(GAVE);
  const { table, run, manifest, among } = await begin(day);
  await run('2026-11-19T22:00:00Z');

  // A late row comes with them, so the date is sealed again, with counts that no longer tell of the others.
  const move = planMove(day, TOOK);
  await table.change({ remove: move.remove, add: [...move.add, createRow(GAVE, 9_000, 50_000)] });
  await run('2026-11-20T18:00:00Z');
  expect(await manifest(GAVE)).toMatchObject({ revision: 2, rows: ROWS + 1, kept: MOVED });

  await table.change({ remove: [], add: createDay(TOOK, 20_000) });
  await run('2026-11-20T22:00:00Z');
  expect(await manifest(TOOK)).toMatchObject({ condition: 'available', rows: ROWS + MOVED });
  expect(await manifest(GAVE)).toMatchObject({ condition: 'available', revision: 3, rows: ROWS + 1 - MOVED });
  expect(await among(GAVE, move.remove)).toEqual([]);
  expect(await among(TOOK, move.remove)).toEqual(move.remove);
}, 600_000);

it('rows that move to a later date which lost a row itself stand in one drop after the next run', async () => {
  const [day, later] = [createDay(GAVE), createDay(TOOK, 20_000)];
  const { table, run, manifest, among } = await begin([...day, ...later]);
  await run('2026-11-20T22:00:00Z');

  const move = planMove(day, TOOK);
  await table.change({ remove: [...move.remove, String(later[7]?.id)], add: move.add });
  await run('2026-11-21T18:00:00Z');
  expect(await manifest(TOOK)).toMatchObject({ revision: 2, rows: ROWS + MOVED, kept: 1 });
  expect(await manifest(GAVE)).toMatchObject({ revision: 2, rows: ROWS - MOVED });
  expect(await among(GAVE, move.remove)).toEqual([]);
}, 600_000);

it('rows that move to an earlier date which lost a row itself leave the later one once that one is sealed, expired or not', async () => {
  const [earlier, day] = [createDay(GAVE), createDay(TOOK, 20_000)];
  const { table, run, manifest, among } = await begin([...earlier, ...day]);
  await run('2026-11-20T22:00:00Z');

  const move = planMove(day, GAVE);
  await table.change({ remove: [...move.remove, String(earlier[7]?.id)], add: move.add });
  // On the earlier date's last day; the sessions since have no rows.
  await run('2026-12-03T18:00:00Z', 3);
  expect(await manifest(TOOK)).toMatchObject({ rows: ROWS });
  expect(await manifest(GAVE)).toMatchObject({ revision: 2, rows: ROWS + MOVED, kept: 1 });

  await run('2026-12-04T18:00:00Z', 3);
  expect(await manifest(TOOK)).toMatchObject({ rows: ROWS - MOVED });
  expect(await among(TOOK, move.remove)).toEqual([]);
}, 600_000);
