/**
 * What `flowdrop status` prints, from fixed documents, against goldens: plain and with colours. Where
 * the documents come from is tested in `test/cli/status/job-status.test.ts`.
 */
import { describe, expect, it } from 'vitest';
import { listSessions, NO_OVERRIDE } from '../../../src/calendar/session.ts';
import { describeOverview, describeStatus, type StatusView } from '../../../src/cli/status/text.ts';
import { createStyle } from '../../../src/cli/terminal/text.ts';
import { formatSpan } from '../../../src/core/date-text.ts';
import type { Condition } from '../../../src/plan/conditions.ts';
import type { DateStatus } from '../../../src/state/documents.ts';
import { createRunRecord } from '../../support/run-record.ts';

/** 18:00 in New York on the Monday after Thanksgiving. */
const NOW = Date.parse('2026-11-30T23:00:00Z');

function createDates(from: string, to: string, others: Readonly<Record<string, Condition>>): readonly DateStatus[] {
  return listSessions(from, to).map((date) => {
    const condition = others[date] ?? 'available';
    const isSealed = condition === 'available' || condition === 'degraded';
    return {
      date,
      condition,
      rows: isSealed ? 1_250_000 : null,
      revision: isSealed ? 1 : null,
      damage: null,
      accepted: null,
      begins_to_expire: isSealed || condition === 'expired' ? null : `${addFifteen(date)}T05:00:00.000Z`,
    };
  });
}

const addFifteen = (date: string) => new Date(Date.parse(date) + 15 * 86_400_000).toISOString().slice(0, 10);

const CONDITIONS = {
  '2026-10-13': 'expired',
  '2026-11-05': 'degraded',
  '2026-11-17': 'missing',
  '2026-11-27': 'pending',
  '2026-11-25': 'pending',
} as const;

function createView(changes: Partial<StatusView> = {}): StatusView {
  return {
    document: {
      job: 'nightly-trades',
      dataset: 'trades',
      store: 's3://bucket/drops',
      dates: createDates('2026-09-21', '2026-11-27', CONDITIONS),
      last_run: createRunRecord(),
      last_success: '2026-11-20T22:59:00.000Z',
      last_backfill: null,
      next_run: '2026-11-30T23:30:00.000Z',
      last_due: '2026-11-27T23:30:00.000Z',
      runner: 'daemon',
      attention: [],
      late: null,
      next_deadline: null,
      running: null,
      staged: null,
      reports: [],
      owed_events: null,
      fault: null,
    },
    timezone: 'America/New_York',
    heartbeat: undefined,
    calendar: NO_OVERRIDE,
    nowMs: NOW,
    conditionFault: undefined,
    style: createStyle(false),
    all: false,
    list: false,
    ...changes,
  };
}

const golden = (name: string) => `../../golden/status-${name}.txt`;

