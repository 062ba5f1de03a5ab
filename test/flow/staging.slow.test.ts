/**
 * A session that is staged while it runs, seen from outside: what it costs, and that the sealed drop is the source's,
 * whatever happens meanwhile. The daemon's part is in `test/daemon/staging.slow.test.ts`.
 */
import type { ChildProcess } from 'node:child_process';
import { afterAll, describe, expect, it } from 'vitest';
import { closeTables } from '../chaos/table.ts';
import { useCleanups } from '../support/cleanups.ts';
import { waitFor } from '../support/daemon.ts';
import { isPage } from '../support/engine-source.ts';
import { flowdrop } from '../support/flowdrop.ts';
import { createRow, createStagedDay, listTimes, type StagedDay } from './staged-day.ts';

const DATE = '2026-11-19';
const ROWS = 6_000;

const { cleanups, folder } = useCleanups();
cleanups.push(closeTables);
const notes: string[] = [];
afterAll(() => console.info(notes.join('\n')));

async function createDay({ date = DATE, rows = ROWS } = {}): Promise<StagedDay> {
  const day = await createStagedDay(await folder(), { date, rows });
  cleanups.push(() => day.close());
  return day;
}

/** Stages at each of the times. @returns what the last call said */
async function stageAt(day: StagedDay, times: readonly string[]) {
  let said = {};
  for (const time of times) {
    await day.moveTo(time);
    const staged = await day.stage();
    expect(staged.code, staged.stderr).toBe(0);
    said = JSON.parse(staged.stdout);
  }
  return said;
}

async function seal(day: StagedDay, time = '16:31') {
  await day.moveTo(time);
  const run = await day.run();
  expect(run.code, run.stderr + run.stdout).toBe(0);
  expect(await day.compare()).toEqual([]);
}

describe('a session that is staged while it runs', () => {
  it('has the rows of the source, and costs at most 1.03 times the fewest requests', async () => {
    const day = await createDay({ rows: 25_000 });
    const said = await stageAt(day, [...listTimes('09:40', '16:20', 40), '16:25']);
    expect(said).toMatchObject({ job: 'nightly', date: DATE });
    const { stdout } = await flowdrop(['status', day.job], day);
    expect(stdout).toMatch(/2026-11-19 is staged to (?:15:5\d|16:\d\d) \(exchange time\), 24,\d{3} rows/);
    const staged = day.front.answered.length;
    await seal(day);
    const all = day.front.answered.length;
    notes.push(`fewest ${day.fewest} requests, staged day ${all}, of them ${all - staged} after the close`);
    expect(all).toBeLessThanOrEqual(day.fewest * 1.03);
    expect(all - staged).toBeLessThanOrEqual(12);
  }, 600_000);

  it('has rows that come late or change after their page was staged, at the price of their pages', async () => {
    const day = await createDay();
    await stageAt(day, ['11:00', '14:00', '16:20']);
    const before = day.front.answered.length;
    await day.moveTo('16:31');
    const changed = [50, 51, 2_000].map((k) => day.table.rows[k]).filter((row) => row !== undefined);
    const values = (k: number) => ({ premium: 4_711 + k, updated_timestamp: '1799000000000' });
    await day.table.change({
      remove: changed.map(({ id }) => id),
      add: [
        ...changed.map((row, k) => ({ ...row, values: { ...row.values, ...values(k) } })),
        ...[1, 2, 3]
          .map((k) => createRow(DATE, ROWS, k * 40, { id: `late-${k}` }))
          .map((row, k) => ({ ...row, id: `late-${k + 1}` })),
      ],
    });
    await seal(day);
    notes.push(`late and corrected rows in 4 pages: ${day.front.answered.length - before} requests after the close`);
    expect(day.front.answered.length - before).toBeLessThanOrEqual(30);
  }, 300_000);

  it('is continued after a kill in the middle, and fetches no page twice that was staged', async () => {
    const day = await createDay();
    await day.moveTo('13:00');
    let child: ChildProcess | undefined;
    const killed = day.stage({
      onStart: (started) => {
        child = started;
      },
    });
    await waitFor(() => day.front.answered.length >= 30, { pollMs: 1 });
    child?.kill('SIGKILL');
    expect((await killed).code).toBeNull();
    await stageAt(day, ['13:05', '16:25']);
    await seal(day);
    const pages = day.front.answered.filter(({ sql }) => isPage(sql)).length;
    notes.push(`killed in the middle: ${pages} pages of ${day.fewest} at the fewest`);
    // Pages in flight are lost.
    expect(pages).toBeLessThanOrEqual(day.fewest + 12);
  }, 300_000);

  it('may be a half day; a holiday has nothing to stage', async () => {
    const day = await createDay({ date: '2026-11-27', rows: 12_000 });
    await stageAt(day, ['11:30', '13:20']);
    expect(day.front.answered.length).toBeGreaterThan(200);
    await seal(day, '13:31');
    await day.clock.moveTo(Date.parse('2026-11-26T17:00:00Z'));
    const holiday = await day.stage();
    expect([holiday.code, JSON.parse(holiday.stdout)]).toMatchObject([
      0,
      { date: null, reason: '2026-11-26 has no session' },
    ]);
  }, 300_000);
});
