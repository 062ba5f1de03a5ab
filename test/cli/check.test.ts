/** What `flowdrop check` says of job files that are fine by themselves and not together, and `help` of a wrong name. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createSvgLogo } from '../report/logos.ts';
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

test('columns of SQL without a type are counted, and named in a warning, until they have one', async () => {
  const { path: cwd, remove } = await makeFolder();
  try {
    const file = join(cwd, 'hours.yaml');
    const sql = `SELECT symbol, substring(time, 1, 13) || ':00' AS hour, sum(premium) AS total, count() FROM RawOptionTrades WHERE {window} GROUP BY symbol, hour`;
    const head = 'name: hours\ndrop: {to: drops, dataset: hours}\n';
    const source = `source:\n  api: historical\n  sql: "${sql}"\n  grain: hour\n  time: hour\n  split: [symbol]\n`;
    await writeFile(file, head + source);
    const warned = await flowdrop(['check', file], { cwd });
    expect(warned.code, warned.stdout).toBe(0);
    expect(warned.stdout).toContain('4 columns of RawOptionTrades to drops/hours');
    expect(warned.stdout).toMatch(/warning: kept as text, .*`source\.types`.*: total, one without a name \(AS\)/);
    const named = source.replace('count()', 'count() AS trades');
    await writeFile(file, `${head}${named}  types: {total: double, trades: int64}\n`);
    const { stdout } = await flowdrop(['check', file], { cwd });
    expect(stdout).toContain('4 columns of RawOptionTrades to drops/hours');
    expect(stdout).not.toContain('warning');
  } finally {
    await remove();
  }
});

test('help of a command that there is not says so, and which was meant', async () => {
  const { code, stdout, stderr } = await flowdrop(['help', 'rnu'], { cwd: REPO });
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain("unknown command 'rnu'");
  expect(stderr).toContain('Did you mean run?');
});

test('a report’s look is read, too: a logo that is not there is a fault, and shades of the accent are named', async () => {
  const { path: cwd, remove } = await makeFolder();
  try {
    await mkdir(join(cwd, 'jobs'));
    const report = '{template: flow, to: [a@example.com], accent: "#ffb000", logo: logo.svg}';
    const head = 'name: look\nsource: {api: historical}\ndrop: {to: drops, dataset: trades}\n';
    await writeFile(join(cwd, 'jobs', 'look.yaml'), `${head}reports: [${report}]\n`);
    const missing = await flowdrop(['check'], { cwd });
    expect(missing.code).toBe(2);
    expect(missing.stdout).toContain('FAIL  jobs/look.yaml: jobs/logo.svg: the logo cannot be read: ENOENT');
    await writeFile(join(cwd, 'jobs', 'logo.svg'), createSvgLogo());
    const { code, stdout } = await flowdrop(['check'], { cwd });
    expect(code, stdout).toBe(0);
    expect(stdout).toContain('accent #ffb000 is shown as #9e6d00 on white, so that it can be read');
  } finally {
    await remove();
  }
});
