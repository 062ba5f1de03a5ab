/** A source that lags at the close, or fails over to a replica that does: beside sealed sessions it is seen, and nothing is sealed. The rule: `test/plan/session-habit.test.ts`. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { formatSecond } from '../../src/calendar/wall-clock.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, readManifest } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createMovedClock } from '../support/moved-clock.ts';
import { startRawSource, toRaw } from '../support/raw-source.ts';
import { createTrade } from '../support/trades.ts';

const { folder, keep } = useCleanups();

const ROWS = 1_600;
const TODAY = '2026-11-20';
const LATE = 'late';

/** Evenly from the opening to the close of index options. */
function createDay(date: string) {
  return Array.from({ length: ROWS }, (_, k) => {
    const time = `${date} ${formatSecond(34_200 + Math.floor((k * 24_299) / (ROWS - 1)))}`;
    return toRaw(createTrade(k, { id: `${date}-${k}`, date, time, symbol: `SYM${k % 8}` }));
  });
}

it('a session is sealed only when rows and symbols of its end are as sealed sessions have them', async () => {
  const engine = await keep(openEmbeddedEngine());
  const days = ['2026-11-17', '2026-11-18', '2026-11-19', TODAY].flatMap(createDay);
  days.push(toRaw({ ...days.at(-7)?.row, id: LATE }));
  const options = { rowLimit: 1_000, now: '2026-11-19T22:00:00Z' };
  const source = await keep(startRawSource(engine, days, options));
  await engine.command('CREATE TABLE whole ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM RawOptionTrades');
  const show = async (condition: string) => {
    await engine.command('TRUNCATE TABLE RawOptionTrades');
    await engine.command(
      `INSERT INTO RawOptionTrades SELECT * FROM whole WHERE id != '${LATE}' AND (date < '${TODAY}' OR ${condition})`,
    );
  };
  const cwd = await folder();
  const job = await writeJob(cwd, { reports: '' });
  const clock = await createMovedClock(cwd, Date.parse(options.now));
  const run = async (code = 0) => {
    await clock.moveTo(Date.parse(options.now));
    return await flowdrop(['run', job], { cwd, env: { ...source.env, ...clock.env, FLOWDROP_CLOCK: '' }, code });
  };

  await show('false');
  await run();

  options.now = '2026-11-20T21:35:00Z';
  await show(`time <= '${TODAY} 16:00:30'`);
  const behind = await run(3);
  expect(behind.stdout).toMatch(/^2026-11-20: held back, .*: 0 rows from 16:00:\d0 on .* the 3 sessions before/m);

  await show(`time <= '${TODAY} 14:30:00' OR symbol >= 'SYM4'`);
  const half = await run(3);
  expect(half.stdout).toMatch(/^2026-11-20: held back, .*: 4 of 8 symbols have no rows after 14:\d\d:\d\d/m);

  // The rows of half of the symbols are staged already: fetching the others is answered by a replica that is behind.
  await show('true');
  source.onPage = async () => await show(`time <= '${TODAY} 16:09:00'`);
  const failover = await run(1);
  expect(failover.stderr).toMatch(/all rows after 16:08:\d\d \(exchange time\): the source lags/);

  source.onPage = () => undefined;
  await show('true');
  await run();
  const manifest = async () => await readManifest(join(cwd, 'drops'), TODAY);
  expect(await manifest()).toMatchObject({ rows: ROWS, condition: 'available', checks: [] });

  // The audit counts a late row, and the replica that answers then is behind: it is looked for again.
  const comesLate = `INSERT INTO RawOptionTrades SELECT * FROM whole WHERE id = '${LATE}'`;
  await engine.command(comesLate);
  source.onPage = async () => await show('true');
  await run();
  expect(await manifest()).toMatchObject({ rows: ROWS, revision: 1 });
  source.onPage = () => undefined;
  await engine.command(comesLate);
  await run();
  expect(await manifest()).toMatchObject({ rows: ROWS + 1, revision: 2 });
});
