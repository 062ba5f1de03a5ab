/** Templates of a job that would stop flowdrop itself: each is a fault, and no run ends well without its mail. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, listFiles, startService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';

const { folder, keep } = useCleanups(afterAll);

async function writeTemplate(body: string) {
  const cwd = await folder();
  await mkdir(join(cwd, 'brand'));
  await writeFile(join(cwd, 'brand', 'flow.txt'), `Hello\n${body}\n`);
  const reports = 'reports:\n  - {template: flow, to: [desk@example.com], templates: brand}';
  return { cwd, job: await writeJob(cwd, { reports }) };
}

it.each([
  [
    'loops without an end',
    '<% const next = () => Promise.resolve().then(next); next() %>',
    /does not end within 5 s/,
    2,
  ],
  ['ends the process', '<% process.exit(0) %>', /brand\/flow\.txt:2: process is not defined/, 2],
  ['finds a way to', `<% it.constructor.constructor('return process')().exit(0) %>`, /ENDED_EARLY: /, 1],
])('check refuses a template that %s', async (_, body, what, exit) => {
  const { cwd, job } = await writeTemplate(body);
  const { code, stdout, stderr } = await flowdrop(['check', job], { cwd });
  expect(stdout + stderr).toMatch(what);
  expect(code).toBe(exit);
});

it('a run whose template ends the process has failed, and says so', async () => {
  const service = await keep(
    startService(['--generate', '1', '--generate-rows', '300', '--as-of', '2026-11-20T23:00:00Z']),
  );
  const { cwd, job } = await writeTemplate(`<% it.constructor.constructor('return process')().exit(0) %>`);
  const { stderr } = await flowdrop(['run', job], { cwd, env: service.env, code: 1 });
  expect(stderr).toContain('ENDED_EARLY: ');
  expect(await listFiles(join(cwd, 'out', 'mail'))).toEqual([]);
});
