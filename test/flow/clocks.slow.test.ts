/**
 * A wrong clock as an operator meets it: exit code, words on the terminal, log, alert, plan. What is sealed and what is held
 * back under which clocks is tested in `test/export/clocks.slow.test.ts`.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { useCleanups } from '../support/cleanups.ts';
import { startFaultProxy } from '../support/fault-proxy.ts';
import { flowdrop, startService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createMovedClock } from '../support/moved-clock.ts';

const { folder, keep } = useCleanups();

it('an own clock that jumped back 400 days ends a run with 3, and everybody is told which clock differs by how much', async () => {
  const service = await keep(
    startService(['--generate', '1', '--generate-rows', '400', '--as-of', '2026-11-20T23:00:00Z']),
  );
  const cwd = await folder();
  const job = await writeJob(cwd, { reports: 'alerts:\n  to: [ops@example.com]' });
  const now = Date.parse((await fetch(`${service.url}/healthz/live`)).headers.get('date') ?? '');
  const clock = await createMovedClock(cwd, now - 400 * 86_400_000);
  const env = { ...service.env, ...clock.env, FLOWDROP_CLOCK: '' };

  const run = await flowdrop(['run', job], { cwd, env, code: 3 });
  const conflict =
    /the source's clock is (400 d|399 d 23 h) ahead of this machine's \(Nov 20, 2026, 18:\d\d ET, here Oct 16, 2025, /;
  // One line for each of the two reasons, however many dates the clocks put in doubt.
  const held = run.stdout.split('\n').filter((line) => line.includes('held back'));
  expect(held).toEqual([
    expect.stringMatching(/^2025-10-02 to 2025-10-16, 11 dates: held back, it has begun to expire according to/),
    expect.stringMatching(
      /^2026-11-06 to 2026-11-20, 11 dates: held back, it is not over according to this machine's clock, which shows 2025-10-16 /,
    ),
  ]);
  expect(run.stdout).toMatch(new RegExp(`^The clocks differ: ${conflict.source}`, 'm'));
  expect(run.stdout).toContain('NTP');
  expect(run.stderr).toContain('"event":"clocks-differ"');
  expect(run.stderr).toContain('"event":"date-held"');
  const outbox = join(cwd, 'out', 'mail');
  const mails = (await readdir(outbox)).filter((name) => name.endsWith('.eml'));
  expect(mails).toHaveLength(1);
  const mail = (await readFile(join(outbox, mails[0] ?? ''), 'utf8')).replace(/=\r?\n/g, '');
  expect(mail).toContain('The clocks differ');

  const plan = await flowdrop(['plan', job], { cwd, env });
  expect(plan.stdout, plan.stderr).toMatch(/^ {2}2026-11-06 to 2026-11-20, 11 dates: held back, it is not over/m);

  // A rehearsal that goes by the service's clock alone.
  const trusting = await flowdrop(['run', job], { cwd, env: { ...env, FLOWDROP_CLOCK: 'source' }, code: 0 });
  expect(trusting.stdout).toContain('Sealed 1 of 1 date, 400 rows');
});

it('doctor convicts clocks that are slow together by a row that cannot be visible yet', async () => {
  const service = await keep(
    startService(['--generate', '3', '--generate-rows', '400', '--as-of', '2026-11-20T23:00:00Z']),
  );
  const behindMs = -2 * 86_400_000;
  const proxy = await keep(
    startFaultProxy(service.url, [{ on: () => true, fault: { kind: 'date', shiftMs: behindMs } }]),
  );
  const cwd = await folder();
  const clock = await createMovedClock(cwd, Date.parse('2026-11-20T23:00:30Z') + behindMs);
  const env = { ...service.env, ...clock.env, FLOWDROP_API_URL: proxy.url, FLOWDROP_CLOCK: '' };
  const run = await flowdrop(['--json', 'doctor', await writeJob(cwd, { reports: '' })], { cwd, env });
  const { checks } = JSON.parse(run.stdout) as { checks: { check: string; status: string; seen: string }[] };
  const of = (name: string) => checks.find(({ check }) => check === name);
  expect(run.code).toBe(1);
  expect(of('historical: newest row')).toMatchObject({
    status: 'fail',
    seen: expect.stringMatching(
      /^a row was seen that cannot be visible before Nov 20, 2026, 16:\d\d ET, so a clock is slow: /,
    ),
  });
});

it('a setting FLOWDROP_CLOCK that means nothing is refused with what is allowed', async () => {
  const cwd = await folder();
  const env = { FLOWDROP_API_URL: 'http://127.0.0.1:1', FLOWDROP_API_KEY: 'cus_1', FLOWDROP_CLOCK: 'mine' };
  const run = await flowdrop(['run', await writeJob(cwd, { reports: '' })], { cwd, env });
  expect(run.code).toBe(2);
  expect(run.stderr).toContain('FLOWDROP_CLOCK is "mine"; allowed are checked and source');
});
