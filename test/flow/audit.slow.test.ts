/**
 * A sealed date whose rows move at the source, seen from outside: processes that are killed in the middle of an audit, a real
 * HTTP API, a real mail server. After the next run the drop has every row of the source, and the correction is mailed once.
 */
import type { ChildProcess } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { describe, expect, it } from 'vitest';
import { closeSecond, previousSessions } from '../../src/calendar/session.ts';
import { formatSecond } from '../../src/calendar/wall-clock.ts';
import { dropKey, manifestKey } from '../../src/ledger/layout.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import { computeLookback } from '../../src/plan/dates.ts';
import { startFront } from '../chaos/front.ts';
import type { TableRow } from '../chaos/rows.ts';
import { ChaosTable, closeTables } from '../chaos/table.ts';
import { openTruth } from '../chaos/truth.ts';
import { startSmtpReceiver } from '../mail/smtp-receiver.ts';
import { useCleanups } from '../support/cleanups.ts';
import { isPage } from '../support/engine-source.ts';
import { flowdrop, KEY, readJson } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createTrade } from '../support/trades.ts';

const ROWS = 2_000;
const LIMIT = 200;
const OPEN_SECOND = 34_200;
const TO = ['a@example.com', 'b@example.com'] as const;
/** The newest session that is over, by the clock of this machine, which is the API's too. */
const DATE = computeLookback(Date.now()).lastSettled ?? '';

const { cleanups, folder } = useCleanups();
// Last, after the tables.
cleanups.push(closeTables);

function createRow(k: number, changes: Readonly<Record<string, unknown>> = {}, date = DATE): TableRow {
  const width = (closeSecond(date, 'equity') - OPEN_SECOND) / ROWS;
  const time = `${date} ${formatSecond(OPEN_SECOND + Math.floor((k % ROWS) * width))}`;
  const id = `${date}-${k}`;
  const values = { ...createTrade(k), id, date, time, ...changes };
  return { id, values };
}

