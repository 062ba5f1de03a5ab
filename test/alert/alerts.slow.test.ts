/**
 * Alerts from the end of a run to those who read them: a real mail server, a real HTTP receiver, a store in a directory,
 * a clock that is moved. Which causes there are: `causes.test.ts`; whole commands: `command.slow.test.ts`.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { alertOperators } from '../../src/alert/alerts.ts';
import type { Notice } from '../../src/alert/notice.ts';
import { NO_OVERRIDE } from '../../src/calendar/session.ts';
import { Fault } from '../../src/core/errors.ts';
import { describeUnsealed } from '../../src/ledger/condition-file.ts';
import { alertsPrefix, conditionKey } from '../../src/ledger/layout.ts';
import { openSmtpMailer } from '../../src/mail/smtp.ts';
import { createWebhook } from '../../src/mail/webhook.ts';
import type { RunEnv } from '../../src/run/run.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Store } from '../../src/store/store.ts';
import { type SmtpReceiver, startSmtpReceiver } from '../mail/smtp-receiver.ts';
import { answerWith, startWebhookReceiver, WEBHOOK_SECRET, type WebhookReceiver } from '../mail/webhook-receiver.ts';
import {
  ALERT_NOW,
  createAlertJob,
  createDelivery,
  createFailure,
  createOutcome,
  createResult,
} from '../support/alerts.ts';
import { useCleanups } from '../support/cleanups.ts';
import { createFakeClock, type FakeClock } from '../support/fake-clock.ts';
import { faultStore } from '../support/fault-store.ts';
import { REPO } from '../support/flowdrop.ts';
import { createSilentLog } from '../support/log.ts';
import { listKeys, pickNewest, readText } from '../support/store-keys.ts';

const OPS = 'ops@example.com';
const SECOND = 'Second@Example.com';

let smtp: SmtpReceiver;
let receiver: WebhookReceiver;
beforeAll(async () => {
  [smtp, receiver] = await Promise.all([startSmtpReceiver(), startWebhookReceiver()]);
});
afterAll(async () => {
  await smtp.close();
  await receiver.close();
});

const both = createAlertJob(`alerts: {to: [${OPS}, ${SECOND}]}\nreports: [{template: flow, to: [desk@example.com]}]`);

const missing = createOutcome({
  result: createResult({ conditions: { '2026-11-18': 'missing', '2026-11-20': 'available' } }),
});
const sealed = createOutcome({
  result: createResult({ conditions: { '2026-11-18': 'available', '2026-11-20': 'available' } }),
});

const { folder: makeFolder } = useCleanups();
let folder: string;
let store: Store;
let clock: FakeClock;
let mailsBefore: number;
let postsBefore: number;
beforeEach(async () => {
  folder = await makeFolder();
  store = await openDirectoryStore(join(folder, 'store'));
  clock = createFakeClock();
  mailsBefore = smtp.messages.length;
  postsBefore = receiver.posts.length;
});
afterEach(async () => await store.close());

const posts = () => receiver.posts.slice(postsBefore);
const documents = () => posts().map(({ body }) => JSON.parse(body) as Notice);
const mails = async () =>
  await Promise.all(
    smtp.messages.slice(mailsBefore).map(async ({ to, source }) => ({ ...(await PostalMime.parse(source)), to })),
  );

function createEnv(changes: Partial<RunEnv> = {}, used = store): RunEnv {
  const openStore = async () => used;
  const hook = { use: 'alert', url: `${receiver.url}/hooks/nightly`, secret: WEBHOOK_SECRET } as const;
  return {
    ...{ openStore, openLog: async () => createSilentLog(), readCalendar: async () => NO_OVERRIDE, clock },
    deliversMail: () => true,
    openMailer: async () => openSmtpMailer({ url: `smtp://127.0.0.1:${smtp.port}?tls=none` }),
    openWebhook: async () => createWebhook(hook, clock),
    ...{
      mailFrom: 'Flow Desk <flow@example.com>',
      redact: (text: string) => text,
      signal: new AbortController().signal,
    },
    ...{ templatesDir: join(REPO, 'templates'), stateDir: join(folder, 'state'), runId: 'run-1' },
    ...changes,
  } as RunEnv; // Alerts use no other part of it.
}

describe('a cause', () => {
  it('that nobody has costs one listing of the store, and no connection', async () => {
    const counting = faultStore(store);
    const openMailer = () => Promise.reject(new RangeError('there is nothing to mail'));
    await alertOperators(createEnv({ openMailer }, counting), both, sealed);
    expect(counting.calls).toEqual([`list ${alertsPrefix('nightly')}`]);
    expect(await listKeys(store)).toEqual([]);
    expect(posts()).toEqual([]);
  });

  it('of a job that tells nobody costs nothing', async () => {
    const counting = faultStore(store);
    const silent = createAlertJob('alerts: {webhook: false}');
    await alertOperators(createEnv({}, counting), silent, missing);
    await alertOperators(createEnv({ openWebhook: async () => undefined }, counting), createAlertJob(), missing);
    expect(counting.calls).toEqual([]);
    expect(posts()).toEqual([]);
  });

  it('that another worker has sent in the meantime is not sent again', async () => {
    // While this worker waits for the first answer, the other one goes through its run.
    let other: Promise<unknown> | undefined;
    const slow = createEnv({
      openMailer: async () => {
        const mailer = await createEnv().openMailer();
        const send: typeof mailer.send = async (...mail) => {
          other ??= alertOperators(createEnv(), both, missing);
          await other;
          return await mailer.send(...mail);
        };
        return { ...mailer, send };
      },
    });
    await alertOperators(slow, both, missing);
    const sent = (await mails()).map(({ to, messageId }) => `${to} ${messageId}`);
    // The one that was under way is sent by both, under one identity.
    expect(sent.filter((line) => line.startsWith(OPS))).toHaveLength(2);
    expect(new Set(sent).size).toBe(2);
    expect(sent).toHaveLength(3);
    expect(posts()).toHaveLength(1);
  });

  it('is sent although its memory is damaged', async () => {
    await store.put(`${alertsPrefix('nightly')}1.json`, { bytes: Buffer.from('{"version": 9') });
    await alertOperators(createEnv(), both, missing);
    await alertOperators(createEnv(), both, missing);
    expect(await mails()).toHaveLength(2);
  });

  it('is kept with who was sent it when, in the shape that the documentation gives', async () => {
    await alertOperators(createEnv(), both, missing);
    const at = new Date(clock.now()).toISOString();
    const [newest = ''] = pickNewest(await listKeys(store));
    expect(JSON.parse((await readText(store, newest)) ?? '')).toEqual({
      version: 1,
      job: 'nightly',
      alerts: {
        'nightly/date-missing/2026-11-18': {
          ...{ kind: 'date-missing', date: '2026-11-18', code: null, report: null },
          title: '2026-11-18 is missing at the source',
          what: expect.stringContaining('no rows for it'),
          next: expect.stringContaining('flowdrop backfill nightly --from 2026-11-18 --to 2026-11-18'),
          ...{ first_seen: '2026-11-20T23:00:00.000Z', last_seen: '2026-11-20T23:00:00.000Z', status: 'open' },
          sent: { [OPS]: at, [SECOND.toLowerCase()]: at, webhook: at },
        },
      },
      events: { begun: [], noted: {}, owed: {} },
    });
  });

  it('that an API without an answer hides is found by the calendar: a gap 48 hours before its loss, then the loss', async () => {
    const pending = describeUnsealed('2026-11-06', 'pending');
    const known = [{ ...pending, date: '2026-11-05', condition: 'available' }, pending];
    await store.put(conditionKey('trades'), { bytes: Buffer.from(JSON.stringify(known)) });
    const down = createOutcome({
      ...{ result: undefined, deliveries: undefined },
      error: createFailure('API_UNREACHABLE'),
    });
    const expiryMs = Date.parse('2026-11-21T14:30:00Z');
    const runAt = async (nowMs: number) => {
      clock.advance(nowMs - clock.now());
      await alertOperators(createEnv(), createAlertJob(`alerts: {to: [${OPS}]}`), down);
    };
    await runAt(expiryMs - 49 * 3_600_000);
    await runAt(expiryMs - 47 * 3_600_000);
    await runAt(expiryMs - 3_600_000);
    await runAt(expiryMs + 3_600_000);
    await runAt(expiryMs + 7_200_000);
    expect(documents().map(({ alerts, recovered }) => [alerts.map(({ id }) => id), recovered.length])).toEqual([
      [['nightly/run-failed/API_UNREACHABLE'], 0],
      [['nightly/gap-expires-soon/2026-11-06'], 0],
      [['nightly/date-expired/2026-11-06'], 0],
    ]);
  });
});

describe('an alert', () => {
  it('never fails the run: neither a mail server nor a receiver nor a template that is not there', async () => {
    receiver.answers.push(answerWith(500), answerWith(500), answerWith(500), answerWith(500));
    const openMailer = () => Promise.reject(new Fault('SMTP_URL_INVALID', 'no server'));
    await alertOperators(createEnv({ openMailer }), both, missing);
    await alertOperators(createEnv({ templatesDir: folder, openWebhook: async () => undefined }), both, missing);
    expect(await mails()).toEqual([]);
    await alertOperators(createEnv(), both, missing);
    expect(await mails()).toHaveLength(2);
  });

  it('is not lost when neither the store nor this machine can remember it', async () => {
    await writeFile(join(folder, 'state'), 'a file where a folder should be');
    await alertOperators(
      createEnv({ openStore: async () => await Promise.reject(new Fault('S3_UNREACHABLE', 'it is away')) }),
      both,
      missing,
    );
    expect(await mails()).toHaveLength(2);
  });

  it('to a chat tool is signed, and says what, why and what next in its text', async () => {
    await alertOperators(createEnv(), both, missing);
    expect(posts()).toMatchObject([{ path: '/hooks/nightly', isSigned: true }]);
    const [document] = documents();
    expect(document).toMatchObject({
      ...{ version: 1, job: 'nightly', dataset: 'trades', place: `${store.url}/trades`, recovered: [] },
      at: new Date(clock.now()).toISOString(),
      alerts: [
        {
          ...{ id: 'nightly/date-missing/2026-11-18', kind: 'date-missing', severity: 'warning' },
          ...{ date: '2026-11-18', code: null, since: new Date(ALERT_NOW).toISOString() },
        },
      ],
    });
    expect(document?.text.split('\n')).toEqual([
      'flowdrop [warning] nightly: 2026-11-18 is missing at the source',
      '[warning] 2026-11-18 is missing at the source',
      expect.stringContaining('no rows for it'),
      expect.stringMatching(/Next: .*`flowdrop backfill nightly --from 2026-11-18 --to 2026-11-18`/),
    ]);
  });

  it('with several causes is one message, the worst first', async () => {
    const outcome = createOutcome({
      result: createResult({
        conditions: { '2026-11-03': 'expired', '2026-11-18': 'missing', '2026-11-20': 'available' },
      }),
      deliveries: [createDelivery({ 'desk@example.com': 'failed' })],
    });
    await alertOperators(createEnv(), both, outcome);
    const [mail, ...others] = (await mails()).filter(({ to }) => to === OPS);
    expect(others).toEqual([]);
    expect(mail?.subject).toBe('[critical] nightly: 2026-11-03 expired before it was sealed (and 2 more)');
    expect([...(mail?.text ?? '').matchAll(/^\[([A-Z]+)\]/gm)].map(([, label]) => label)).toEqual([
      'CRITICAL',
      'ERROR',
      'WARNING',
    ]);
    // It fetches nothing: no web font, no picture.
    expect(mail?.html).not.toMatch(/<link|@import|<img|url\(/i);
    expect(mail?.headers.find(({ key }) => key === 'auto-submitted')?.value).toBe('auto-generated');
  });

  it('of very many causes is bounded, and says how many are left out', async () => {
    const dates = Array.from(
      { length: 60 },
      (_, k) => `2026-0${1 + Math.floor(k / 28)}-${String((k % 28) + 1).padStart(2, '0')}`,
    );
    const conditions = Object.fromEntries(dates.map((date) => [date, 'expired' as const]));
    await alertOperators(createEnv(), both, createOutcome({ result: createResult({ conditions, lost: dates }) }));
    const [mail] = await mails();
    expect(mail?.subject).toContain('(and 59 more)');
    expect(mail?.text).toContain('40 more are not shown: flowdrop status nightly');
    expect(Buffer.byteLength(mail?.html ?? '')).toBeLessThan(100_000);
    expect(documents()[0]?.alerts).toHaveLength(60);
    expect(documents()[0]?.text.length).toBeLessThan(20_000);
  });

  it('whose cause was put into words by somebody hostile is text everywhere, and mentions nobody', async () => {
    const hostile =
      '<script>alert(1)</script> <!channel> @everyone [click](http://evil.example)\r\nBcc: all@example.com\u2028x';
    const failure = createFailure('S3_UNREACHABLE', { message: hostile, hint: hostile });
    await alertOperators(
      createEnv(),
      both,
      createOutcome({ result: undefined, deliveries: undefined, error: failure }),
    );
    const [mail] = await mails();
    expect(mail?.html).toContain('&lt;script&gt;alert(1)');
    expect(mail?.html).not.toMatch(/<script/i);
    expect(mail?.text).toContain('<script>alert(1)');
    expect(mail?.text).not.toMatch(/^Bcc:/mu);
    expect(mail?.subject).toBe('[error] nightly: The run failed: S3_UNREACHABLE');
    expect(mail?.bcc).toBeUndefined();
    const [document] = documents();
    expect(document?.text).toContain('&lt;!channel&gt;');
    expect(document?.text).not.toMatch(/<|@everyone|\]\(/);
    expect(document?.alerts[0]?.what).toContain('<!channel>');
  });

  it('of a date whose report cannot be made says which, why and what next, and is over with the report', async () => {
    const error = {
      code: 'DROP_DAMAGED',
      message: 'drops/trades is another file',
      hint: 'Run `flowdrop verify nightly`.',
    };
    const failed = createDelivery({}, { date: '2026-11-18', error });
    const pending = createDelivery({}, { date: '2026-11-19', pending: true, revision: 0 });
    const made = createDelivery({ 'desk@example.com': 'sent' });
    const conditions = { '2026-11-18': 'available', '2026-11-19': 'pending', '2026-11-20': 'available' } as const;
    const sealed = createResult({ conditions: { ...conditions, '2026-11-19': 'available' } });
    for (const outcome of [
      { result: createResult({ conditions }), deliveries: [failed, pending, made] },
      { result: createResult({ conditions }), deliveries: [failed, pending, made] },
      { result: sealed, deliveries: [made] },
    ])
      await alertOperators(createEnv(), both, createOutcome(outcome));
    const sent = documents().map(({ alerts, recovered }) =>
      [alerts, recovered].map((list) => list.map(({ id }) => id)),
    );
    const ids = ['nightly/report-failed/flow/DROP_DAMAGED', 'nightly/report-pending/2026-11-19'];
    expect(sent.map((lists) => lists.map((list) => list.toSorted()))).toEqual([
      [ids, []],
      [[], ids],
    ]);
    const [alert] = documents()[0]?.alerts ?? [];
    expect(alert).toMatchObject({
      title: 'The report of 2026-11-18 could not be made: DROP_DAMAGED',
      ...{ date: '2026-11-18', code: 'DROP_DAMAGED', what: 'drops/trades is another file.' },
      next: 'Run `flowdrop verify nightly`. Then: `flowdrop report nightly --date 2026-11-18`; the next run retries too.',
    });
  });
});
