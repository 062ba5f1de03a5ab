/**
 * `flowdrop doctor` as a user runs it, against a real service, S3 server, mail server and Redis. Single rights of a store,
 * and disks without room, are in `test/cli/doctor/doctor.external.test.ts`.
 */
import { randomUUID } from 'node:crypto';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { SMTPServerOptions } from 'smtp-server';
import { beforeAll, describe, expect, it } from 'vitest';
import { openS3Store } from '../../../src/store/s3.ts';
import { type SmtpReceiver, startSmtpReceiver } from '../../mail/smtp-receiver.ts';
import { useCleanups } from '../../support/cleanups.ts';
import { flowdrop, listFiles, startService, type TestService } from '../../support/flowdrop.ts';
import { writeJob } from '../../support/jobs.ts';
import { startRedis } from '../../support/redis-server.ts';
import { startS3, useS3Credentials } from '../../support/s3-server.ts';

interface Report {
  readonly ok: boolean;
  readonly checks: readonly { check: string; status: string; seen: string; next: string | null }[];
}

const PASSWORD = 'smtp-secret-4711';
const onAuth: NonNullable<SMTPServerOptions['onAuth']> = (auth, _session, done) =>
  auth.password === PASSWORD ? done(null, { user: 'desk' }) : done(new Error(`no such password: ${auth.password}`));

const { server: s3 } = await startS3();
const { server: redis } = await startRedis();

let cwd: string;
let service: TestService;
let receiver: SmtpReceiver;
const { cleanups, folder } = useCleanups();

beforeAll(async () => {
  if (redis) cleanups.push(() => redis.stop());
  cwd = await folder();
  service = await startService(['--generate', '1', '--generate-rows', '200']);
  cleanups.push(service.stop);
  receiver = await startSmtpReceiver({ authOptional: false, allowInsecureAuth: true, onAuth });
  cleanups.push(() => receiver.close());
});

async function examine(args: readonly string[], env: Readonly<Record<string, string>>) {
  const run = await flowdrop(['--json', 'doctor', ...args], { cwd, env: { ...env, FLOWDROP_CLOCK: 'checked' } });
  const report = JSON.parse(run.stdout) as Report;
  return { ...run, report, of: (check: string) => report.checks.filter((found) => found.check === check) };
}

// Skipped where no S3 or Redis server can be started: not root, or not Debian. CI throws instead of skipping.
describe.skipIf(s3 === undefined || redis === undefined)('doctor where all is well', () => {
  it('says so of everything, with two requests, no mail, and nothing left behind', async () => {
    if (s3 === undefined || redis === undefined) throw new Error('skipped');
    const prefix = `doctor/${randomUUID()}`;
    const job = await writeJob(cwd, { name: 'healthy', to: `s3://${s3.bucket}/${prefix}` });
    await writeFile(join(cwd, '.env'), `FLOWDROP_SMTP_URL=smtp://desk:${PASSWORD}@127.0.0.1:${receiver.port}\n`, {
      mode: 0o600,
    });
    const before = await listFiles(cwd);
    const requests = service.requests.length;
    const env = {
      ...service.env,
      FLOWDROP_REDIS_URL: redis.url,
      FLOWDROP_S3_PATH_STYLE: String(s3.pathStyle),
      AWS_ENDPOINT_URL_S3: s3.endpoint,
      AWS_REGION: s3.region,
      AWS_ACCESS_KEY_ID: s3.accessKeyId,
      AWS_SECRET_ACCESS_KEY: s3.secretAccessKey,
    };
    const { code, stdout, stderr, report } = await examine([job], env);
    expect(code, stdout + stderr).toBe(0);
    expect(report.ok).toBe(true);
    expect(report.checks.map(({ check, status, next }) => [check, status, next])).toEqual(
      [
        ...['settings', 'settings file', 'jobs', 'historical', 'historical: clock'],
        ...['historical: newest row', 'historical: limits', 'redis'],
        ...['list', 'put', 'get', 'conditional put', 'copy', 'delete'].map((right) => `store: ${right}`),
        ...['mail', 'state directory', 'disk', 'memory', 'open files', 'drawing', 'engine'],
      ].map((check) => [check, 'ok', null]),
    );
    const seen = (check: string) => report.checks.find((found) => found.check === check)?.seen;
    expect(seen('historical: limits')).toBe(
      '15 days of lookback, rows at least 15 minutes old, 10,000 rows per answer, entitlement active',
    );
    expect(seen('engine')).toMatch(/ClickHouse \d+\.\d+/);
    expect(seen('redis')).toMatch(/Redis [6-9]\.\d+\.\d+ at 127\.0\.0\.1:\d+/);
    expect(seen('mail')).toContain('accepts the login');
    for (const secret of [PASSWORD, redis.password, s3.secretAccessKey, service.env['FLOWDROP_API_KEY'] ?? '?'])
      expect(stdout + stderr).not.toContain(secret);
    expect(service.requests.length - requests).toBe(2);
    expect(receiver.messages).toEqual([]);
    // The budget of the key is kept in the state directory, as after every request.
    expect((await listFiles(cwd)).filter((file) => !file.startsWith('.flowdrop/pace/'))).toEqual(before);
    const { bucket, endpoint, pathStyle, region } = s3;
    useS3Credentials(s3);
    const store = await openS3Store({ bucket, prefix, endpoint, pathStyle, region });
    const left: string[] = [];
    for await (const { key } of store.list('')) left.push(key);
    await store.close();
    expect(left).toEqual([]);
  });
});

