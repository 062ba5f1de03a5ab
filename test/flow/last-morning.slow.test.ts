/** The last morning of a date: its opening is still visible, what came before it may not be. At the edge by the millisecond: `test/plan/dates.test.ts`. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, readManifest, startService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';

const { folder, keep } = useCleanups();

it('a date of which all rows are still visible is exported, as complete only where other sessions show when they begin', async () => {
  // 08:00 in New York: 2026-11-05 has rows from 09:30 on.
  const service = await keep(
    startService(['--generate', '12', '--generate-rows', '200', '--as-of', '2026-11-20T13:00:00Z']),
  );
  const seal = async (cwd: string, ...range: string[]) => {
    const args = ['backfill', join(cwd, 'nightly.yaml'), '--from', ...range];
    const { code, stderr } = await flowdrop(args, { cwd, env: service.env });
    return { code, stderr };
  };
  const read = async (cwd: string) => {
    const { condition, rows, degraded_reason } = await readManifest(join(cwd, 'drops'), '2026-11-05');
    return { condition, rows, degraded_reason };
  };

  const alone = await folder();
  await writeJob(alone, { reports: '' });
  expect((await seal(alone, '2026-11-05', '--to', '2026-11-05')).code).toBe(3);
  expect(await read(alone)).toEqual({
    ...{ condition: 'degraded', rows: 200 },
    degraded_reason: expect.stringMatching(/^rows before 2026-11-05 08:0\d:\d\d \(exchange time\) had left/),
  });

  const known = await folder();
  await writeJob(known, { reports: '' });
  expect((await seal(known, '2026-11-17', '--to', '2026-11-19')).code).toBe(0);
  expect((await seal(known, '2026-11-05', '--to', '2026-11-05')).code).toBe(0);
  expect(await read(known)).toEqual({ condition: 'available', rows: 200, degraded_reason: undefined });
  const gone = await seal(known, '2026-11-04', '--to', '2026-11-05');
  expect(gone.code).toBe(2);
  expect(gone.stderr).toContain('The earliest date that can still be exported completely is 2026-11-05');
});
