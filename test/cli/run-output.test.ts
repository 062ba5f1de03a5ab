/** The end of `run` and `backfill` as a person reads it. What a run does is tested in `test/run` and `test/flow`. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { CliContext, Terminal } from '../../src/cli/context.ts';
import { describeDelivery, printRun } from '../../src/cli/run-output.ts';
import { createProgress } from '../../src/cli/terminal/progress.ts';
import { systemClock } from '../../src/core/clock.ts';
import { openOutboxMailer } from '../../src/mail/message.ts';
import { createTotals } from '../../src/state/run-events.ts';
import type { DateResult, Delivery, RunResult } from '../../src/state/run-result.ts';
import { createKeptLog } from '../support/log.ts';

const RUN: RunResult = {
  job: 'nightly',
  run_id: 'run-1',
  dataset: 'trades',
  store: 'drops',
  started_at: '2026-11-20T23:00:00.000Z',
  finished_at: '2026-11-20T23:00:09.000Z',
  server_time: '2026-11-20T23:00:09.000Z',
  requests: 7,
  retries: 0,
  rate_limited: 0,
  splits: 0,
  bytes: 1,
  row_limit: 1000,
  dates: [],
  conditions: {},
  damaged: {},
  lost: [],
  gaps: [],
  new_gaps: [],
  accepted: [],
  held: [],
  open: {},
  audits: {},
  clocks: { server: null, own: '2026-11-20T23:00:09.000Z', conflict: null },
  expires: {},
};

function describe(...dates: readonly DateResult[]): string {
  let shown = '';
  const print = (_: unknown, text: string): undefined => {
    shown = text;
  };
  const openers = { runId: 'r1' } as CliContext['openers']; // Only the id is used.
  printRun(
    { print, openers },
    { result: { ...RUN, dates: [...dates] }, deliveries: [], error: undefined, shortfall: undefined },
  );
  return shown;
}

const CHANGES = { added: 3, removed: 1, altered: 2, columns_added: [], columns_removed: [] };
const DATE: DateResult = { date: '2026-11-19', status: 'sealed', rows: 5, requests: 1, revision: 1 };

it('a restatement says its revision and what changed', () => {
  expect(describe(DATE)).toMatch(/2026-11-19 +sealed +5/);
  expect(describe({ ...DATE, revision: 2, changes: CHANGES })).toContain(
    'restated (revision 2: 3 added, 1 removed, 2 altered)',
  );
  expect(describe({ ...DATE, revision: 3, changes: { ...CHANGES, columns_added: ['oi'] } })).toContain(
    'restated (revision 3: 3 added, 1 removed, 2 altered, column oi added)',
  );
  expect(describe({ ...DATE, revision: 2, changes: null })).toContain('restated (revision 2) ');
});

it('a date that the source has nothing of has no rows, and one that is the same is unchanged', () => {
  expect(describe({ ...DATE, status: 'missing', rows: 0 })).toMatch(/2026-11-19 +no rows/);
  expect(describe({ ...DATE, status: 'unchanged' })).toMatch(/2026-11-19 +unchanged/);
});

it('a failure names its date once, whether or not its message does', () => {
  const failed = (message: string) =>
    describe({ ...DATE, status: 'failed', error: { code: 'CHECK_FAILED', message, hint: 'Look.' } });
  const line = '\n2026-11-19: check min-rows: 5 rows\n  -> Look.\n';
  expect(failed('2026-11-19: check min-rows: 5 rows')).toContain(line);
  expect(failed('check min-rows: 5 rows')).toContain(line);
});

it('a mail in the outbox was written, and one that a server took was sent', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'flowdrop-outbox-'));
  try {
    const to = 'desk@example.com';
    const answer = await openOutboxMailer({ directory }).send({
      ...{ from: 'flowdrop@localhost', to, subject: 'Flow', html: '<p>Flow</p>', text: 'Flow' },
      ...{ images: [], attachments: [], listUnsubscribe: null, messageId: 'one@localhost', date: new Date(0) },
    });
    if (answer.status !== 'sent' || answer.file === undefined) throw new Error('it was not written');
    const { status: outcome, detail, file } = answer;
    const event = { kind: 'mailed', date: '2026-11-19', to, outcome } as const;
    const { log, records } = createKeptLog();
    // Without a terminal each event is a line of the log; only whether there is one is asked.
    const terminal = { columns: {} } as unknown as Terminal;
    const stats = { requests: 0, retries: 0, rateLimited: 0, bytes: 0 };
    const totals = createTotals(systemClock);
    const progress = createProgress({ log, clock: systemClock, totals, stats }, terminal);
    progress.onEvent({ ...event, file });
    progress.onEvent(event);
    expect(records.map(({ msg }) => msg)).toEqual([
      `2026-11-19: report for ${to} written to ${directory}`,
      `2026-11-19: report sent to ${to}`,
    ]);
    const delivery: Delivery = {
      ...{ report: 'flow', date: '2026-11-19', revision: 1, subject: 'Flow', alreadySent: 0, leftToOther: false },
      ...{ late: false, pending: false, skipped: null, error: null },
      recipients: [
        { to, outcome, detail, file },
        { to: 'second@example.com', outcome, detail: '250 OK' },
      ],
    };
    expect(describeDelivery(delivery)).toEqual([
      'Report of 2026-11-19: Flow',
      `  written for ${to}, not sent: ${join(directory, 'one.eml')}`,
      '  sent second@example.com: 250 OK',
    ]);
  } finally {
    await rm(directory, { recursive: true });
  }
});
