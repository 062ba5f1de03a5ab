/**
 * `schedule.sealed_by` through the commands: who misses the deadline, and when it is over. What the daemon does when it
 * passes is in `test/daemon/loop.test.ts`, the metric and its rule in `test/daemon/web/metrics.external.test.ts`.
 */
import { beforeAll, expect, it } from 'vitest';
import { parseSecond, parseWallClock } from '../../../src/calendar/wall-clock.ts';
import { useCleanups } from '../../support/cleanups.ts';
import { flowdrop, startService, type TestService } from '../../support/flowdrop.ts';
import { writeJob } from '../../support/jobs.ts';
import { createMovedClock } from '../../support/moved-clock.ts';

const DATE = '2026-11-20';

let service: TestService;
const { folder, keep } = useCleanups();

beforeAll(async () => {
  const served = ['--generate', '1', '--generate-rows', '300', '--as-of', `${DATE}T23:00:00Z`];
  service = await keep(startService(served));
});

it('a session that is not sealed and mailed by its deadline is an alert, and exit code 3 of status, until it is', async () => {
  const cwd = await folder();
  const schedule = 'schedule: {cron: "31 16 * * 1-5", sealed_by: "17:30"}\nalerts: {to: [ops@example.com]}';
  await writeJob(cwd, { schedule });
  const clock = await createMovedClock(cwd, parseWallClock(DATE, parseSecond('17:29:00')));
  const env: Record<string, string> = { ...service.env, ...clock.env };
  const type = async (code: number, ...args: readonly string[]) =>
    (await flowdrop(['--jobs', '.', ...args], { cwd, env, code })).stdout;
  const [document] = JSON.parse(await type(0, '--json', 'status', 'nightly'));
  // The deadline of the day before has passed, too, but then nobody had tried.
  expect(document).toMatchObject({ next_deadline: `${DATE}T22:30:00.000Z`, late: null });
  const nowhere = { ...env, FLOWDROP_API_URL: 'http://127.0.0.1:9' };
  await flowdrop(['--jobs', '.', 'run', 'nightly'], { cwd, env: nowhere, code: 1 });
  await clock.moveTo(parseWallClock(DATE, parseSecond('17:30:05')));
  const late = `needs you: ${DATE} was to be sealed and mailed by Nov 20, 17:30 ET, but`;
  expect(await type(3, 'status', 'nightly')).toContain(
    `${late} nothing is known of it: \`flowdrop runs nightly last\``,
  );
  expect(await type(0, 'alert', 'nightly')).toContain(`for ops@example.com: nightly/date-late/${DATE}`);
  const open = await type(0, 'alerts');
  expect(open).toMatch(/^nightly: 2 open alerts\n\[error\] The run failed: API_UNREACHABLE\n/);
  expect(open).toContain(`\n[error] ${DATE} has missed its deadline\n    ${DATE} was to be sealed and mailed by`);
  expect(open).toMatch(/told: ops@example\.com \(only in a folder\) Nov 20, 17:30 ET\n$/);
  await type(0, 'run', 'nightly', '--no-report');
  const owed = `${late} the mail server has not accepted its report for 2 recipients`;
  expect(await type(3, 'status', 'nightly')).toContain(owed);
  expect(await type(0, 'run', 'nightly')).toContain('written for desk@example.com, not sent: ');
  expect(await type(3, 'status', 'nightly')).toContain(owed);
  env['FLOWDROP_SMTP_URL'] = 'folder';
  expect(await type(0, 'run', 'nightly')).toContain('written for desk@example.com: ');
  expect(await type(0, 'status', 'nightly')).not.toContain('needs you');
  expect(await type(0, 'alerts', 'nightly')).toBe('nightly: no open alerts\n');
});
