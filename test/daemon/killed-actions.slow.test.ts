/**
 * A daemon that is killed in each action of its page, as whole processes: each one repeats the action in which the one
 * before it was killed, and is killed in the next. Kills in a run of the schedule are in `killed.slow.test.ts`.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import type { ActionAnswer, ActionFields, ActionName, StatusDocument } from '../../src/daemon/shapes.ts';
import type { ActionEntry } from '../../src/state/action-log.ts';
import type { RunRecord } from '../../src/state/run-record.ts';
import { holdFrom } from '../support/fault-plan.ts';
import { flowdrop, listFiles } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { listChildren, untilEnded } from '../support/processes.ts';
import { type DaemonProcess, listMails, useDaemonPlace } from './daemon-process.ts';

const JOB = 'nightly';
/** A session of which the store knows only that it was lost. */
const LOST = '2026-01-05';
/** Actions that no process carries out: they are over within the daemon. */
const WITHIN: readonly ActionName[] = ['stop', 'reload'];

const place = useDaemonPlace();

it('a daemon that is killed in any action leaves nothing half done, says what was asked, and takes it again', async () => {
  const { cwd } = place;
  await writeJob(cwd, {
    reports: 'reports:\n  - template: flow\n    to: [desk@example.com]',
    schedule: 'schedule:\n  cron: "0 12 * * *"\n  timezone: Etc/UTC\n  retry: 10m',
  });
  place.gate.follow(holdFrom(1));
  const first = place.start();
  await first.until('started');
  await killIn(first, 'stop', {});
  place.gate.follow(holdFrom(1));
  const second = place.start();
  await expectKnown(second, 'stop');
  // Its tick is owed, whether the run heard of the stop or not. A run of the schedule that dies has a retry to ask for.
  const started = await second.until('started', { reason: 'catch-up' });
  process.kill(await second.findRun(started), 'SIGKILL');
  await second.until('retry-planned');
  await killIn(second, 'retry', {});
  let daemon = place.start();
  await expectKnown(daemon, 'retry');
  // The run went on without its daemon; if it did not come to its end, its tick is owed.
  await vi.waitFor(async () => expect((await listRuns(daemon))[0]).toMatchObject({ command: 'run', outcome: 'done' }), {
    timeout: 90_000,
    interval: 100,
  });
  const date = await addLostDate();
  const steps: readonly (readonly [ActionName, ActionFields])[] = [
    ['run', {}],
    ['backfill', { from: date, to: date, mode: 'all' }],
    ['audit', { date }],
    ['send', { date, to: 'desk@example.com' }],
    ['accept', { date: LOST, reason: 'the provider had an outage' }],
    ['reload', {}],
  ];
  for (const [action, fields] of steps) {
    await killIn(daemon, action, fields);
    daemon = place.start();
    await expectKnown(daemon, action);
    const before = countEnds(daemon);
    const { outcome, text } = await act(daemon, action, fields);
    expect(['done', 'started'], `${action}: ${text}`).toContain(outcome);
    if (outcome === 'started') await daemon.until('finished', { outcome: 'done' }, before + 1);
  }
  const status = await flowdrop(['--jobs', '.', '--json', 'status', JOB], { cwd });
  const [document] = JSON.parse(status.stdout) as readonly StatusDocument[];
  expect(document?.dates.find((each) => each.date === date)).toMatchObject({ condition: 'available', rows: 300 });
  expect(document?.dates.find((each) => each.date === LOST)?.accepted?.reason).toBe('the provider had an outage');
  const verify = await flowdrop(['--jobs', '.', 'verify', JOB], { cwd, env: place.service.env });
  expect(verify.code, verify.stdout + verify.stderr).toBe(0);
  const drops = (await listFiles(cwd)).filter((name) => /^drops\/trades\/.*\.parquet$/.test(name));
  expect(drops).toEqual([`drops/trades/session=${date}/trades.parquet`]);
  // Of the run, and of each time that it was to be sent again.
  const mails = await listMails(cwd, /^To: desk@example\.com/m);
  expect(mails.length).toBeGreaterThanOrEqual(1);
  expect(mails.length).toBeLessThanOrEqual(3);
}, 300_000);

/** Asks for it, and kills the daemon while it is done. Resolves when no process of it goes on: runs that were held go on to their end. */
async function killIn(daemon: DaemonProcess, action: ActionName, fields: ActionFields): Promise<void> {
  const pid = daemon.child.pid ?? 0;
  await daemon.until('scheduled');
  // Those that read a status.
  await vi.waitFor(async () => expect(await listChildren(pid)).toHaveLength(action === 'stop' ? 1 : 0), 30_000);
  const [others, asked] = [await listChildren(pid), await readRecord()];
  void act(daemon, action, fields).catch(() => undefined); // Its connection breaks.
  await vi.waitFor(
    async () =>
      WITHIN.includes(action)
        ? expect((await readRecord()).length).toBeGreaterThan(asked.length)
        : expect((await listChildren(pid)).length).toBeGreaterThan(others.length),
    { timeout: 30_000, interval: 1 },
  );
  const children = await listChildren(pid);
  await daemon.endBy('SIGKILL');
  await place.gate.heal();
  await untilEnded(children, 60_000);
}

/** The next daemon shows the action, and no run that seems to go on. */
async function expectKnown(daemon: DaemonProcess, action: ActionName): Promise<void> {
  // Its page is there before its job files are read.
  await daemon.until('scheduled');
  const { actions } = (await read(daemon, '/api/actions')) as { readonly actions: readonly ActionEntry[] };
  expect(actions[0]).toMatchObject({ action, outcome: expect.stringMatching(/^(asked|started|done)$/) });
  expect((await listRuns(daemon)).filter(({ outcome }) => outcome === null)).toEqual([]);
  for (const path of ['/', '/actions', '/runs', `/jobs/${JOB}`]) {
    expect((await fetch((await daemon.url()) + path)).status, path).toBe(200);
  }
}

async function act(daemon: DaemonProcess, action: ActionName, fields: ActionFields): Promise<ActionAnswer> {
  return await daemon.act({ action, ...(action === 'reload' ? {} : { job: JOB }), ...fields });
}

async function read(daemon: DaemonProcess, path: string): Promise<unknown> {
  return await (await fetch((await daemon.url()) + path)).json();
}

async function listRuns(daemon: DaemonProcess): Promise<readonly RunRecord[]> {
  return ((await read(daemon, '/api/runs')) as { readonly runs: readonly RunRecord[] }).runs;
}

const countEnds = ({ lines }: DaemonProcess) =>
  lines.filter(({ event, outcome }) => event === 'finished' && outcome === 'done').length;

async function readRecord(): Promise<readonly string[]> {
  const path = join(place.cwd, '.flowdrop', '_daemon', 'actions.jsonl');
  return (await readFile(path, 'utf8').catch(() => '')).split('\n');
}

/** Adds a date to those that the store knows of. @returns the sealed one */
async function addLostDate(): Promise<string> {
  const path = join(place.cwd, 'drops', '_flowdrop', 'trades', 'condition.json');
  const entries = JSON.parse(await readFile(path, 'utf8')) as readonly { readonly date: string }[];
  const lost = { condition: 'expired', last_modified_date: null, revision: null, rows: null, size: null };
  await writeFile(path, JSON.stringify([{ date: LOST, ...lost }, ...entries]));
  return entries.at(-1)?.date ?? '';
}