describe('a sealed date whose rows move', () => {
  it.each([
    ['historical', 'time'],
    ['portal', 'symbol'],
  ] as const)(
    'equals the source after a run that nobody kills, of %s by %s',
    async (api, order) => {
      const cwd = await folder();
      const rows = Array.from({ length: ROWS }, (_, k) => createRow(k));
      const table = await ChaosTable.create(order, rows);
      cleanups.push(() => table.drop());
      let child: ChildProcess | undefined;
      let killAt = Number.POSITIVE_INFINITY;
      let signal: NodeJS.Signals = 'SIGKILL';
      let asked = 0;
      const front = await startFront({
        table,
        rowLimit: LIMIT,
        isPage: (sql) => {
          asked += 1;
          if (asked === killAt) child?.kill(signal);
          return isPage(sql);
        },
      });
      cleanups.push(() => front.close());
      const receiver = await startSmtpReceiver();
      cleanups.push(() => receiver.close());
      const env = {
        ...{ FLOWDROP_API_URL: front.url, FLOWDROP_PORTAL_URL: front.url, FLOWDROP_API_KEY: KEY },
        FLOWDROP_REQUESTS_PER_SECOND: '50',
        FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${receiver.port}`,
      };
      const reports = `reports:\n  - template: flow\n    to: [${TO.join(', ')}]`;
      const job = await writeJob(cwd, { name: 'nightly', api, reports });
      const run = async (at = Number.POSITIVE_INFINITY, by: NodeJS.Signals = 'SIGKILL') => {
        [killAt, signal] = [at, by];
        asked = 0;
        const onStart = (started: ChildProcess) => {
          child = started;
        };
        return await flowdrop(['run', job], { cwd, env, ...(Number.isFinite(at) ? { onStart } : {}) });
      };
      const readManifest = () => readJson<Manifest>(join(cwd, 'drops'), manifestKey('trades', DATE));
      const first = await run();
      expect(first.code, first.stderr).toBe(0);
      expect(receiver.messages).toHaveLength(TO.length);

      const corrected = rows.filter((_, k) => k % 50 === 7);
      const values = (row: TableRow) => ({
        premium: Number(row.values['premium']) * 30,
        updated_timestamp: '1799000000000',
      });
      const late = Array.from({ length: 5 }, (_, k) => createRow(k * 300, { id: `late-${k}` }));
      await table.change({
        remove: corrected.map(({ id }) => id),
        add: [
          ...corrected.map((row) => ({ ...row, values: { ...row.values, ...values(row) } })),
          ...late.map((row, k) => ({ ...row, id: `late-${k}` })),
        ],
      });
      // `isPage` is called more than once a request.
      for (const at of [1, 4, 9]) {
        const killed = await run(at);
        expect(killed.code, killed.stderr).toBeNull();
      }
      const stopped = await run(4, 'SIGINT');
      expect(stopped.code, stopped.stderr).toBe(130);
      expect(stopped.stderr).not.toContain('audit-failed');
      expect(await readManifest()).toMatchObject({ revision: 1 });
      const last = await run();
      expect(last.code, last.stderr).toBe(0);
      expect(last.stdout).toMatch(/Compared 1 sealed date with the source: 1 equal\./);
      const truthFile = join(cwd, 'truth.ndjson');
      await writeFile(truthFile, table.rows.map((row) => `${JSON.stringify(row.values)}\n`).join(''));
      const truth = await openTruth(truthFile);
      cleanups.push(async () => truth.close());
      expect(await truth.compare(join(cwd, 'drops', dropKey('trades', DATE)))).toEqual([]);
      expect(await readManifest()).toMatchObject({
        revision: 2,
        changes: { added: 5, removed: 0, altered: corrected.length },
      });
      const corrections = receiver.messages.slice(TO.length);
      expect(corrections.map(({ to }) => to).toSorted()).toEqual([...TO]);
      for (const { source } of corrections) expect((await PostalMime.parse(source)).subject).toMatch(/correct/i);

      const calm = await run();
      expect(calm.stdout).toContain('Nothing to seal');
      expect(receiver.messages).toHaveLength(2 * TO.length);
      const verified = await flowdrop(['verify', job, '--deep'], { cwd, env });
      expect(verified.code, verified.stdout).toBe(0);
      const status = await flowdrop(['status', job], { cwd, env });
      expect(status.stdout).toMatch(/equal to the source: 1 date, compared \d+ s ago/);
    },
    300_000,
  );

  it('waits until the newest report is mailed, and its own correction is mailed once although runs are killed', async () => {
    const cwd = await folder();
    const [older = ''] = previousSessions(DATE, 2);
    const createDay = (date: string) => Array.from({ length: LIMIT }, (_, k) => createRow(k * 10, {}, date));
    const table = await ChaosTable.create('time', createDay(older));
    cleanups.push(() => table.drop());
    let child: ChildProcess | undefined;
    let killAt: 'audit' | 'correction' | undefined;
    const receiver = await startSmtpReceiver({
      onConnect(_session, done) {
        if (killAt === 'correction') child?.kill('SIGKILL');
        else done();
      },
    });
    cleanups.push(() => receiver.close());
    const front = await startFront({
      table: {
        rows: [],
        async query(sql, isPageSql) {
          // Once the mails are out, nothing but an audit asks. It gets no answer.
          if (killAt === 'audit' && receiver.messages.length === 2 * TO.length) child?.kill('SIGKILL');
          return await table.query(sql, isPageSql);
        },
      },
      rowLimit: LIMIT,
      isPage,
    });
    cleanups.push(() => front.close());
    const env = {
      ...{ FLOWDROP_API_URL: front.url, FLOWDROP_API_KEY: KEY, FLOWDROP_REQUESTS_PER_SECOND: '50' },
      FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${receiver.port}`,
    };
    const reports = `reports:\n  - template: flow\n    to: [${TO.join(', ')}]`;
    const job = await writeJob(cwd, { name: 'nightly', reports });
    const run = async (at?: typeof killAt) => {
      killAt = at;
      const onStart = (started: ChildProcess) => {
        child = started;
      };
      return await flowdrop(['run', job], { cwd, env, ...(at ? { onStart } : {}) });
    };
    const subjects = async (from: number) =>
      await Promise.all(
        receiver.messages.slice(from).map(async ({ source }) => (await PostalMime.parse(source)).subject ?? ''),
      );
    const revision = async (date: string) =>
      (await readJson<Manifest>(join(cwd, 'drops'), manifestKey('trades', date))).revision;

    await run();
    expect(receiver.messages).toHaveLength(TO.length);
    const late = Array.from({ length: 5 }, (_, k) => createRow(k * 10 + 1, { premium: 5e7 }, older));
    await table.change({ remove: [], add: [...createDay(DATE), ...late] });
    const inAudit = await run('audit');
    expect(inAudit.code, inAudit.stderr).toBeNull();
    expect(receiver.messages).toHaveLength(2 * TO.length);
    expect([await revision(older), await revision(DATE)]).toEqual([1, 1]);

    const beforeCorrection = await run('correction');
    expect(beforeCorrection.code, beforeCorrection.stderr).toBeNull();
    expect([await revision(older), receiver.messages.length]).toEqual([2, 2 * TO.length]);

    const last = await run();
    expect(last.code, last.stderr).toBe(0);
    expect((await run()).stdout).toContain('Nothing to seal');
    expect(receiver.messages.map(({ to }) => to).toSorted()).toEqual([...TO, ...TO, ...TO].toSorted());
    for (const subject of await subjects(2 * TO.length)) expect(subject).toMatch(/correct/i);
  }, 120_000);
});
