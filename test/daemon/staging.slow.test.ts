/** The daemon stages a session, from a start at noon to the scheduled run. When it does is in `staging.test.ts`. */
import { expect, it } from 'vitest';
import { parseWallClock } from '../../src/calendar/wall-clock.ts';
import { closeTables } from '../chaos/table.ts';
import { createRow, createStagedDay, LIMIT } from '../flow/staged-day.ts';
import { useCleanups } from '../support/cleanups.ts';
import { startDaemon, waitFor } from '../support/daemon.ts';
import { isPage } from '../support/engine-source.ts';
import { startFaultProxy } from '../support/fault-proxy.ts';
import { writeJob } from '../support/jobs.ts';

const { cleanups, folder } = useCleanups();
cleanups.push(closeTables);

const SESSION = '2026-11-19';
/** Then it is the oldest whole date of the lookback; at midnight it begins to expire. */
const EXPIRING = '2026-11-05';
const EXPIRING_ROWS = 300;
/** So many that staging is worth its requests also after it was stopped. */
const ROWS = 12_000;
const FEWEST = ROWS / LIMIT;
/** Slow enough that staging lasts until it is stopped. */
const SLOW_MS = 2_000;
/** Of the staging when it is stopped. */
const IN_FLIGHT = 4;
/** Two seconds before 12:10. */
const BEFORE_TICK = 12 * 3600 + 10 * 60 - 2;

it('staging gives way to a date of another job that expires tonight; after an hour without the API the run has more left', async () => {
  const before = Array.from({ length: EXPIRING_ROWS }, (_, k) => {
    const id = `old-${k}`;
    return { id, values: { ...createRow(EXPIRING, EXPIRING_ROWS, k).values, id } };
  });
  // Each tick is the only one of its year: none is caught up.
  const schedule = 'schedule:\n  cron: "31 16 19 11 *"\n  stage: 5m';
  const day = await createStagedDay(await folder(), { date: SESSION, rows: ROWS, schedule, before });
  cleanups.push(() => day.close());
  const once = 'schedule:\n  cron: "10 12 19 11 *"';
  await writeJob(day.cwd, { name: 'expiring', to: 'expiring-drops', reports: '', schedule: once });
  const proxy = await startFaultProxy(day.front.url);
  cleanups.push(() => proxy.close());
  await day.moveTo('12:00');
  const env = { ...day.env, FLOWDROP_API_URL: proxy.url, FLOWDROP_PORTAL_URL: proxy.url, FLOWDROP_LOG_LEVEL: 'debug' };
  const daemon = await startDaemon(day.cwd, env);
  cleanups.push(() => daemon.stop());
  const pages = () =>
    day.front.answered.filter(({ sql }) => isPage(sql)).map(({ sql }) => (sql.includes(EXPIRING) ? EXPIRING : SESSION));
  const countPages = () => pages().filter((date) => date === SESSION).length;
  const moveTo = async (time: string) => await day.moveTo(time, daemon.pid);
  await daemon.until(2, 'scheduled');
  await daemon.untilIdle();

  proxy.follow([{ on: ({ sql }) => isPage(sql), fault: { kind: 'delay', before: 'head', ms: SLOW_MS } }]);
  await moveTo('12:05');
  expect(await waitFor(() => pages().length > 0)).toBe(true);
  // Its timer fires by itself.
  await day.clock.moveTo(parseWallClock(SESSION, BEFORE_TICK), daemon.pid);
  await daemon.until(1, 'finished');
  proxy.follow([]);
  await daemon.untilIdle();
  expect(daemon.of('finished')).toMatchObject([{ job: 'expiring' }]);
  const order = pages();
  const [first, last] = [order.indexOf(EXPIRING), order.lastIndexOf(EXPIRING)];
  const between = order.slice(first, last).filter((date) => date === SESSION).length;
  expect(order.filter((date) => date === EXPIRING)).toHaveLength(EXPIRING_ROWS / LIMIT);
  expect(between).toBeLessThanOrEqual(IN_FLIGHT);
  expect(first).toBeLessThan(FEWEST * 0.3);
  expect(await day.compare(EXPIRING, 'expiring-drops')).toEqual([]);

  await moveTo('15:00');
  await daemon.until(daemon.of('staged').length + 1, 'staged');
  await daemon.untilIdle();
  const [staged, asked] = [countPages(), proxy.requests];
  proxy.follow([{ on: () => true, fault: { kind: 'status', status: 503, body: 'html' } }]);
  // Of an hour without the API: the staging that would have fetched what the session has had since.
  await moveTo('16:20');
  await daemon.until(1, 'stage-failed');
  await daemon.untilIdle();
  const refused = proxy.requests - asked;
  expect(countPages()).toBe(staged);
  proxy.follow([]);
  await moveTo('16:31');
  await daemon.until(2, 'finished');
  expect(daemon.of('finished')[1]).toMatchObject({ job: 'nightly' });
  expect(await day.compare()).toEqual([]);
  const left = countPages() - staged;
  console.info(
    `${staged} pages were staged before the API went down, ${refused} requests failed, ${left} pages were left for the run; ${FEWEST} are the fewest`,
  );
  expect(staged).toBeGreaterThan(FEWEST * 0.5);
  expect(left).toBeGreaterThan(FEWEST * 0.2);
  // What is in flight when a staging is stopped is fetched again, and the pages after it are cut differently.
  expect(staged + left).toBeLessThanOrEqual(FEWEST * 1.1);
}, 300_000);
