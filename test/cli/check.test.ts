/** What `flowdrop check` says of job files that are fine by themselves and not together, and `help` of a wrong name. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { createSvgLogo } from '../report/logos.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, REPO } from '../support/flowdrop.ts';
import { serveHttp } from '../support/http-server.ts';
import { writeJob } from '../support/jobs.ts';

const { folder } = useCleanups();

test('of two job files of one dataset the later one is a fault, beside one that is right', async () => {
  const cwd = await folder();
  const files = [await writeJob(cwd, { name: 'first', to: 'one' }), await writeJob(cwd, { name: 'second', to: 'one' })];
  const json = await flowdrop(['--json', 'check', ...files], { cwd });
  expect(json.code).toBe(2);
  expect(JSON.parse(json.stdout)).toMatchObject([
    { ok: true },
    { ok: false, code: 'JOB_INVALID', message: expect.stringMatching(/both write one\//) },
  ]);
  const { code, stdout, stderr } = await flowdrop(['check', ...files], { cwd });
  expect([code, stderr]).toEqual([2, '']);
  expect(stdout).toMatch(
    /^ok .*first[^\n]*\nFAIL .*second[\s\S]*both write one\/[\s\S]*Give each job its own name and dataset/,
  );
});

test.each([
  ['historical', '30 16 * * 1-5', '', /warning: it runs at 16:30, but a session can be sealed from 16:31 on/],
  ['historical', '31 16 * * 1-5', '', undefined],
  ['historical', '31 16 * * 1-5', 'settle: curb', /16:31, but a session can be sealed from 17:16 on/],
  ['historical', '0 8 * * 1-5', '', undefined],
  ['historical', '*/15 9-20 * * 1-5', '', undefined],
  ['chain', '31 15 * * 1-5', '', /warning: it runs at 15:31, but a session can be sealed from 16:15 on/],
  ['chain', '27 16 * * 1-5', '', undefined],
  ['chain', '27 16 * * 1-5', 'settle: 30m', /from 17:00 on/],
] as const)('of %s at %s %s: whether its dates come a day late', async (api, cron, settle, says) => {
  const cwd = await folder();
  const schedule = `schedule: {cron: "${cron}", timezone: America/New_York}`;
  const source = api === 'chain' ? '  symbols: [SPY]' : '';
  const job = await writeJob(cwd, { api, source, drop: settle, schedule, reports: '' });
  const { code, stdout } = await flowdrop(['check', job], { cwd });
  expect(code, stdout).toBe(0);
  if (says) expect(stdout.replaceAll(/\s+/g, ' ')).toMatch(says);
  else expect(stdout).not.toContain('warning');
});

test('columns of SQL without a type are counted, and named in a warning, until they have one', async () => {
  const cwd = await folder();
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
});

test('help of a command that there is not says so, and which was meant', async () => {
  const { code, stdout, stderr } = await flowdrop(['help', 'rnu'], { cwd: REPO });
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain("unknown command 'rnu'");
  expect(stderr).toContain('Did you mean run?');
});

test('a report’s look is read, too: a logo that is not there is a fault, and shades of the accent are named', async () => {
  const cwd = await folder();
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
});

describe('a job file that no run could use', () => {
  /** Checks one file after the job's head. */
  async function checkText(rest: string, env: Readonly<Record<string, string>> = {}, args: readonly string[] = []) {
    const cwd = await folder();
    await writeFile(join(cwd, 'bad.yaml'), `name: bad\nsource:\n  api: historical\n${rest}`);
    const checked = await flowdrop(['check', 'bad.yaml', ...args], { cwd, env });
    const status = await flowdrop(['status', '--jobs', '.'], { cwd });
    return { code: checked.code, shown: checked.stdout + checked.stderr, status: status.stdout + status.stderr };
  }

  test.each([
    ['gs://bucket/x', 'has the scheme gs://, which is not supported'],
    ['https://me:pa/ss@word@host/x', 'has the scheme https://, which is not supported'],
    ['s3://AKIA:pa/ss@word@bucket/x', 'has credentials in it'],
  ])('is refused for drop.to: %s, and no command shows a password', async (to, what) => {
    const { code, shown, status } = await checkText(`drop:\n  to: ${to}\n  dataset: bad\n`);
    expect(code).toBe(2);
    for (const said of [shown, status]) {
      expect(said).toMatch(/bad\.yaml:5: drop\.to: /);
      expect(said).toContain(what);
      expect(said).toContain('allowed: s3://bucket/prefix or a directory');
      expect(said).not.toMatch(/pa\/ss|word/);
    }
  });

  const NINE = (name: string) => Array.from({ length: 9 }, () => name).join(', ');
  test.each([
    ['an alias to itself', 'reports: &x\n  - *x\n', /bad\.yaml:6: an alias stands for a value that contains it/],
    [
      'aliases that multiply',
      `a: &a [${NINE('x')}]\nb: &b [${NINE('*a')}]\nc: &c [${NINE('*b')}]\nd: [${NINE('*c')}]\n`,
      /bad\.yaml:6: Excessive alias count/,
    ],
    ['20,000 nested lists', `reports: ${'['.repeat(20_000)}\n`, /bad\.yaml:5: .*nested too deeply/],
    [
      '400,000 recipients',
      `reports:\n  - template: flow\n    to:\n${'      - someone@example.com\n'.repeat(400_000)}`,
      /bad\.yaml: has 1\d(?:\.\d)? MB; a job file has at most 1/,
    ],
  ])('is refused at once for %s, by status too', async (_, rest, what) => {
    const { code, shown, status } = await checkText(`drop: {to: out, dataset: bad}\n${rest}`);
    expect(code, shown).toBe(2);
    expect(shown).toMatch(what);
    expect(status).toMatch(what);
    expect(shown + status).not.toContain('UNEXPECTED');
  });

  test.each([
    ['in quotes', '"cus_1234567"', 'FLOWDROP_API_KEY has quotes in it'],
    ['with a blank in it', 'cus_1234567 # mine', 'FLOWDROP_API_KEY has blanks'],
  ])('has its key named when that is %s, before anything is sent', async (_, key, what) => {
    const env = { FLOWDROP_API_URL: 'http://127.0.0.1:9', FLOWDROP_API_KEY: key };
    const { code, shown } = await checkText('drop: {to: out, dataset: bad}\n', env, ['--live']);
    expect(code).not.toBe(0);
    expect(shown).toContain(what);
    expect(shown).not.toContain('1234567');
  });
});

test('a key with a line break behind it is sent without it', async () => {
  const cwd = await folder();
  const sent: string[] = [];
  const api = await serveHttp(async (request, response) => {
    sent.push(await text(request));
    response.writeHead(401).end('{"status":"ERROR","errorCode":"UNAUTHORIZED","errorMsg":"no"}');
  });
  try {
    const env = { FLOWDROP_API_URL: api.url, FLOWDROP_API_KEY: 'cus_1234567\r\n' };
    const { stdout } = await flowdrop(['check', await writeJob(cwd), '--live'], { cwd, env });
    expect(stdout).toContain('UNAUTHORIZED');
    expect(JSON.parse(sent[0] ?? '')).toMatchObject({ api_key: 'cus_1234567' });
  } finally {
    await api.close();
  }
});
