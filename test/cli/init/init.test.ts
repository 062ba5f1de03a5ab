/** `flowdrop init`: what it asks and writes, what it never overwrites, and the shipped files that it fills in. */
import { chmod, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { nameProgram } from '../../../src/cli/context.ts';
import { fillJob, fillSettings, quoteSetting, SHIPPED_JOBS } from '../../../src/cli/init.ts';
import { parseJob } from '../../../src/job/parse.ts';
import { reportSettings } from '../../../src/settings/settings.ts';
import { useCleanups } from '../../support/cleanups.ts';
import { flowdrop, KEY, listFiles, REPO, startService, type TestService } from '../../support/flowdrop.ts';
import { findFreePort } from '../../support/server-process.ts';

/** The files that init fills in. */
const readStarter = (name: string) => readFile(join(REPO, 'jobs', 'init', name), 'utf8');

let service: TestService;
let cwd: string;
const { cleanups, folder } = useCleanups();

beforeAll(async () => {
  service = await startService(['--generate', '1', '--generate-rows', '200']);
  cleanups.push(service.stop);
});
beforeEach(async () => {
  cwd = await folder();
});

/** With answers in a pipe, a line each. */
async function answer(args: readonly string[], lines: readonly string[]) {
  return await flowdrop(args, { cwd, onStart: ({ stdin }) => stdin?.end(lines.map((line) => `${line}\n`).join('')) });
}

describe('init', () => {
  it('by flags writes a job and settings that work, and tries the connection', async () => {
    await writeFile(join(cwd, 'key'), `${KEY}\n`);
    const run = await flowdrop(
      [
        ...['init', 'place', '--api-url', service.url, '--api-key-file', 'key', '--to', 'drops', '--yes'],
        ...['--report-to', 'desk@example.com', 'risk@example.com', '--symbols', 'spy', 'NVDA'],
      ],
      { cwd },
    );
    expect(run.code, run.stdout + run.stderr).toBe(0);
    expect(run.stdout).toContain(`ok     nightly-trades: `);
    expect(run.stdout).toContain(`the API at ${service.url}/api/historical/sql accepts its query`);
    const next = run.stdout.split('Next:\n')[1] ?? '';
    expect(next.split('\n').map((line) => line.trim())).toEqual([
      'cd place',
      'flowdrop doctor nightly-trades',
      'flowdrop plan nightly-trades',
      'flowdrop run option-chain',
      'flowdrop run nightly-trades',
      'flowdrop start',
      '',
    ]);
    const place = join(cwd, 'place');
    expect((await stat(join(place, '.env'))).mode & 0o777).toBe(0o600);
    expect(await readFile(join(place, '.env'), 'utf8')).not.toContain(KEY);
    const file = join(place, 'jobs', 'nightly-trades.yaml');
    const { reports, drop } = parseJob(file, await readFile(file, 'utf8'));
    expect(drop).toMatchObject({ to: 'drops', dataset: 'trades' });
    expect(reports).toHaveLength(1);
    const chain = join(place, 'jobs', 'option-chain.yaml');
    expect(parseJob(chain, await readFile(chain, 'utf8'))).toMatchObject({
      ...{ source: { api: 'chain', symbols: ['SPX', 'SPY', 'NVDA'] }, drop: { to: 'drops', dataset: 'option-chain' } },
    });
    expect(JSON.stringify(reports)).toMatch(/desk@example\.com.*risk@example\.com.*"SPY","NVDA"/);
    // The commands that it names, in the directory that it names, with nothing but what it wrote.
    const planned = await flowdrop(['--json', 'plan', 'nightly-trades'], { cwd: place });
    expect(planned.code, planned.stderr).toBe(0);
    expect(JSON.parse(planned.stdout)).toMatchObject({ dates: [expect.objectContaining({ rows: 200 })] });
  });

  it('takes answers in order, defaults for empty lines, asks again for what is not allowed, and shows no secret', async () => {
    const mailUrl = 'smtps://desk:mail-secret@mail.example.com';
    const run = await answer(
      ['init', '--ask', '--offline'],
      ['ftp://wrong', '127.0.0.1:8100', service.url, KEY, '', 'desk@example.com', 'spx, vix', mailUrl],
    );
    expect(run.code, run.stderr).toBe(0);
    expect(run.stderr).toContain('allowed is scheme (http, https)');
    expect(run.stderr).toContain('  -> Write http://127.0.0.1:8100\n');
    expect(run.stderr).toContain('Where the drops go: a directory or s3://bucket/prefix [out/drops]: ');
    expect(run.stdout + run.stderr).not.toContain(KEY);
    expect(run.stdout + run.stderr).not.toContain('mail-secret');
    expect(parseEnv(await readFile(join(cwd, '.env'), 'utf8'))).toEqual({
      FLOWDROP_API_URL: service.url,
      FLOWDROP_API_KEY: KEY,
      FLOWDROP_SMTP_URL: mailUrl,
    });
    const job = await readFile(join(cwd, 'jobs', 'nightly-trades.yaml'), 'utf8');
    expect(job).toContain('to: out/drops #');
    expect(job).toContain('symbols: [SPX, VIX]');
    const checked = await flowdrop(['check', '--live'], { cwd });
    expect(checked.code, checked.stdout).toBe(0);
  });

  it('asks the API before the other questions, and again for a key that it refuses or an address that is dead', async () => {
    const dead = `http://127.0.0.1:${await findFreePort()}`;
    const answers = [dead, 'cus_wrong_key_0815', service.url, KEY, '', '', ''];
    const run = await answer(['init', '--ask'], answers);
    expect(run.code, run.stderr).toBe(0);
    const asked = run.stderr.replaceAll(/^ {2}-> .*$/gm, '').split(/\n+/);
    expect(asked.map((line) => /^[^:(]*/.exec(line)?.[0].trim())).toEqual([
      ...['Address of the options data API', 'Its key, not shown', 'Testing the connection ...'],
      ...['the API at http', 'Address of the options data API', 'Testing the connection ...'],
      ...['Not with this key', 'Its key, not shown', 'Testing the connection ...'],
      ...['Where the drops go', 'Mail the flow report to', ''],
    ]);
    expect(run.stderr).toContain('ECONNREFUSED');
    expect(run.stderr).toContain('  Not with this key: the API answered HTTP 401 UNAUTHORIZED');
    expect(run.stdout + run.stderr).not.toContain('cus_wrong_key_0815');
    expect(run.stdout).toContain('accepts its query');
    const settings = parseEnv(await readFile(join(cwd, '.env'), 'utf8'));
    expect(settings).toEqual({ FLOWDROP_API_URL: service.url, FLOWDROP_API_KEY: KEY });
  });

  it('asks again for an address that is none, and refuses one given as a flag before it writes', async () => {
    const run = await answer(
      ['init', '--ask', '--offline'],
      [service.url, KEY, '', 'desk at example', 'desk@example.com', '', 'http://mail.example.com', 'folder'],
    );
    expect(run.code, run.stderr).toBe(0);
    expect(run.stderr).toContain(
      '  reports: got "desk", "at", "example"; an e-mail address like desk@example.com\nMail the',
    );
    expect(run.stderr).toContain('smtp:// or smtps:// address');
    expect(parseEnv(await readFile(join(cwd, '.env'), 'utf8'))).toMatchObject({ FLOWDROP_SMTP_URL: 'folder' });
    const flagged = await flowdrop(['init', 'other', '--yes', '--report-to', 'desk@example'], { cwd });
    expect(flagged).toMatchObject({ code: 2, stderr: expect.stringContaining('ANSWER_INVALID') });
    const files = ['.env', '.gitignore', 'jobs/nightly-trades.yaml', 'jobs/option-chain.yaml'];
    expect(await listFiles(cwd)).toEqual(files);
    expect(await readFile(join(cwd, '.gitignore'), 'utf8')).toBe('.env\n');
  });

  it('writes nothing when the answers end too soon', async () => {
    const run = await answer(['init', '--ask'], [service.url, KEY]);
    expect(run.code).toBe(2);
    expect(run.stderr).toContain('INPUT_ENDED');
    expect(await listFiles(cwd)).toEqual([]);
  });

  it('asks nothing where stdin is no terminal, and says what is still to be filled in', async () => {
    const run = await flowdrop(['init'], { cwd });
    expect(run.code).toBe(0);
    expect(run.stderr).toBe('');
    expect(run.stdout).toContain(
      'The connection was not tested; first put FLOWDROP_API_URL and FLOWDROP_API_KEY into .env',
    );
    expect(await listFiles(cwd)).toEqual(['.env', '.gitignore', 'jobs/nightly-trades.yaml']);
  });

  it('writes nothing with a key that the API refuses where it cannot ask for another, and says what to type', async () => {
    await writeFile(join(cwd, 'key'), 'cus_wrong_key_0815');
    const run = await flowdrop(['init', '--api-url', service.url, '--api-key-file', 'key'], { cwd });
    expect(run.code).toBe(2);
    expect(run.stderr).toMatch(/UNAUTHORIZED: .*; nothing was written\n {2}-> .*with --offline nothing is tested\./);
    expect(run.stdout).toBe('');
    expect(await listFiles(cwd)).toEqual(['key']);
  });

  it('overwrites nothing without --force, asks nothing then, and keeps what that replaces', async () => {
    await writeFile(join(cwd, '.env'), 'FLOWDROP_API_KEY=precious\n');
    await chmod(join(cwd, '.env'), 0o600);
    // The answers would be for nothing.
    const { code, stderr } = await answer(['init', '--ask'], [service.url, KEY, '', '', '']);
    expect(code).toBe(2);
    expect(stderr).toMatch(/FILE_EXISTS: \S+\.env already exists/);
    expect(stderr).toContain('One more job: `flowdrop init --add NAME`. To replace: `flowdrop init --force`');
    expect(stderr).not.toContain('Address of the options data API');
    expect(await listFiles(cwd)).toEqual(['.env']);
    const forced = await flowdrop(['--json', 'init', '--offline', '--force'], { cwd });
    expect(forced.code, forced.stderr).toBe(0);
    expect(JSON.parse(forced.stdout)).toEqual({
      job: 'nightly-trades',
      written: [join(cwd, 'jobs', 'nightly-trades.yaml'), join(cwd, '.env')],
      kept: [join(cwd, '.env.old')],
      connection: 'untried',
      next: expect.arrayContaining(['flowdrop start']),
    });
    expect(await readFile(join(cwd, '.env.old'), 'utf8')).toBe('FLOWDROP_API_KEY=precious\n');
    expect((await stat(join(cwd, '.env.old'))).mode & 0o777).toBe(0o600);
  });

  it.each([
    ['npx', 'npx flowdrop'],
    ['demo', 'npx flowdrop'],
    ['test', 'flowdrop'],
    [undefined, 'flowdrop'],
  ])('started by npm as %s names commands that the shell finds: %s', async (event, program) => {
    expect(nameProgram({ npm_lifecycle_event: event })).toBe(program);
    const run = await flowdrop(['init', '--offline'], { cwd, env: { npm_lifecycle_event: event ?? '' } });
    expect(run.stdout).toContain(`\n  ${program} doctor nightly-trades\n`);
  });

  it.each([
    { name: 'a name that is none', args: ['--name', '../up'], says: 'name' },
    { name: 'an address that is none', args: ['--report-to', 'desk'], says: 'reports: got "desk"' },
    { name: 'a place that is none', args: ['--to', 'gs://bucket'], says: 'gs://' },
    { name: 'an API address with a key', args: ['--api-url', 'https://api.example.com?key=hidden'], says: 'allowed' },
  ])('refuses $name before it writes anything', async ({ args, says }) => {
    const run = await flowdrop(['init', '--offline', ...args], { cwd });
    expect(run.code).toBe(2);
    expect(run.stderr).toContain(says);
    expect(run.stderr).not.toContain('hidden');
    expect(await listFiles(cwd)).toEqual([]);
  });

  it('refuses a job that writes where another does', async () => {
    expect((await flowdrop(['init', '--offline'], { cwd })).code).toBe(0);
    const second = await flowdrop(['init', '--offline', '--force', '--name', 'second'], { cwd });
    expect(second.code).toBe(2);
    expect(second.stderr).toContain('both write out/drops/trades');
    expect(await listFiles(cwd)).toEqual(['.env', '.gitignore', 'jobs/nightly-trades.yaml']);
  });
});

describe('the files of init', () => {
  it('name only settings that there are, also in their comments', async () => {
    const text = (await readStarter('settings.env')).replace(/^# (?=[A-Z0-9_]+=)/gm, '');
    const settings = parseEnv(text) as Record<string, string>;
    expect(Object.keys(settings).length).toBeGreaterThan(8);
    expect(reportSettings(settings, cwd).unknown).toEqual([]);
  });

  it('hold a report, alerts and a condition that work when their comments are taken away', async () => {
    const choice = { name: 'nightly', to: 'a: #b', recipients: [], symbols: [] };
    const shipped = fillJob(await readStarter('nightly-trades.yaml'), choice);
    const parse = (uncomment: RegExp) => parseJob('job.yaml', shipped.replace(uncomment, ''));
    expect(parse(/^$/)).toMatchObject({ reports: [], drop: { to: 'a: #b' } });
    expect(parse(/^# (?=reports:| {2}- template| {4}(?:to|symbols):)/gm).reports).toHaveLength(1);
    expect(parse(/^# (?=alerts:| {2}to: \[ops)/gm).alerts.to).toEqual(['ops@example.com']);
    expect(parse(/# (?=retry: 15m)/).schedule).toMatchObject({ retrySeconds: 900 });
    expect(parse(/# (?=where:)/).source).toMatchObject({ where: "symbol IN ('SPY', 'QQQ')" });
  });

  it.each(['cus_1', 'a b', 'a#b', "it's", '"q"', 'a\\nb', `a'"b`, '$HOME', '`x`', ' x ', 'a=b', '"\\n"'])(
    'give the key %j back as it was given',
    async (key) => {
      const text = fillSettings(await readStarter('settings.env'), { FLOWDROP_API_KEY: key, FLOWDROP_SMTP_URL: '' });
      expect(parseEnv(text)).toEqual({ FLOWDROP_API_KEY: key });
    },
  );

  it.each([`'"\``, 'two\nlines'])('refuse the value %j, which no quotes can hold, without showing it', (value) => {
    expect(() => quoteSetting(value)).toThrow(expect.objectContaining({ code: 'SETTING_INVALID' }));
    expect(() => quoteSetting(value)).not.toThrow(value);
  });
});

describe('init --add', () => {
  it.each(Object.keys(SHIPPED_JOBS))('writes a valid job of the kind %s, to the place that is given', async (kind) => {
    const name = `my-${kind}`;
    const args = ['init', '--offline', '--add', name, '--kind', kind, '--to', 's3://bucket/x', '--symbols', 'vix'];
    const run = await flowdrop(args, { cwd });
    expect(run.code, run.stderr).toBe(0);
    const text = await readFile(join(cwd, 'jobs', `${name}.yaml`), 'utf8');
    const job = parseJob('x', text);
    expect(job).toMatchObject({ name, drop: { to: 's3://bucket/x', dataset: name } });
    if (job.source.kind === 'snapshots') expect(job.source.symbols).toEqual(['VIX']);
    expect(text).toContain('# ');
  });

  it('asks for the kind, keeps settings and jobs, and never overwrites', async () => {
    await flowdrop(['init', '--yes', '--to', 'place'], { cwd });
    const settings = await readFile(join(cwd, '.env'), 'utf8');
    const run = await answer(['init', '--add', 'chains', '--ask', '--offline'], ['chian', 'chain']);
    expect(run.code, run.stderr).toBe(0);
    expect(run.stderr).toContain('"chian" is not a kind; allowed are trades, minute-flow, chain');
    const added = await readFile(join(cwd, 'jobs', 'chains.yaml'), 'utf8');
    expect(parseJob('x', added)).toMatchObject({ source: { api: 'chain' }, drop: { to: 'place', dataset: 'chains' } });
    expect(await readFile(join(cwd, '.env'), 'utf8')).toBe(settings);
    const again = await flowdrop(['init', '--add', 'chains', '--offline'], { cwd });
    expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining('FILE_EXISTS') });
  });
});
