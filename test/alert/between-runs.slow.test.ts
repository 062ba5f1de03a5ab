/** `flowdrop alert JOB`: operators are alerted without a run, by the real command, mail server and receiver. */
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { GAP_WARNING_MS } from '../../src/alert/alerts.ts';
import type { Notice } from '../../src/alert/notice.ts';
import { addDays } from '../../src/calendar/wall-clock.ts';
import { expiresAt } from '../../src/plan/dates.ts';
import { type SmtpReceiver, startSmtpReceiver } from '../mail/smtp-receiver.ts';
import { answerWith, startWebhookReceiver, type WebhookReceiver } from '../mail/webhook-receiver.ts';
import { flowdrop, makeFolder, startService, type TestService } from '../support/flowdrop.ts';

let smtp: SmtpReceiver;
let receiver: WebhookReceiver;
let service: TestService;
beforeAll(async () => {
  [smtp, receiver, service] = await Promise.all([
    startSmtpReceiver(),
    startWebhookReceiver(),
    startService(['--generate', '1', '--generate-rows', '300', '--as-of', '2026-11-20T23:00:00Z']),
  ]);
});
afterAll(async () => {
  await Promise.all([smtp.close(), receiver.close(), service.stop()]);
});

let cwd: string;
let remove: () => Promise<void>;
let before: number;
beforeEach(async () => {
  ({ path: cwd, remove } = await makeFolder());
  before = receiver.posts.length;
  await writeJob('');
});
afterEach(async () => await remove());

