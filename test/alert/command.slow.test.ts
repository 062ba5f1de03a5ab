/**
 * Alerts as operators get them: `flowdrop run`, `backfill` and `alert` in processes of their own, against the real service,
 * a real mail server and a real HTTP receiver. Every cause in detail: `causes.test.ts`.
 */
import type { ChildProcess } from 'node:child_process';
import { mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Notice } from '../../src/alert/notice.ts';
import { addDays } from '../../src/calendar/wall-clock.ts';
import { describeUnsealed } from '../../src/ledger/condition-file.ts';
import { buildReply } from '../mail/smtp-receiver.ts';
import { answerWith, WEBHOOK_SECRET } from '../mail/webhook-receiver.ts';
import { holdFrom } from '../support/fault-plan.ts';
import { startFaultProxy } from '../support/fault-proxy.ts';
import { startService } from '../support/flowdrop.ts';
import { createMovedClock } from '../support/moved-clock.ts';
import { AS_OF, useToldWorker } from './told-worker.ts';

const WRONG_KEY = { FLOWDROP_API_KEY: 'cus_wrong_key_0815' };
/** Long enough to be a secret, as those of chat tools are. */
const HOOK_PATH = '/services/T0000/B0000/token-4711-4711';
const ALERTS = 'alerts: {to: [ops@example.com]}';

let refuseDesk = false;
const worker = useToldWorker(
  (url) => ({
    FLOWDROP_ALERT_WEBHOOK_URL: `${url}${HOOK_PATH}`,
    FLOWDROP_ALERT_WEBHOOK_SECRET: WEBHOOK_SECRET,
    // What cannot be mailed now is alerted now.
    FLOWDROP_MAIL_RETRY_SECONDS: '0',
  }),
  {
    onRcptTo: ({ address }, _session, done) =>
      done(refuseDesk && address === 'desk@example.com' ? buildReply(451, 'later') : null),
  },
);
const { posts, run, runKilled, writeJob } = worker;
beforeEach(async () => {
  await writeJob(ALERTS);
  refuseDesk = false;
});

/** What another worker knew of these dates. */
async function noteConditions(...entries: readonly ReturnType<typeof describeUnsealed>[]): Promise<string> {
  const dataset = join(worker.cwd, 'drops', '_flowdrop', 'trades');
  await mkdir(dataset, { recursive: true });
  await writeFile(join(dataset, 'condition.json'), JSON.stringify(entries));
  return dataset;
}

const documents = () => posts().map(({ body }) => JSON.parse(body) as Notice);
const sent = () =>
  documents().map(({ alerts, recovered }) => [alerts.map(({ id }) => id), recovered.map(({ id }) => id)]);
/** Mails to operators. */
const mails = async () =>
  await Promise.all(
    worker
      .mails()
      .filter(({ to }) => to === 'ops@example.com')
      .map(async ({ source }) => await PostalMime.parse(source)),
  );

