/**
 * What a person can get wrong, and what can be wrong around a run: each gives a clear error and the right exit code, and
 * leaves nothing half-written. The shapes of job-file errors are tested one by one in `test/job`.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { buildReply, startSmtpReceiver } from '../mail/smtp-receiver.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, listFiles, startService, type TestService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { findFreePort } from '../support/server-process.ts';

/** Monday after two generated sessions. */
const SERVE = ['--generate', '2', '--generate-rows', '300', '--as-of', '2026-11-20T23:00:00Z'];

let service: TestService;
const { folder, keep } = useCleanups();

beforeAll(async () => {
  service = await keep(startService(SERVE));
});

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
  const run = await flowdrop(['run', 'bad.yaml'], { cwd, env: service.env });
  expect(run.code).toBe(2);
  for (const part of says) expect(run.stderr).toContain(part);
  expect(await listFiles(cwd)).toEqual(['bad.yaml']);
});

it('an API that cannot be reached fails the run after bounded retries, which names the address', async () => {
  const cwd = await folder();
  const address = `127.0.0.1:${await findFreePort()}`;
  const env = { ...service.env, FLOWDROP_API_URL: `http://${address}` };
  const run = await flowdrop(['run', await writeJob(cwd)], { cwd, env });
  expect(run.code).toBe(1);
  for (const part of ['API_UNREACHABLE', address, 'FLOWDROP_API_URL']) expect(run.stderr).toContain(part);
});

it('a store that cannot be written fails the run before anything is fetched, and a later run with a good store has all the rows', async () => {
  const cwd = await folder();
  await writeFile(join(cwd, 'file'), 'not a folder');
  const before = service.requests.length;
  const run = await flowdrop(['run', await writeJob(cwd, { to: 'file/drops' })], { cwd, env: service.env });
  expect(run.code).toBe(1);
  expect(run.stderr).toContain('STORE_FAILED');
  expect(service.requests.length).toBe(before);
  expect(await readFile(join(cwd, 'file'), 'utf8')).toBe('not a folder');
  await flowdrop(['run', await writeJob(cwd, { to: 'drops' })], { cwd, env: service.env, code: 0 });
});

describe('an SMTP server', () => {
  it('that refuses one recipient does not keep the mail from the other, nor fail the run', async () => {
    const receiver = await startSmtpReceiver({
      onRcptTo: ({ address }, _session, done) => done(address.startsWith('desk') ? buildReply(550, 'no') : null),
    });
    const cwd = await folder();
    const job = await writeJob(cwd);
    const env = { ...service.env, FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${receiver.port}` };
    const run = await flowdrop(['--json', 'run', job], { cwd, env, code: 0 });
    const { reports } = JSON.parse(run.stdout) as { reports: { recipients: { to: string; outcome: string }[] }[] };
    expect(reports[0]?.recipients).toMatchObject([
      { to: 'desk@example.com', outcome: 'refused' },
      { to: 'second@example.com', outcome: 'sent' },
    ]);
    expect((await flowdrop(['run', job], { cwd, env })).code).toBe(0);
    expect(receiver.messages.map(({ to }) => to)).toEqual(['second@example.com']);
    await receiver.close();
  });

  it('that is down fails the run after the seal, and the next run only mails', async () => {
    const cwd = await folder();
    const job = await writeJob(cwd);
    const nowhere = { FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${await findFreePort()}`, FLOWDROP_MAIL_RETRY_SECONDS: '0' };
    const run = await flowdrop(['run', job], { cwd, env: { ...service.env, ...nowhere } });
    expect(run.code).toBe(1);
    expect(run.stderr).toContain('MAIL_FAILED');
    const sealed = await listFiles(join(cwd, 'drops'));
    expect(sealed.filter((name) => name.endsWith('manifest.json'))).toHaveLength(2);
    const before = service.requests.length;
    const receiver = await startSmtpReceiver();
    const env = { ...service.env, FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${receiver.port}` };
    await flowdrop(['run', job], { cwd, env, code: 0 });
    expect(receiver.messages.map(({ to }) => to).sort()).toEqual(['desk@example.com', 'second@example.com']);
    expect(service.requests.slice(before).filter(({ rows }) => rows > 1)).toEqual([]);
    await receiver.close();
  });
});