const writeJob = async (rest: string) => {
  await mkdir(join(cwd, 'jobs'), { recursive: true });
  const text =
    'name: nightly\nsource: {api: historical}\ndrop: {to: drops, dataset: trades}\nalerts: {to: [ops@example.com]}\n';
  await writeFile(join(cwd, 'jobs', 'nightly.yaml'), `${text}${rest}`);
};
const run = async (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  await flowdrop(args, {
    cwd,
    env: {
      ...service.env,
      FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${smtp.port}?tls=none`,
      FLOWDROP_ALERT_WEBHOOK_URL: receiver.url,
      FLOWDROP_RUN_ID: 'tick-1',
      ...env,
    },
  });
const posts = () => receiver.posts.slice(before).map(({ body }) => JSON.parse(body) as Notice);
const sent = () => posts().map(({ alerts, recovered }) => [alerts.map(({ id }) => id), recovered.map(({ id }) => id)]);

describe('flowdrop alert', () => {
  it('tells nothing of a job that never ran', async () => {
    expect(await run(['alert', 'nightly'])).toMatchObject({ code: 0, stdout: 'Nothing to report.\n' });
    expect(sent()).toEqual([]);
  });

  it('tells once of a gap that expires within two days', async () => {
    // The last session that the lookback still holds for less than 48 hours, by the clock of this machine.
    const today = new Date().toISOString().slice(0, 10);
    const dates = Array.from({ length: 20 }, (_, age) => addDays(today, -age));
    const soon = dates.find((date) => {
      const leftMs = expiresAt(date) - Date.now();
      const isWeekday = ![0, 6].includes(new Date(`${date}T12:00:00Z`).getUTCDay());
      return isWeekday && leftMs > 600_000 && leftMs < GAP_WARNING_MS;
    });
    const entry = (date: string) => ({
      date,
      condition: 'pending',
      last_modified_date: null,
      revision: null,
      rows: null,
      size: null,
    });
    // It may be a holiday: the override makes it a session.
    await writeFile(join(cwd, 'calendar.yaml'), soon ? `open: [${soon}]\n` : '{}\n');
    await mkdir(join(cwd, 'drops', '_flowdrop', 'trades'), { recursive: true });
    await writeFile(
      join(cwd, 'drops', '_flowdrop', 'trades', 'condition.json'),
      JSON.stringify([entry(soon ?? addDays(today, -10))]),
    );
    const env = { FLOWDROP_CALENDAR_FILE: 'calendar.yaml' };
    for (const _ of [1, 2]) expect((await run(['alert', 'nightly'], env)).code).toBe(0);
    // On a weekend no weekday may be about to expire; the other date has five days.
    expect(posts()).toHaveLength(soon ? 1 : 0);
    if (soon) expect(sent()[0]?.[0]).toContain(`nightly/gap-expires-soon/${soon}`);
  });

  it('tells that a run died, with its id, once, and the next run that ends tells that it is over', async () => {
    const { code, stdout } = await run(['--json', 'alert', 'nightly', '--died', 'killed by SIGKILL']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ job: 'nightly', run_id: 'tick-1', unsent: [] });
    await run(['alert', 'nightly', '--died', 'killed by SIGSEGV']);
    await run(['alert', 'nightly']);
    expect(sent()).toEqual([[['nightly/run-died'], []]]);
    expect(posts()[0]).toMatchObject({
      run: 'tick-1',
      alerts: [{ what: expect.stringContaining('killed by SIGKILL.') }],
    });
    expect((await run(['run', 'nightly'])).code).toBe(0);
    expect(sent().slice(1)).toEqual([[[], ['nightly/run-died']]]);
  });

  it('tells that a job file is broken, of that very file, and when it is valid again', async () => {
    await writeJob('report: {}\n');
    expect((await run(['alert', 'nightly', '--broken', 'line 5: unknown key "report"'])).code).toBe(0);
    expect((await run(['alert', 'nightly'])).code).toBe(2);
    await writeJob('');
    // A run may have been started with the last valid file.
    await run(['alert', 'nightly', '--died', 'killed']);
    await run(['alert', 'nightly']);
    expect(sent()).toEqual([
      [['nightly/job-invalid'], []],
      [['nightly/run-died'], []],
      [[], ['nightly/job-invalid']],
    ]);
  });

  it('ends with 1 when an alert is unsent, and the next one sends only that', async () => {
    const mails = smtp.messages.length;
    receiver.answers.push(answerWith(403));
    const first = await run(['alert', 'nightly', '--died', 'killed']);
    expect(first).toMatchObject({ code: 1, stdout: expect.stringContaining('Not alerted webhook') });
    expect((await run(['alert', 'nightly'])).code).toBe(0);
    expect(smtp.messages.length - mails).toBe(1);
    expect(posts()).toHaveLength(2);
    // The next one has nothing left to send.
    expect((await run(['alert', 'nightly'])).code).toBe(0);
    expect([smtp.messages.length - mails, posts().length]).toEqual([1, 2]);
  });

  it('says that an alert was written to the outbox where no mail server is set, and not that it was sent', async () => {
    const { code, stdout, stderr } = await run(['alert', 'nightly', '--died', 'killed'], {
      FLOWDROP_SMTP_URL: '',
      FLOWDROP_OUTBOX_DIR: 'mail',
    });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^Written to \S+mail\/\S+\.eml for ops@example\.com: nightly\/run-died$/m);
    expect(stdout).toContain('Alerted webhook: nightly/run-died');
    expect(stderr).toContain('alert for ops@example.com written to the outbox: ');
    expect(stderr).not.toContain('alert sent to ops@example.com');
  });

  const pending = { condition: 'pending', last_modified_date: null, revision: null, rows: null, size: null };
  it.each([
    // Links that lead to themselves: the store is there, its memory of alerts too, and what is to be read is not.
    ['condition.json', 'ELOOP', (path: string) => symlink(path, path)],
    ['session=2026-11-20', 'ELOOP', (path: string) => symlink(path, path)],
    ['condition.json', 'is invalid', (path: string) => writeFile(path, '{}')],
  ] as const)(
    'ends with 1 when the store opens and its %s cannot be read (%s), and tells what it can',
    async (name, reason, breakIt) => {
      const dataset = join(cwd, 'drops', '_flowdrop', 'trades');
      await mkdir(dataset, { recursive: true });
      const condition = join(dataset, 'condition.json');
      // Dates since a week ago are open, so that it is asked which of them are sealed.
      const date = addDays(new Date().toISOString().slice(0, 10), -7);
      await writeFile(condition, JSON.stringify([{ date, ...pending }]));
      if (name === 'condition.json') await rm(condition);
      await breakIt(join(dataset, name));
      const first = await run(['--json', 'alert', 'nightly', '--died', 'killed']);
      expect(JSON.parse(first.stdout)).toMatchObject({
        sent: [{ target: 'ops@example.com' }, { target: 'webhook' }],
        unsent: [],
        unread: expect.stringContaining(reason),
      });
      expect(first.code).toBe(1);
      expect(first.stderr).toContain('"event":"conditions-unread"');
      const second = await run(['alert', 'nightly']);
      expect(second).toMatchObject({ code: 1, stdout: expect.stringMatching(/^Gaps are unknown: /) });
      expect(sent()).toEqual([[['nightly/run-died'], []]]);
      await rm(join(dataset, name));
      expect((await run(['alert', 'nightly'])).code).toBe(0);
    },
  );
});
