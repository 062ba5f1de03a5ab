/**
 * What a person can get wrong, and what can be wrong around a run: each gives a clear error and the right exit code, and
 * leaves nothing half-written. The shapes of job-file errors are tested one by one in `test/job`.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { SMTPServerOptions } from 'smtp-server';
import { beforeAll, describe, expect, it } from 'vitest';
import type { RunResult } from '../../src/state/run-result.ts';
import { buildReply, startSmtpReceiver } from '../mail/smtp-receiver.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, listFiles, startService, type TestService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { type PlainS3Options, startPlainS3 } from '../support/plain-s3.ts';
import { findFreePort } from '../support/server-process.ts';

/** Two generated sessions, in the evening of the second. */
const SERVE = ['--generate', '2', '--generate-rows', '300', '--as-of', '2026-11-20T23:00:00Z'];

let service: TestService;
const { folder, keep } = useCleanups();

beforeAll(async () => {
  service = await keep(startService(SERVE));
});

const IDENTITY = 'PUT bucket/drops/_flowdrop/store.json';
const BASE = 'name: nightly\nsource:\n  api: historical\ndrop:\n  to: drops\n  dataset: trades\n';
it.each([
  [
    'an unknown key',
    `${BASE}shedule:\n  cron: "0 1 * * *"\n`,
    ['bad.yaml:7', 'shedule', 'did you mean "schedule"', 'reports'],
  ],
  [
    'a wrong cron',
    `${BASE}schedule:\n  cron: "61 25 * * *"\n`,
    ['bad.yaml:8', 'schedule.cron', '61 25 * * *', 'minute hour day-of-month'],
  ],
  ['no destination', BASE.replace('  to: drops\n', ''), ['bad.yaml:4', 'drop.to', 'missing', 's3://']],
])('a job file with %s is refused by file, line, key and what is allowed', async (_, text, says) => {
  const cwd = await folder();
  await writeFile(join(cwd, 'bad.yaml'), text);
  const run = await flowdrop(['run', 'bad.yaml'], { cwd, env: service.env, code: 2 });
  for (const part of says) expect(run.stderr).toContain(part);
  expect(await listFiles(cwd)).toEqual(['bad.yaml']);
});

it('an API that cannot be reached fails the run after bounded retries, which names the address', async () => {
  const cwd = await folder();
  const address = `127.0.0.1:${await findFreePort()}`;
  const env = { ...service.env, FLOWDROP_API_URL: `http://${address}` };
  const run = await flowdrop(['run', await writeJob(cwd)], { cwd, env, code: 1 });
  for (const part of ['API_UNREACHABLE', address, 'FLOWDROP_API_URL']) expect(run.stderr).toContain(part);
});

it('a store that cannot be written fails the run before anything is fetched, and a later run with a good store has all the rows', async () => {
  const cwd = await folder();
  await writeFile(join(cwd, 'file'), 'not a folder');
  const before = service.requests.length;
  const run = await flowdrop(['run', await writeJob(cwd, { to: 'file/drops' })], { cwd, env: service.env, code: 1 });
  expect(run.stderr).toContain('STORE_FAILED');
  expect(service.requests.length).toBe(before);
  expect(await readFile(join(cwd, 'file'), 'utf8')).toBe('not a folder');
  await flowdrop(['run', await writeJob(cwd, { to: 'drops' })], { cwd, env: service.env, code: 0 });
});