describe('a run', () => {
  it('whose key is refused tells it once, and once that it is accepted again', async () => {
    for (const _ of [1, 2]) {
      const { code, stderr } = await run(['run', 'nightly'], WRONG_KEY);
      expect(code).toBe(2);
      expect(stderr).toContain('UNAUTHORIZED');
    }
    expect(sent()).toEqual([[['nightly/key-refused/UNAUTHORIZED'], []]]);
    expect((await mails()).map(({ subject }) => subject)).toEqual([
      '[critical] nightly: The API refuses the key: UNAUTHORIZED',
    ]);
    expect((await run(['alerts'])).stdout).toMatch(
      /^nightly: 1 open alert\n\[critical\] The API refuses the key: UNAUTHORIZED\n {4}\S.*\n {4}Next: .*\n {4}Since .* ET; told: ops@example\.com .* ET, webhook .* ET\n$/,
    );
    const { code } = await run(['run', 'nightly']);
    expect(code).toBe(0);
    expect(sent().slice(1)).toEqual([[[], ['nightly/key-refused/UNAUTHORIZED']]]);
    expect((await run(['alerts', 'nightly'])).stdout).toBe('nightly: no open alerts\n');
    expect(posts().every(({ isSigned }) => isSigned)).toBe(true);
    expect(await mails()).toHaveLength(2);
  });

  it('that is killed when a post has left, before it is noted, is followed by one that repeats it under its identity', async () => {
    worker.receiver.answers.push(worker.kill);
    await runKilled(['run', 'nightly'], WRONG_KEY);
    for (const _ of [1, 2]) await run(['run', 'nightly'], WRONG_KEY);
    expect(documents()).toHaveLength(2);
    expect(new Set(documents().map(({ id }) => id)).size).toBe(1);
    // The mail had left and was noted before.
    expect(await mails()).toHaveLength(1);
  });

  it('that finds a date missing tells it, and a backfill that seals the date tells that it is over', async () => {
    expect((await run(['run', 'nightly'])).code).toBe(0);
    // All is well: nothing is told, and nothing of it is written.
    expect(sent()).toEqual([]);
    expect(await readdir(join(worker.cwd, 'drops', '_flowdrop'))).not.toContain('alerts');
    // The archive says that the job knew an earlier session, of which the source has no rows.
    await noteConditions(describeUnsealed('2026-11-18', 'pending'));
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
    await writeFile(join(worker.cwd, 'drops'), 'a file where the store should be');
    for (const _ of [1, 2]) expect((await run(['run', 'nightly'])).code).toBe(1);
    expect(sent()).toMatchObject([[[expect.stringContaining('nightly/run-failed/')], []]]);
    await rm(join(worker.cwd, 'drops'));
    expect((await run(['run', 'nightly'])).code).toBe(0);
    expect(sent().slice(1)).toMatchObject([[[], [expect.stringContaining('nightly/run-failed/')]]]);
  });

  it('that is stopped tells nothing', async () => {
    const gate = await startFaultProxy(worker.service.url, holdFrom(1));
    try {
      const onStart = (child: ChildProcess) => void gate.untilHeld().then(() => child.kill('SIGINT'));
      expect((await run(['run', 'nightly'], { FLOWDROP_API_URL: gate.url }, { onStart })).code).toBe(130);
      expect(sent()).toEqual([]);
    } finally {
      await gate.close();
    }
  });

  it('with a wrong address of the webhook still mails, and does not repeat the address', async () => {
    const { code, stderr } = await run(['run', 'nightly'], {
      ...WRONG_KEY,
      FLOWDROP_ALERT_WEBHOOK_URL: 'hooks.example.com/token-4711',
    });
    expect(code).toBe(2);
    expect(stderr).toContain('FLOWDROP_ALERT_WEBHOOK_URL is not an address');
    expect(stderr).not.toContain('token-4711');
    expect(await mails()).toHaveLength(1);
  });

  it('reads the webhook from files as well', async () => {
    await writeFile(join(worker.cwd, 'hook'), `${worker.receiver.url}${HOOK_PATH}\n`);
    await writeFile(join(worker.cwd, 'secret'), `${WEBHOOK_SECRET}\n`);
    await run(['run', 'nightly'], {
      ...{ ...WRONG_KEY, FLOWDROP_ALERT_WEBHOOK_URL: '', FLOWDROP_ALERT_WEBHOOK_SECRET: '' },
      ...{ FLOWDROP_ALERT_WEBHOOK_URL_FILE: 'hook', FLOWDROP_ALERT_WEBHOOK_SECRET_FILE: 'secret' },
    });
    expect(posts()).toMatchObject([{ path: HOOK_PATH, isSigned: true }]);
  });
});

describe('a backfill', () => {
  it('of dates that were typed wrongly tells the terminal alone', async () => {
    expect((await run(['backfill', 'nightly', '--from', '2026-01-05', '--to', '2026-01-06'])).code).toBe(2);
    expect(sent()).toEqual([]);
  });
});