describe('the status of a job', () => {
  it('is a calendar of the last eight weeks, gaps by the time they have left, and the rest in one line', async () => {
    await expect(describeStatus(createView())).toMatchFileSnapshot(golden('weeks'));
  });

  it('says the same with colours', async () => {
    const colored = describeStatus(createView({ style: createStyle(true) }));
    await expect(colored).toMatchFileSnapshot(golden('weeks-colors'));
    // biome-ignore lint/suspicious/noControlCharactersInRegex: this is what colours are made of.
    expect(colored.replace(/\u001b\[\d+m/g, '')).toBe(describeStatus(createView()));
  });

  it('tells the run that goes on and how the last one ended', async () => {
    const { document } = createView();
    const running = createRunRecord({
      ...{ run_id: 'run-7', started_at: '2026-11-30T22:50:00.000Z', updated_at: '2026-11-30T23:00:00.000Z' },
      ...{ finished_at: null, outcome: null, rows: 600_000, pages: 60, requests: 63, retries: 1 },
      progress: {
        ...{ date: '2026-11-25', phase: 'fetching', window: '09:30:00..09:31:00', total_rows: 1_250_000 },
        ...{ dates_done: 0, dates_total: 2, pages_left: 65, rows_per_second: 9_900, seconds_left: 66 },
      },
    });
    const last_run = createRunRecord({ outcome: 'incomplete' });
    const text = describeStatus(createView({ document: { ...document, running, last_run } }));
    expect(text).toContain(
      'running for 10 min: fetching 2026-11-25, 0 of 2 dates done, 48%, 600,000 of 1,250,000 rows, 9,900 rows/s, 65 requests left, 1 min 6 s left (run run-7)\n',
    );
    expect(text).toContain('last run 10 days ago (Nov 20, 17:59 ET): incomplete, nothing to seal');
    expect(text).toContain('next run in 30 min (Nov 30, 18:30 ET)');
  });

  it('tells a run that was cut short in one line of the terminal, with nothing in it that acts there', () => {
    const { document } = createView();
    const last_run = createRunRecord({
      ...{ started_at: '2026-11-30T22:58:00.000Z', finished_at: '2026-11-30T22:59:53.000Z', outcome: 'failed' },
      error: { code: 'SQL_FAILED', message: `near \u001b[2J\n${'x'.repeat(300)}` },
    });
    const shown = (changes: Partial<StatusView>) =>
      describeStatus(createView({ document: { ...document, last_run }, ...changes }))
        .split('\n')
        .slice(1, 3);
    const [whole, success] = shown({});
    expect(whole).toBe(`last run 7 s ago: failed: SQL_FAILED: near \\u001b[2J\\n${'x'.repeat(300)}`);
    expect(success).toBe('last success 10 days ago (Nov 20, 17:59 ET)');
    expect(shown({ width: 60 })).toEqual([`${whole?.slice(0, 59)}…`, success]);
  });

  it('says which dates equal the source, and what was true of those that have expired', () => {
    const { document } = createView();
    const audit = { audited_at: '2026-11-30T22:00:00.000Z', revision: 1, rule: 'repair', counts: 'x' } as const;
    const reason = 'it keeps 2 rows that the source no longer has';
    const audits: Readonly<Record<string, DateStatus['audit']>> = {
      '2026-11-10': { ...audit, result: 'equal', audited_at: '2026-11-24T22:00:00.000Z' },
      '2026-11-12': { ...audit, result: 'differs', reason },
      '2026-11-18': { ...audit, result: 'equal' },
      '2026-11-19': { ...audit, result: 'differs', reason },
      '2026-11-20': { ...audit, result: 'equal' },
    };
    const dates = document.dates.map((one) => ({ ...one, audit: audits[one.date] }));
    const lines = describeStatus(createView({ document: { ...document, dates } })).split('\n');
    expect(lines).toEqual(
      expect.arrayContaining([
        'equal to the source: 2 dates, compared 1 h ago (Nov 30, 17:00 ET)',
        'equal to the source when it expired: 2026-11-10',
        `2026-11-19 differs from the source: ${reason}`,
        `2026-11-12 differed from the source when it expired: ${reason}`,
      ]),
    );
  });

  it('tells dates of weekends, closings by the override, and a store that could not be read', () => {
    const { document } = createView();
    const saturday = { ...createDates('2026-11-20', '2026-11-20', {})[0], date: '2026-11-21' } as DateStatus; // Has all members.
    const dates = [...createDates('2026-11-16', '2026-11-24', {}), saturday]
      .filter(({ date }) => date !== '2026-11-18')
      .sort((a, b) => (a.date < b.date ? -1 : 1));
    const calendar = { ...NO_OVERRIDE, closed: new Set(['2026-11-18']) };
    const text = describeStatus(createView({ document: { ...document, dates, fault: 'gone' }, calendar }));
    expect(text).toContain('closed: 2026-11-18 by a calendar exception\n');
    expect(text).toContain('on weekends: 2026-11-21 available\n');
    expect(text).toContain('The store could not be read; this is what the last run recorded.');
  });
});

it('many jobs are a table, and what needs somebody is below it in words', async () => {
  const { document, ...view } = createView({ width: 80 });
  const sealed = createDates('2026-11-02', '2026-11-27', {});
  const of = (job: string, changes: Partial<StatusView['document']>) => ({
    ...view,
    document: { ...document, job, dates: sealed, ...changes },
  });
  const degraded = sealed.map((date, index) =>
    index < 2 ? { ...date, condition: 'degraded' as const, degraded_reason: `reason ${index}` } : date,
  );
  const finished_at = '2026-11-30T21:59:01.000Z';
  const error = { code: 'API_UNREACHABLE', message: 'nobody answers' };
  const views = [
    of('all-is-well', {}),
    of('chain', { dates: [], last_run: null }),
    of('cut-short', { last_run: createRunRecord({ finished_at, outcome: 'interrupted', error }) }),
    of('degraded', { dates: degraded }),
    of('nightly-trades', {
      dates: createDates('2026-09-21', '2026-11-27', CONDITIONS),
      owed_events: { count: 2, since: '2026-11-30T12:00:00.000Z', reason: '503' },
    }),
    of('unusual', {
      dates: sealed.map((date, index) =>
        index === 4 || index === 14
          ? { ...date, doubts: [`rows: ${index}, 100 expected`] }
          : { ...date, damage: index === 9 ? 'gone' : date.damage },
      ),
    }),
  ];
  await expect(describeOverview(views)).toMatchFileSnapshot(golden('overview'));
});

it('spans are told in one unit, rounded down', () => {
  const HOUR_MS = 3_600_000;
  const spans = [-5, 45_000, 119_999, 120_000, 2 * HOUR_MS - 1, 2 * HOUR_MS, 31.9 * HOUR_MS, 71.9 * HOUR_MS];
  expect(spans.map(formatSpan)).toEqual(['0 s', '45 s', '1 min', '2 min', '1 h', '2 h', '31 h', '2 days']);
});