describe('an SMTP server', () => {
  it('that refuses one recipient does not keep the mail from the other, nor fail the run', async () => {
    const refuse: SMTPServerOptions['onRcptTo'] = ({ address }, _session, done) =>
      done(address.startsWith('desk') ? buildReply(550, 'no') : null);
    const receiver = await keep(startSmtpReceiver({ onRcptTo: refuse }));
    const cwd = await folder();
    const job = await writeJob(cwd);
    const env = { ...service.env, FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${receiver.port}` };
    const run = await flowdrop(['--json', 'run', job], { cwd, env, code: 0 });
    const { reports } = JSON.parse(run.stdout) as { reports: { recipients: { to: string; outcome: string }[] }[] };
    expect(reports[0]?.recipients).toMatchObject([
      { to: 'desk@example.com', outcome: 'refused' },
      { to: 'second@example.com', outcome: 'sent' },
    ]);
    await flowdrop(['run', job], { cwd, env, code: 0 });
    expect(receiver.messages.map(({ to }) => to)).toEqual(['second@example.com']);
  });

  it('that is down fails the run after the seal, and the next run only mails', async () => {
    const cwd = await folder();
    const job = await writeJob(cwd);
    const nowhere = { FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${await findFreePort()}`, FLOWDROP_MAIL_RETRY_SECONDS: '0' };
    const run = await flowdrop(['run', job], { cwd, env: { ...service.env, ...nowhere }, code: 1 });
    expect(run.stderr).toContain('MAIL_FAILED');
    const sealed = await listFiles(join(cwd, 'drops'));
    expect(sealed.filter((name) => name.endsWith('manifest.json'))).toHaveLength(2);
    const before = service.requests.length;
    const receiver = await keep(startSmtpReceiver());
    const env = { ...service.env, FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${receiver.port}` };
    await flowdrop(['run', job], { cwd, env, code: 0 });
    expect(receiver.messages.map(({ to }) => to).sort()).toEqual(['desk@example.com', 'second@example.com']);
    expect(service.requests.slice(before).filter(({ rows }) => rows > 1)).toEqual([]);
  });
});

it('a report of a date that is not sealed is pending, not sent', async () => {
  const cwd = await folder();
  const args = ['report', await writeJob(cwd), '--date', '2026-11-19'];
  const run = await flowdrop(args, { cwd, env: service.env, code: 1 });
  expect(run.stderr).toContain('REPORT_PENDING');
  expect((await listFiles(cwd)).filter((name) => name.endsWith('.eml'))).toEqual([]);
});

/** Templates of a job that would stop flowdrop itself: each is a fault, and no run ends well without its mail. */
const ENDING = `<% it.constructor.constructor('return process')().exit(0) %>`;

async function writeTemplate(body: string) {
  const cwd = await folder();
  await mkdir(join(cwd, 'brand'));
  await writeFile(join(cwd, 'brand', 'flow.txt'), `Hello\n${body}\n`);
  const reports = 'reports:\n  - {template: flow, to: [desk@example.com], templates: brand}';
  return { cwd, job: await writeJob(cwd, { reports }) };
}

it.each([
  ['loops', '<% const next = () => Promise.resolve().then(next); next() %>', /does not end within 5 s/, 2],
  ['ends the process', '<% process.exit(0) %>', /brand\/flow\.txt:2: process is not defined/, 2],
  ['finds a way to', ENDING, /ENDED_EARLY: /, 1],
])('check refuses a template that %s', async (_, body, what, exit) => {
  const { cwd, job } = await writeTemplate(body);
  const { stdout, stderr } = await flowdrop(['check', job], { cwd, code: exit });
  expect(stdout + stderr).toMatch(what);
});

it('a run whose template ends the process has failed, and says so', async () => {
  const { cwd, job } = await writeTemplate(ENDING);
  const { stderr } = await flowdrop(['run', job], { cwd, env: service.env, code: 1 });
  expect(stderr).toContain('ENDED_EARLY: ');
  expect(await listFiles(join(cwd, 'out', 'mail'))).toEqual([]);
});

it('below folders named column=value, {a,b}, * and ?, a day is sealed, verified and queried with its own values', async () => {
  const cwd = join(await folder(), 'symbol=SPY', '{a,b}', 'x*y,? in a.zip :: z');
  await mkdir(cwd, { recursive: true });
  const job = await writeJob(cwd);
  const run = await flowdrop(['--json', 'run', job], { cwd, env: service.env, code: 0 });
  expect((JSON.parse(run.stdout) as RunResult).dates.map(({ status }) => status)).toEqual(['sealed', 'sealed']);
  expect((await listFiles(join(cwd, 'out', 'mail'))).filter((name) => name.endsWith('.eml'))).toHaveLength(2);
  await flowdrop(['verify', job], { cwd, env: service.env, code: 0 });
  const sql = 'SELECT uniqExact(symbol) > 1 AS has_symbols, count() AS n FROM RawOptionTrades';
  const asked = await flowdrop(['--json', 'query', sql, '--job', job], { cwd, env: service.env, code: 0 });
  expect(asked.stdout).toContain('"n":600');
  expect(asked.stdout).toMatch(/"has_symbols":(?:1|true)/);
});

/** S3 services that lack something. What each request of a store does is tested in `test/store`. */
async function openStore(options: PlainS3Options = {}) {
  const s3 = await keep(startPlainS3(options));
  const cwd = await folder();
  const job = await writeJob(cwd, { to: 's3://bucket/drops', reports: 'reports: []' });
  const start = (command: string, code: number) =>
    flowdrop([command, job], { cwd, env: { ...service.env, ...s3.env }, code });
  return { start, asked: s3.asked, listSealed: () => [...s3.keys.keys()].filter((key) => /manifest\.json$/.test(key)) };
}

it('a store that overwrites what it should keep is refused by a run in the words of doctor, and nothing is sealed', async () => {
  const { start, listSealed } = await openStore({ ignoresConditions: true });
  const words = [/a write-once object was overwritten/, /This store ignores If-None-Match: two workers could seal one/];
  // Twice: the second finds an identity there.
  for (const command of ['run', 'run', 'doctor']) {
    const { stdout, stderr } = await start(command, 1);
    for (const word of words) expect((stdout + stderr).replace(/\s+/g, ' ')).toMatch(word);
  }
  expect(listSealed()).toEqual([]);
});

it('a store is asked once whether it keeps what it has, and later runs remember it', async () => {
  const { start, asked, listSealed } = await openStore();
  for (const tries of [2, 2]) {
    await start('run', 0);
    expect(asked.filter((request) => request === IDENTITY)).toHaveLength(tries);
  }
  expect(listSealed()).toHaveLength(2);
});

it('a store that refuses checksums of uploads gets a day, and one that refuses those of answers is told as such', async () => {
  const uploads = await openStore({ refusedHeader: /^x-amz-(?:checksum-(?!mode)|sdk-checksum|trailer)/ });
  await uploads.start('run', 0);
  expect(uploads.listSealed()).toHaveLength(2);
  const answers = await openStore({ refusedHeader: /^x-amz-checksum-mode/ });
  const refused = await answers.start('run', 1);
  expect(refused.stderr.replace(/\s+/g, ' ')).toContain('AWS_RESPONSE_CHECKSUM_VALIDATION=WHEN_REQUIRED');
});

it('a store that refuses files without a signature of their bytes is found by doctor, as by a run', async () => {
  const { start } = await openStore({ refusesUnsigned: true });
  for (const command of ['doctor', 'run']) {
    const { stdout, stderr } = await start(command, 1);
    expect(stdout + stderr).toContain('NotImplemented');
  }
});

it('a drop that is larger than an object may be is told with the way out, and nothing is sealed', async () => {
  const { start, listSealed } = await openStore({ maxBytes: 5_000 });
  const { stdout, stderr } = await start('run', 1);
  expect((stdout + stderr).replace(/\s+/g, ' ')).toContain('5 GiB: split the job by symbols');
  expect(listSealed()).toEqual([]);
});
