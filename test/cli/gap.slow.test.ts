/**
 * A known gap over several runs, as a user sees it: exit codes, `gap accept`, `gap list`, status and verify. The rule by
 * itself is in `test/ledger/conditions.test.ts`, that alerts heed it in `test/alert/causes.test.ts`.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, readJson, startService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';

const MISSING = '2026-11-18';
const { cleanups, folder } = useCleanups();

it('a missing date fails the run that finds it, no later one, and once accepted it is only shown', async () => {
  const service = await startService(['--generate', '2', '--generate-rows', '300', '--as-of', '2026-11-20T23:00:00Z']);
  cleanups.push(service.stop);
  const cwd = await folder();
  const job = await writeJob(cwd, { reports: '' });
  const type = async (...args: readonly string[]) => await flowdrop(args, { cwd, env: service.env });
  const statusOf = async () => {
    const { stdout } = await type('--json', 'status', job);
    const [status] = JSON.parse(stdout) as readonly Record<string, unknown>[];
    return status;
  };
  expect((await type('run', job)).code).toBe(0);
  const conditions = join(cwd, 'drops', '_flowdrop', 'trades', 'condition.json');
  const known = await readJson<readonly unknown[]>(conditions);
  // The archive says that the job knew an earlier session, of which the source has no rows.
  const unsealed = { last_modified_date: null, revision: null, rows: null, size: null };
  const earlier = { date: MISSING, condition: 'pending', ...unsealed };
  await writeFile(conditions, JSON.stringify([earlier, ...known]));
  expect((await type('run', job)).code).toBe(3);
  const incomplete = await statusOf();
  const again = await type('run', job);
  expect(again.code, again.stderr).toBe(0);
  const done = await statusOf();
  expect(done).toMatchObject({ last_run: { outcome: 'done', finished_at: done?.['last_success'] } });
  expect(done?.['last_success']).not.toBe(incomplete?.['last_success']);

  expect(await type('gap', 'accept', job, MISSING)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--reason is missing'),
  });
  expect(await type('gap', 'accept', job, '2026-11-20', '--reason', 'x')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('2026-11-20 is available; only a missing, degraded or expired date'),
  });
  const accepted = await type('gap', 'accept', job, MISSING, '--reason', 'outage at the vendor', '--by', 'alice');
  expect(accepted).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^2026-11-18: missing, accepted by alice on .*: outage at the vendor\n$/),
  });
  const text = /2026-11-18 {1,2}missing,? +accepted by alice on \w{3} \d+, \d{4}: outage at the vendor/;
  expect((await type('gap', 'list', job)).stdout).toMatch(text);
  expect((await type('run', job)).code).toBe(0);
  const { stdout } = await type('status', job);
  expect(stdout).toMatch(text);
  expect(stdout).not.toContain('begins to expire');
  expect((await type('verify', job)).code).toBe(0);
});