describe('doctor', () => {
  it('finds a key that is not accepted, without showing it', async () => {
    const job = await writeJob(cwd, { name: 'key' });
    const wrong = 'cus_wrong_key_0815';
    const { code, stdout, of } = await examine([job], { ...service.env, FLOWDROP_API_KEY: wrong });
    expect(code).toBe(1);
    expect(of('historical')).toMatchObject([{ status: 'fail', seen: expect.stringContaining('UNAUTHORIZED') }]);
    expect(of('historical')[0]?.next).toContain('FLOWDROP_API_KEY');
    expect(of('historical: clock')).toEqual([]);
    expect(stdout).not.toContain(wrong);
  });

  it.each([
    { name: 'some seconds', offsetMs: 40_000, status: 'warn', code: 0, seen: /^this clock is \d+(\.\d)? s behind/ },
    { name: 'an hour', offsetMs: -3_600_000, status: 'fail', code: 1, seen: /^this clock is 36\d\d s ahead of/ },
  ])('finds a clock that is off by $name', async ({ name, offsetMs, status, code, seen }) => {
    // The server begins at that time when it starts, which may take seconds on a busy machine.
    const asOf = new Date(Date.now() + offsetMs).toISOString();
    const other = await startService(['--generate', '1', '--generate-rows', '50', '--as-of', asOf]);
    try {
      const job = await writeJob(cwd, { name: `clock-${name.replace(' ', '-')}` });
      const { of, ...run } = await examine([job], other.env);
      expect(of('historical: clock')).toMatchObject([{ status, seen: expect.stringMatching(seen) }]);
      expect(of('historical: clock')[0]?.next).toContain('NTP');
      expect(run.code).toBe(code);
    } finally {
      await other.stop();
    }
  });

  it('warns of recipients that no mail server is set for', async () => {
    const alerts = 'alerts:\n  to: [ops@example.com, Desk@example.com]';
    const waits = await writeJob(cwd, { name: 'unreached', schedule: alerts });
    // An earlier test left the address of a mail server in `.env`; an empty variable counts as unset, even so.
    const env = { ...service.env, FLOWDROP_SMTP_URL: '', FLOWDROP_OUTBOX_DIR: 'mail' };
    const { code, of } = await examine([waits], env);
    expect(of('mail')).toMatchObject([{ status: 'warn', next: expect.stringContaining('FLOWDROP_SMTP_URL') }]);
    expect(of('mail')[0]?.seen).toContain('the 3 addresses in the job files will receive nothing');
    expect(code).toBe(0);
    const nobody = await writeJob(cwd, { name: 'nobody', reports: '' });
    expect((await examine([nobody], env)).of('mail')).toMatchObject([{ status: 'ok' }]);
  });

  it('finds a mail password that is not accepted, without showing it', async () => {
    const job = await writeJob(cwd, { name: 'mail' });
    const wrong = 'wrong-secret-0815';
    const url = `smtp://desk:${wrong}@127.0.0.1:${receiver.port}`;
    const { code, stdout, of } = await examine([job], { ...service.env, FLOWDROP_SMTP_URL: url });
    expect(code).toBe(1);
    expect(of('mail')).toMatchObject([{ status: 'fail', next: expect.stringContaining('FLOWDROP_SMTP_URL') }]);
    expect(of('mail')[0]?.seen).toContain('[secret]');
    expect(stdout).not.toContain(wrong);
  });

  it('finds a Redis that does not answer, and that no request can be paced by it, without showing its password', async () => {
    const job = await writeJob(cwd, { name: 'redis' });
    const password = 'redis-hidden-0815';
    const env = { ...service.env, FLOWDROP_REDIS_URL: `redis://:${password}@127.0.0.1:9` };
    const { code, stdout, of } = await examine([job], env);
    expect(code).toBe(1);
    expect(of('redis')).toMatchObject([{ status: 'fail', next: expect.stringContaining('FLOWDROP_REDIS_URL') }]);
    expect(of('redis')[0]?.seen).toContain('127.0.0.1:9');
    expect(of('historical')).toMatchObject([{ status: 'fail', seen: expect.stringContaining('Redis') }]);
    expect(stdout).not.toContain(password);
  });

  it('finds a schedule that is shared without a Redis, which `start` would refuse', async () => {
    const schedule = 'schedule:\n  cron: "30 17 * * 1-5"\n  distributed: true';
    const { code, of } = await examine([await writeJob(cwd, { name: 'shared', schedule })], { ...service.env });
    expect(code).toBe(1);
    expect(of('redis')).toMatchObject([{ status: 'fail', next: expect.stringContaining('FLOWDROP_REDIS_URL') }]);
    expect(of('redis')[0]?.seen).toContain('the job shared has `distributed: true`');
  });

  it('where there is no job yet tries the key all the same', async () => {
    const requests = service.requests.length;
    const { code, of } = await examine([], { ...service.env });
    expect(code).toBe(1);
    expect(of('jobs')).toMatchObject([{ status: 'fail', seen: expect.stringContaining('there is no folder jobs') }]);
    expect(of('historical')).toMatchObject([{ status: 'ok' }]);
    expect(of('store: put')).toEqual([]);
    expect(service.requests.length - requests).toBe(2);
  });

  it('finds misspelt, unreadable and meaningless settings, a settings file that others may read, and a broken calendar', async () => {
    const job = await writeJob(cwd, { name: 'settings' });
    await writeFile(join(cwd, '.env'), '');
    await chmod(join(cwd, '.env'), 0o644);
    await writeFile(join(cwd, 'calendar.yaml'), 'closed:\n  - 2027-02-30\n');
    const { code, of, stdout } = await examine([job], {
      ...service.env,
      FLOWDROP_API_ULR: 'x',
      FLOWDROP_REQUESTS_PER_SECOND: 'many',
      FLOWDROP_SMTP_URL_FILE: 'nowhere',
      FLOWDROP_CALENDAR_FILE: 'calendar.yaml',
      AWS_ENDPOINT_URL_S3: 'https://key:hidden-4711@s3.example.com',
    });
    expect(code).toBe(1);
    const settings = of('settings');
    expect(settings.map(({ status }) => status)).toEqual(['ok', 'warn', 'fail', 'fail']);
    expect(settings[0]?.seen).toContain(`FLOWDROP_API_URL=${service.url}`);
    expect(settings[0]?.seen).toMatch(/, FLOWDROP_API_KEY,/);
    expect(settings[1]).toMatchObject({ next: 'Did you mean FLOWDROP_API_URL?' });
    expect(settings[2]?.seen).toContain('FLOWDROP_SMTP_URL_FILE names nowhere');
    expect(settings[3]?.seen).toContain('FLOWDROP_REQUESTS_PER_SECOND is "many"');
    expect(of('settings file')).toMatchObject([{ status: 'warn', next: `chmod 600 ${join(cwd, '.env')}` }]);
    expect(of('calendar')).toMatchObject([
      { status: 'fail', seen: expect.stringContaining('calendar.yaml:2: closed.0:') },
    ]);
    expect(stdout).not.toContain('hidden-4711');
  });

  it('without a job examines all of the folder, each API and each store once, and tells of the broken one', async () => {
    const jobs = join(cwd, 'several');
    await mkdir(jobs);
    await writeJob(jobs, { name: 'one', to: 'shared' });
    const chain = 'name: two\nsource: {api: chain, symbols: [SPY]}\ndrop: {to: shared, dataset: chains}\n';
    await writeFile(join(jobs, 'two.yaml'), chain);
    await writeFile(join(jobs, 'zero.yaml'), 'name: zero\nsorce: {api: historical}\ndrop: {to: x, dataset: y}\n');
    const requests = service.requests.length;
    const run = await flowdrop(['--json', '--jobs', jobs, 'doctor'], { cwd, env: service.env });
    const { checks } = JSON.parse(run.stdout) as Report;
    const of = (name: string) => checks.filter(({ check }) => check === name);
    expect(run.code).toBe(1);
    expect(of('jobs').map(({ status, seen }) => [status, seen])).toEqual([
      ['ok', 'read: one, two'],
      ['fail', expect.stringContaining('unknown key "sorce" (did you mean "source"?)')],
    ]);
    expect([of('historical').length, of('chain').length, of('store: put').length]).toEqual([1, 1, 1]);
    expect(service.requests.length - requests).toBe(2);
    expect(await listFiles(join(cwd, 'shared'))).toEqual([]);
  });

  it('prints a table with what to do below what was seen, and a file in the place of a folder makes it fail', async () => {
    await writeFile(join(cwd, 'file'), 'in the way');
    const job = await writeJob(cwd, { name: 'table', to: 'file/drops' });
    const run = await flowdrop(['doctor', job], { cwd, env: service.env });
    expect(run.code).toBe(1);
    expect(run.stdout).toMatch(/^ok {4}historical {14}the API at .* accepts the key$/m);
    expect(run.stdout).toMatch(/^FAIL {2}store {2,}store: open .*\n {30}-> A file stands where a folder is needed/m);
    expect(run.stdout).toMatch(/\d+ checks: \d+ ok, \d+ warn, 1 fail\n$/);
  });
});
