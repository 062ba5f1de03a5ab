/** An API that says it shows fewer days than its contract: what it has clipped by its own word is not sealed as whole. */
import { expect, it } from 'vitest';
import { useCleanups } from '../support/cleanups.ts';
import { startFaultProxy } from '../support/fault-proxy.ts';
import { flowdrop, startService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';

const { folder, keep } = useCleanups();

interface Result {
  readonly dates: readonly { date: string; status: string; error?: { code: string; message: string } }[];
}

it('a date outside the lookback that answers tell fails and is named, the others are sealed', async () => {
  const service = await keep(
    startService(['--generate', '8', '--generate-rows', '300', '--as-of', '2026-11-20T23:00:00Z']),
  );
  const meta = { lookback_days: 7 };
  const proxy = await keep(startFaultProxy(service.url, [{ on: () => true, fault: { kind: 'envelope', meta } }]));
  const cwd = await folder();
  const run = await flowdrop(['--json', 'run', await writeJob(cwd, { reports: '' })], {
    cwd,
    env: { ...service.env, FLOWDROP_API_URL: proxy.url },
  });
  expect(run.code, run.stderr).toBe(1);
  const { dates } = JSON.parse(run.stdout) as Result;
  expect(dates.map(({ date, status, error }) => [date, error?.code ?? status])).toEqual([
    ...['2026-11-11', '2026-11-12', '2026-11-13'].map((date) => [date, 'DATE_CLIPPED']),
    ...['2026-11-16', '2026-11-17', '2026-11-18', '2026-11-19', '2026-11-20'].map((date) => [date, 'sealed']),
  ]);
  expect(dates[0]?.error?.message).toContain('the API shows 7 days, not 15');
});