describe('flowdrop alert', () => {
  it('tells nothing of a job that never ran', async () => {
    expect(await run(['alert', 'nightly'])).toMatchObject({ code: 0, stdout: 'Nothing to report.\n' });
    expect(sent()).toEqual([]);
  });

  it('tells once of a gap that expires within two days', async () => {
    // It begins to expire at the opening of Saturday the 21st.
    await noteConditions(describeUnsealed('2026-11-06', 'pending'));
    const { env } = await createMovedClock(worker.cwd, Date.parse(AS_OF));
    for (const _ of [1, 2]) expect((await run(['alert', 'nightly'], env)).code).toBe(0);
    expect(sent()).toEqual([[['nightly/gap-expires-soon/2026-11-06'], []]]);
  });

  it('tells that a run died, with its id, once, and the next run that ends tells that it is over', async () => {
    const died = ['--json', 'alert', 'nightly', '--died', 'killed by SIGKILL'];
    const { code, stdout } = await run(died, { FLOWDROP_RUN_ID: 'tick-1' });
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ job: 'nightly', run_id: 'tick-1', unsent: [] });
    await run(['alert', 'nightly', '--died', 'killed by SIGSEGV']);
    await run(['alert', 'nightly']);
    expect(sent()).toEqual([[['nightly/run-died'], []]]);
    expect(documents()[0]).toMatchObject({
      run: 'tick-1',
      alerts: [{ what: expect.stringContaining('killed by SIGKILL.') }],
    });
    expect((await run(['run', 'nightly'])).code).toBe(0);
    expect(sent().slice(1)).toEqual([[[], ['nightly/run-died']]]);
  });

  it('tells that a job file is broken, of that very file, and when it is valid again', async () => {
    await writeJob(`${ALERTS}\nreport: {}`);
    expect((await run(['alert', 'nightly', '--broken', 'line 5: unknown key "report"'])).code).toBe(0);
    expect((await run(['alert', 'nightly'])).code).toBe(2);
    await writeJob(ALERTS);
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
    worker.receiver.answers.push(answerWith(403));
    const first = await run(['alert', 'nightly', '--died', 'killed']);
    expect(first).toMatchObject({ code: 1, stdout: expect.stringContaining('Not alerted webhook') });
    expect((await run(['alert', 'nightly'])).code).toBe(0);
    expect([(await mails()).length, documents().length]).toEqual([1, 2]);
    // The next one has nothing left to send.
    expect((await run(['alert', 'nightly'])).code).toBe(0);
    expect([(await mails()).length, documents().length]).toEqual([1, 2]);
  });

  it('says that an alert was written where no mail server is set, and sends it when there is one', async () => {
    const { code, stdout, stderr } = await run(['alert', 'nightly', '--died', 'killed'], {
      FLOWDROP_SMTP_URL: '',
      FLOWDROP_OUTBOX_DIR: 'mail',
    });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^Written to \S+mail\/\S+\.eml for ops@example\.com: nightly\/run-died$/m);
    expect(stdout).toContain('Alerted webhook: nightly/run-died');
    expect(stderr).toContain('alert for ops@example.com written to a folder: ');
    expect(stderr).not.toContain('alert sent to ops@example.com');
    const told = (await run(['alerts', 'nightly'])).stdout;
    expect(told).toMatch(/told: ops@example\.com \(only in a folder\) .*; not told: ops@example\.com$/m);
    expect((await run(['alert', 'nightly'])).stdout).toBe('Alerted ops@example.com: nightly/run-died\n');
    expect(await mails()).toHaveLength(1);
  });

  it.each([
    // Links that lead to themselves: the store is there, its memory of alerts too, and what is to be read is not.
    ['condition.json', 'ELOOP', (path: string) => symlink(path, path)],
    ['session=2026-11-20', 'ELOOP', (path: string) => symlink(path, path)],
    ['condition.json', 'is invalid', (path: string) => writeFile(path, '{}')],
  ] as const)(
    'ends with 1 when the store opens and its %s cannot be read (%s), and tells what it can',
    async (name, reason, breakIt) => {
      // Dates since a week ago are open, so that it is asked which of them are sealed.
      const date = addDays(new Date().toISOString().slice(0, 10), -7);
      const dataset = await noteConditions(describeUnsealed(date, 'pending'));
      await rm(join(dataset, name), { force: true });
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
