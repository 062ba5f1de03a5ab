/**
 * A session that is staged while it runs, seen from outside: what it costs, and that the sealed drop is the source's,
 * whatever happens meanwhile. The daemon's part is in `test/daemon/staging.slow.test.ts`.
 */
import { afterAll, describe, expect, it } from 'vitest';
import { closeTables } from '../chaos/table.ts';
import { useCleanups } from '../support/cleanups.ts';
import { createStagedDay, listTimes, type StagedDay } from './staged-day.ts';

const DATE = '2026-11-19';
const ROWS = 12_000;

const { cleanups, folder } = useCleanups();
cleanups.push(closeTables);
const notes: string[] = [];
afterAll(() => console.info(notes.join('\n')));

async function createDay(date = DATE): Promise<StagedDay> {
  const day = await createStagedDay(await folder(), { date, rows: ROWS });
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
    const day = await createDay();
    const said = await stageAt(day, listTimes('09:30', '16:30', 5));
    expect(said).toMatchObject({ job: 'nightly', date: DATE });
    const staged = day.front.answered.length;
    await seal(day);
    const all = day.front.answered.length;
    notes.push(`${ROWS} rows: fewest ${day.fewest}, staged day ${all} (${all - staged} after the close)`);
    expect(all).toBeLessThanOrEqual(day.fewest * 1.03);
  }, 300_000);
});
