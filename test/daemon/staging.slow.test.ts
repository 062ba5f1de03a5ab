/** The daemon stages a session, from a start at noon to the scheduled run. Single steps are in `stage-step.test.ts`. */
import { expect, it } from 'vitest';
import { closeTables } from '../chaos/table.ts';
import { createStagedDay } from '../flow/staged-day.ts';
import { useCleanups } from '../support/cleanups.ts';
import { startDaemon } from '../support/moved-daemon.ts';

const { cleanups, folder } = useCleanups();
cleanups.push(closeTables);

it('a daemon that starts at noon stages what is there, goes on by itself, and seals after the close', async () => {
  const schedule = 'schedule:\n  cron: "31 16 * * 1-5"\n  stage: 5m';
  const day = await createStagedDay(await folder(), { date: '2026-11-19', rows: 6_000, schedule });
  cleanups.push(() => day.close());
  await day.moveTo('12:00');
  const daemon = await startDaemon(day.cwd, day.clock, { ...day.env, FLOWDROP_LOG_LEVEL: 'debug' });
  cleanups.push(() => daemon.stop());
  // No earlier tick is caught up: the source has no sealed session before today's.
  await daemon.untilIdle();
  const counts: number[] = [];
  for (const [index, time] of ['12:05', '15:00', '16:20'].entries()) {
    await day.moveTo(time, daemon.pid);
    await daemon.until(index + 1, 'staged', 'stage-failed');
    await daemon.untilIdle();
    counts.push(day.front.answered.length);
  }
  expect(daemon.of('stage-failed')).toEqual([]);
  expect(counts[0]).toBeGreaterThan(40);
  expect(counts[2]).toBeGreaterThan(115);
  const runs = daemon.of('finished').length;
  await day.moveTo('16:31', daemon.pid);
  await daemon.until(runs + 1, 'finished');
  expect(await day.compare()).toEqual([]);
  expect(day.front.answered.length - (counts[2] ?? 0)).toBeLessThanOrEqual(20);
}, 300_000);
