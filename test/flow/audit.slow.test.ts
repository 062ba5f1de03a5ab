/**
 * A sealed date whose rows move at the source, seen from outside: processes that are killed in the middle of an audit, a real
 * HTTP API, a real mail server. After the next run the drop has every row of the source, and the correction is mailed once.
 */
import type { ChildProcess } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { describe, expect, it } from 'vitest';
import { previousSessions } from '../../src/calendar/session.ts';
import { dropKey } from '../../src/ledger/layout.ts';
import { computeLookback } from '../../src/plan/dates.ts';
import type { TableRow } from '../chaos/rows.ts';
import { openTruth } from '../chaos/truth.ts';
import { type SmtpReceiver, startSmtpReceiver } from '../mail/smtp-receiver.ts';
import { isPage } from '../support/engine-source.ts';
import { flowdrop, readManifest } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createSpreadRow, type TableFront, useTables } from './table-front.ts';

const ROWS = 2_000;
const LIMIT = 200;
const TO = ['a@example.com', 'b@example.com'] as const;
/** The newest session that is over, by the clock of this machine, which is the API's too. */
const DATE = computeLookback(Date.now()).lastSettled ?? '';

const { cleanups, folder, openTable, keep } = useTables();

/** A job that mails to `TO`, and its runs, which a signal may end in the middle. */
async function openJob(source: TableFront, receiver: SmtpReceiver, api: 'historical' | 'portal') {
  const cwd = await folder();
  const job = await writeJob(cwd, { api, reports: `reports:\n  - template: flow\n    to: [${TO.join(', ')}]` });
  const env = { ...source.env, FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${receiver.port}` };
  let child: ChildProcess | undefined;
  return {
    cwd,
    kill: (signal: NodeJS.Signals = 'SIGKILL') => child?.kill(signal),
    type: async (command: string, ...more: string[]) => await flowdrop([command, job, ...more], { cwd, env }),
    runToKill: async () =>
      await flowdrop(['run', job], {
        cwd,
        env,
        onStart: (started) => {
          child = started;
        },
      }),
    manifest: async (date = DATE) => await readManifest(join(cwd, 'drops'), date),
  };
}

async function readSubjects({ messages }: SmtpReceiver, from: number): Promise<readonly string[]> {
  const mails = messages.slice(from).map(async ({ source }) => (await PostalMime.parse(source)).subject ?? '');
  return await Promise.all(mails);
}

describe('a sealed date whose rows move', () => {
  it.each([
    ['historical', 'time'],
    ['portal', 'symbol'],
  ] as const)(
    'equals the source after a run that nobody kills, of %s by %s',
    async (api, order) => {
      const rows = Array.from({ length: ROWS }, (_, k) => createSpreadRow(DATE, k, ROWS));
      let killAt = Number.POSITIVE_INFINITY;
      let signal: NodeJS.Signals = 'SIGKILL';
      let asked = 0;
      const source = await openTable(rows, {
        ...{ order, rowLimit: LIMIT },
        isPage: (sql) => {
          asked += 1;
          if (asked === killAt) kill(signal);
          return isPage(sql);
        },
      });
      const receiver = await keep(startSmtpReceiver());
      const { cwd, kill, type, runToKill, manifest } = await openJob(source, receiver, api);
      const runUntil = async (at: number, by: NodeJS.Signals) => {
        [killAt, signal, asked] = [at, by, 0];
        return await runToKill().finally(() => {
          killAt = Number.POSITIVE_INFINITY;
        });
      };
      const first = await type('run');
      expect(first.code, first.stderr).toBe(0);
      expect(receiver.messages).toHaveLength(TO.length);

      const corrected = rows.filter((_, k) => k % 50 === 7);
      const correct = ({ id, values }: TableRow) => {
        const newer = { premium: Number(values['premium']) * 30, updated_timestamp: '1799000000000' };
        return { id, values: { ...values, ...newer } };
      };
      const late = Array.from({ length: 5 }, (_, k) => createSpreadRow(DATE, k * 300, ROWS, { id: `late-${k}` }));
      await source.table.change({
        remove: corrected.map(({ id }) => id),
        add: [...corrected.map(correct), ...late],
      });
      // `isPage` is called more than once a request.
      for (const at of [1, 4, 9]) {
        const killed = await runUntil(at, 'SIGKILL');
        expect(killed.code, killed.stderr).toBeNull();
      }
      const stopped = await runUntil(4, 'SIGINT');
      expect(stopped.code, stopped.stderr).toBe(130);
      expect(stopped.stderr).not.toContain('audit-failed');
      expect(await manifest()).toMatchObject({ revision: 1 });
      const last = await type('run');
      expect(last.code, last.stderr).toBe(0);
      expect(last.stdout).toMatch(/Compared 1 sealed date with the source: 1 equal\./);
      const truthFile = join(cwd, 'truth.ndjson');
      await writeFile(truthFile, source.table.rows.map(({ values }) => `${JSON.stringify(values)}\n`).join(''));
      const truth = await openTruth(truthFile);
      cleanups.push(async () => truth.close());
      expect(await truth.compare(join(cwd, 'drops', dropKey('trades', DATE)))).toEqual([]);
      const changes = { added: 5, removed: 0, altered: corrected.length };
      expect(await manifest()).toMatchObject({ revision: 2, changes });
      expect(
        receiver.messages
          .slice(TO.length)
          .map(({ to }) => to)
          .toSorted(),
      ).toEqual([...TO]);
      for (const subject of await readSubjects(receiver, TO.length)) expect(subject).toMatch(/correct/i);

      const calm = await type('run');
      expect(calm.stdout).toContain('Nothing to seal');
      expect(receiver.messages).toHaveLength(2 * TO.length);
      const verified = await type('verify', '--deep');
      expect(verified.code, verified.stdout).toBe(0);
      const status = await type('status');
      expect(status.stdout).toMatch(/equal to the source: 1 date, compared \d+ s ago/);
    },
    300_000,
  );

  it('waits until the newest report is mailed, and its own correction is mailed once although runs are killed', async () => {
    const [older = ''] = previousSessions(DATE, 2);
    const createDay = (date: string) => Array.from({ length: LIMIT }, (_, k) => createSpreadRow(date, k * 10, ROWS));
    let killAt: 'audit' | 'correction' | undefined;
    const receiver = await startSmtpReceiver({
      onConnect(_session, done) {
        if (killAt === 'correction') kill();
        else done();
      },
    });
    cleanups.push(() => receiver.close());
    const source = await openTable(createDay(older), {
      rowLimit: LIMIT,
      isPage: (sql) => {
        // Once the mails are out, nothing but an audit asks. It gets no answer.
        if (killAt === 'audit' && receiver.messages.length === 2 * TO.length) kill();
        return isPage(sql);
      },
    });
    const { kill, type, runToKill, manifest } = await openJob(source, receiver, 'historical');
    const revisions = async () => [(await manifest(older)).revision, (await manifest(DATE)).revision];

    await type('run');
    expect(receiver.messages).toHaveLength(TO.length);
    const late = Array.from({ length: 5 }, (_, k) => createSpreadRow(older, k * 10 + 1, ROWS, { premium: 5e7 }));
    await source.table.change({ remove: [], add: [...createDay(DATE), ...late] });
    killAt = 'audit';
    const inAudit = await runToKill();
    expect(inAudit.code, inAudit.stderr).toBeNull();
    expect(receiver.messages).toHaveLength(2 * TO.length);
    expect(await revisions()).toEqual([1, 1]);

    killAt = 'correction';
    const beforeCorrection = await runToKill();
    expect(beforeCorrection.code, beforeCorrection.stderr).toBeNull();
    expect(await revisions()).toEqual([2, 1]);
    expect(receiver.messages).toHaveLength(2 * TO.length);

    killAt = undefined;
    const last = await type('run');
    expect(last.code, last.stderr).toBe(0);
    expect((await type('run')).stdout).toContain('Nothing to seal');
    expect(receiver.messages.map(({ to }) => to).toSorted()).toEqual([...TO, ...TO, ...TO].toSorted());
    for (const subject of await readSubjects(receiver, 2 * TO.length)) expect(subject).toMatch(/correct/i);
  });
});
