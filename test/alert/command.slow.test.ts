/**
 * Alerts as operators get them: `flowdrop run` and `backfill` in processes of their own, against the real service, a real
 * mail server and a real HTTP receiver. Every cause in detail: `alerts-causes.test.ts`.
 */
import type { ChildProcess } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Notice } from '../../src/alert/notice.ts';
import { buildReply, type SmtpReceiver, startSmtpReceiver } from '../mail/smtp-receiver.ts';
import { answerWith, startWebhookReceiver, WEBHOOK_SECRET, type WebhookReceiver } from '../mail/webhook-receiver.ts';
import { holdFrom } from '../support/fault-plan.ts';
import { startFaultProxy } from '../support/fault-proxy.ts';
import { type Finished, flowdrop, listFiles, makeFolder, startService, type TestService } from '../support/flowdrop.ts';

const AS_OF = '2026-11-20T23:00:00Z';
const WRONG_KEY = 'cus_wrong_key_0815';
/** Long enough to be a secret, as those of chat tools are. */
const HOOK_PATH = '/services/T0000/B0000/token-4711-4711';

let service: TestService;
let smtp: SmtpReceiver;
let receiver: WebhookReceiver;
let refuseDesk = false;
beforeAll(async () => {
  [service, smtp, receiver] = await Promise.all([
    startService(['--generate', '2', '--generate-rows', '300', '--as-of', AS_OF]),
    startSmtpReceiver({
      onRcptTo: ({ address }, _session, done) =>
        done(refuseDesk && address === 'desk@example.com' ? buildReply(451, 'later') : null),
    }),
    startWebhookReceiver(),
  ]);
});
afterAll(async () => {
  await Promise.all([service.stop(), smtp.close(), receiver.close()]);
});

let cwd: string;
let remove: () => Promise<void>;
let mailsBefore: number;
let postsBefore: number;
beforeEach(async () => {
  ({ path: cwd, remove } = await makeFolder());
  await writeJob('alerts: {to: [ops@example.com]}');
  mailsBefore = smtp.messages.length;
  postsBefore = receiver.posts.length;
  refuseDesk = false;
});
afterEach(async () => await remove());

async function writeJob(rest: string): Promise<void> {
  const base = 'name: nightly\nsource: {api: historical}\ndrop: {to: drops, dataset: trades}\n';
  await mkdir(join(cwd, 'jobs'), { recursive: true });
  await writeFile(join(cwd, 'jobs', 'nightly.yaml'), `${base}${rest}\n`);
}

