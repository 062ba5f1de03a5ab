/** What `flowdrop check` says of job files that are fine by themselves and not together, and `help` of a wrong name. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { flowdrop, makeFolder, REPO } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';

describe('job files of one name or dataset', () => {
  let folder: Awaited<ReturnType<typeof makeFolder>>;
  let files: string[] = [];
  beforeAll(async () => {
    folder = await makeFolder();
    files = [
      await writeJob(folder.path, { name: 'first', to: 'one' }),
      await writeJob(folder.path, { name: 'second', to: 'one' }),
    ];
  });
  afterAll(() => folder.remove());

  test('make the later one a fault, in one JSON document', async () => {
    const { code, stdout } = await flowdrop(['--json', 'check', ...files], { cwd: folder.path });
    expect(code).toBe(2);
    expect(JSON.parse(stdout)).toMatchObject([
      { ok: true },
      { ok: false, code: 'JOB_INVALID', message: expect.stringMatching(/both write one\//) },
    ]);
  });

  test('are told below the file that comes second', async () => {
    const { code, stdout, stderr } = await flowdrop(['check', ...files], { cwd: folder.path });
    expect(code).toBe(2);
    expect(stdout).toMatch(
      /first[^\n]*\n[\s\S]*second[\s\S]*both write one\/[\s\S]*Give each job its own name and dataset/,
    );
    expect(stderr).toBe('');
  });
});

test('help of a command that there is not says so, and which was meant', async () => {
  const { code, stdout, stderr } = await flowdrop(['help', 'rnu'], { cwd: REPO });
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain("unknown command 'rnu'");
  expect(stderr).toContain('Did you mean run?');
});