async function run(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  onStart?: (child: ChildProcess) => void,
): Promise<Finished> {
  return await flowdrop(args, {
    ...{ cwd, ...(onStart ? { onStart } : {}) },
    env: {
      ...service.env,
      FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${smtp.port}?tls=none`,
      FLOWDROP_ALERT_WEBHOOK_URL: `${receiver.url}${HOOK_PATH}`,
      FLOWDROP_ALERT_WEBHOOK_SECRET: WEBHOOK_SECRET,
      // What cannot be mailed now is alerted now.
      FLOWDROP_MAIL_RETRY_SECONDS: '0',
      ...env,
    },
  });
}

const documents = () => receiver.posts.slice(postsBefore).map(({ body }) => JSON.parse(body) as Notice);
const sent = () =>
  documents().map(({ alerts, recovered }) => [alerts.map(({ id }) => id), recovered.map(({ id }) => id)]);
/** Mails to operators. */
const mails = async () =>
  await Promise.all(
    smtp.messages
      .slice(mailsBefore)
      .filter(({ to }) => to === 'ops@example.com')
      .map(async ({ source }) => await PostalMime.parse(source)),
  );

describe('a run', () => {
  it('whose key is refused tells it once, and once that it is accepted again', async () => {
    for (const _ of [1, 2]) {
      const { code, stderr } = await run(['run', 'nightly'], { FLOWDROP_API_KEY: WRONG_KEY });
      expect(code).toBe(2);
      expect(stderr).toContain('UNAUTHORIZED');
    }
    expect(sent()).toEqual([[['nightly/key-refused/UNAUTHORIZED'], []]]);
    expect((await mails()).map(({ subject }) => subject)).toEqual([
      '[critical] nightly: The API refuses the key: UNAUTHORIZED',
    ]);
    const { code } = await run(['run', 'nightly']);
    expect(code).toBe(0);
    expect(sent().slice(1)).toEqual([[[], ['nightly/key-refused/UNAUTHORIZED']]]);
    expect(receiver.posts.slice(postsBefore).every(({ isSigned }) => isSigned)).toBe(true);
    expect(await mails()).toHaveLength(2);
  });

  it('shows the key, the address and the secret of the webhook nowhere', async () => {
    receiver.answers.push(answerWith(403, {}, `${HOOK_PATH} ${WEBHOOK_SECRET}`));
    const { stdout, stderr } = await run(['--debug', 'run', 'nightly'], { FLOWDROP_API_KEY: WRONG_KEY });
    expect(stderr).toContain('alert-unsent');
    const files = (await listFiles(cwd)).filter((name) => !name.includes('engine'));
    const texts = await Promise.all(files.map((name) => readFile(join(cwd, name), 'utf8')));
    const mailed = smtp.messages.slice(mailsBefore).map(({ source }) => source.toString());
    const all = [
      stdout,
      stderr,
      ...texts,
      ...mailed,
      ...receiver.posts.slice(postsBefore).map(({ body }) => body),
    ].join();
    for (const secret of [WRONG_KEY, HOOK_PATH, WEBHOOK_SECRET]) expect(all).not.toContain(secret);
    expect(files).toContain('drops/_flowdrop/alerts/nightly/v1.json');
  });

  it('that is killed when a post has left, before it is noted, is followed by one that repeats it under its identity', async () => {
    let child: ChildProcess | undefined;
    receiver.answers.push(() => void child?.kill('SIGKILL'));
    const killed = await run(['run', 'nightly'], { FLOWDROP_API_KEY: WRONG_KEY }, (started) => {
      child = started;
    });
    expect(killed.code).toBeNull();
    for (const _ of [1, 2]) await run(['run', 'nightly'], { FLOWDROP_API_KEY: WRONG_KEY });
    expect(documents()).toHaveLength(2);
    expect(new Set(documents().map(({ id }) => id)).size).toBe(1);
    // The mail had left and was noted before.
    expect(await mails()).toHaveLength(1);
  });

  it('in which all is well tells nothing and writes nothing of it', async () => {
    const { code } = await run(['run', 'nightly']);
    expect(code).toBe(0);
    expect(sent()).toEqual([]);
    expect((await listFiles(join(cwd, 'drops'))).filter((name) => name.startsWith('_flowdrop/alerts'))).toEqual([]);
  });

  it('that finds a date missing tells it, and a backfill that seals the date tells that it is over', async () => {
    expect((await run(['run', 'nightly'])).code).toBe(0);
    // The archive says that the job knew an earlier session, of which the source has no rows.
    await writeFile(
      join(cwd, 'drops', '_flowdrop', 'trades', 'condition.json'),
      JSON.stringify([
        { date: '2026-11-18', condition: 'pending', last_modified_date: null, revision: null, rows: null, size: null },
      ]),
    );
    expect((await run(['run', 'nightly'])).code).toBe(3);
    // A known gap is no failure.
    expect((await run(['run', 'nightly'])).code).toBe(0);
    expect(sent()).toEqual([[['nightly/date-missing/2026-11-18'], []]]);
    // The provider has put the rows there since.
    const repaired = await startService(['--generate', '3', '--generate-rows', '300', '--as-of', AS_OF]);
    try {
      const args = ['backfill', 'nightly', '--from', '2026-11-18', '--to', '2026-11-18'];
      expect((await run(args, repaired.env)).code).toBe(0);
    } finally {
      await repaired.stop();
    }
    expect(sent().slice(1)).toEqual([[[], ['nightly/date-missing/2026-11-18']]]);
  });

  it('whose report does not reach somebody tells it, and ends as it would without alerts', async () => {
    await writeJob('reports: [{template: flow, to: [desk@example.com]}]\nalerts: {to: [ops@example.com]}');
    refuseDesk = true;
    expect((await run(['run', 'nightly'])).code).toBe(1);
    expect((await run(['run', 'nightly'])).code).toBe(1);
    expect(sent()).toEqual([[['nightly/report-failed/flow/desk@example.com'], []]]);
    refuseDesk = false;
    expect((await run(['run', 'nightly'])).code).toBe(0);
    expect(sent().slice(1)).toEqual([[[], ['nightly/report-failed/flow/desk@example.com']]]);
  });

  it('that cannot even be opened is alerted too: a setting is missing', async () => {
    const { code } = await run(['run', 'nightly'], { FLOWDROP_API_KEY: '' });
    expect(code).toBe(2);
    expect(sent()).toEqual([[['nightly/run-failed/SETTING_MISSING'], []]]);
  });

  it('whose store cannot be opened is alerted once, remembered on this machine', async () => {
    await writeFile(join(cwd, 'drops'), 'a file where the store should be');
    for (const _ of [1, 2]) expect((await run(['run', 'nightly'])).code).toBe(1);
    expect(sent()).toMatchObject([[[expect.stringContaining('nightly/run-failed/')], []]]);
    await rm(join(cwd, 'drops'));
    expect((await run(['run', 'nightly'])).code).toBe(0);
    expect(sent().slice(1)).toMatchObject([[[], [expect.stringContaining('nightly/run-failed/')]]]);
  });

  it('that is stopped tells nothing', async () => {
    const gate = await startFaultProxy(service.url, holdFrom(1));
    try {
      const stop = (child: ChildProcess) => void gate.untilHeld().then(() => child.kill('SIGINT'));
      expect((await run(['run', 'nightly'], { FLOWDROP_API_URL: gate.url }, stop)).code).toBe(130);
      expect(sent()).toEqual([]);
    } finally {
      await gate.close();
    }
  });

  it('with a wrong address of the webhook still mails, and does not repeat the address', async () => {
    const { code, stderr } = await run(['run', 'nightly'], {
      ...{ FLOWDROP_API_KEY: WRONG_KEY, FLOWDROP_ALERT_WEBHOOK_URL: 'hooks.example.com/token-4711' },
    });
    expect(code).toBe(2);
    expect(stderr).toContain('FLOWDROP_ALERT_WEBHOOK_URL is not an address');
    expect(stderr).not.toContain('token-4711');
    expect(await mails()).toHaveLength(1);
  });

  it('reads the webhook from files as well', async () => {
    await writeFile(join(cwd, 'hook'), `${receiver.url}${HOOK_PATH}\n`);
    await writeFile(join(cwd, 'secret'), `${WEBHOOK_SECRET}\n`);
    await run(['run', 'nightly'], {
      ...{ FLOWDROP_API_KEY: WRONG_KEY, FLOWDROP_ALERT_WEBHOOK_URL: '', FLOWDROP_ALERT_WEBHOOK_SECRET: '' },
      ...{ FLOWDROP_ALERT_WEBHOOK_URL_FILE: 'hook', FLOWDROP_ALERT_WEBHOOK_SECRET_FILE: 'secret' },
    });
    expect(receiver.posts.slice(postsBefore)).toMatchObject([{ path: HOOK_PATH, isSigned: true }]);
  });
});

describe('a backfill', () => {
  it('of dates that were typed wrongly tells the terminal alone', async () => {
    expect((await run(['backfill', 'nightly', '--from', '2026-01-05', '--to', '2026-01-06'])).code).toBe(2);
    expect(sent()).toEqual([]);
  });
});
