/**
 * Which causes a run gives operators, with which identity, and when a cause is over: the pure part, case by case. What is
 * remembered and delivered: `alerts-state.test.ts`, `alerts.slow.test.ts`.
 */

import { describe, expect, it } from 'vitest';
import { describeCause } from '../../src/alert/alert-text.ts';
import { CAUSE_KINDS, type CauseOutcome, judgeCause, listCauses } from '../../src/alert/causes.ts';
import { isAlertWorthy, type RunFacts } from '../../src/alert/run-facts.ts';
import { Fault } from '../../src/core/errors.ts';
import { judgeRun } from '../../src/state/run-result.ts';
import { type Changes, createDelivery, createFailure, createResult, createRunFacts } from '../support/alerts.ts';
import { createRandom } from '../support/random.ts';

const ids = (changes: Changes<RunFacts>) => listCauses(createRunFacts(changes)).map(({ id }) => id);
const withDates = (conditions: RunFacts['conditions'], rest: Partial<ReturnType<typeof createResult>> = {}) =>
  createResult({ conditions, ...rest });
const failedDate = (date: string, code: string) =>
  ({ date, status: 'failed', rows: 0, requests: 1, error: { code, message: 'why' } }) as const;

const auditAs = (result: 'equal' | 'differs') =>
  ({
    audited_at: '2026-11-20T22:58:00Z',
    revision: 1,
    result,
    rule: 'repair',
    counts: 'c',
    reason: '3 rows are gone',
  }) as const;

describe('the causes of a run', () => {
  it('in which nothing was wrong are none', () => {
    expect(ids({})).toEqual([]);
  });

  const cases: readonly {
    readonly what: string;
    readonly facts: Changes<RunFacts>;
    readonly gives: readonly string[];
  }[] = [
    {
      what: 'that a fault ended',
      facts: { result: undefined, failure: createFailure('S3_UNREACHABLE') },
      gives: ['nightly/run-failed/S3_UNREACHABLE'],
    },
    {
      what: 'whose key was refused (401)',
      facts: { result: undefined, failure: createFailure('UNAUTHORIZED', { isUsage: true }) },
      gives: ['nightly/key-refused/UNAUTHORIZED'],
    },
    {
      what: 'whose key has no subscription (403)',
      facts: { result: undefined, failure: createFailure('SUBSCRIPTION_REQUIRED', { isUsage: true }) },
      gives: ['nightly/key-refused/SUBSCRIPTION_REQUIRED'],
    },
    {
      what: 'whose query is wrong',
      facts: { result: undefined, failure: createFailure('INVALID_SQL', { isUsage: true }) },
      gives: ['nightly/run-failed/INVALID_SQL'],
    },
    {
      what: 'with a date that fails a check, and another the day after',
      facts: {
        result: createResult({
          dates: [failedDate('2026-11-18', 'CHECK_FAILED'), failedDate('2026-11-19', 'CHECK_FAILED')],
        }),
      },
      gives: ['nightly/date-failed/2026-11-18/CHECK_FAILED', 'nightly/date-failed/2026-11-19/CHECK_FAILED'],
    },
    {
      what: 'whose API went down at some date',
      facts: { result: createResult({ dates: [failedDate('2026-11-18', 'API_UNREACHABLE')] }) },
      gives: ['nightly/run-failed/API_UNREACHABLE'],
    },
    {
      what: 'that found nothing of what the job names',
      facts: { result: withDates({}, { dates: [{ date: '2026-11-19', status: 'missing', rows: 0, requests: 1 }] }) },
      gives: ['nightly/run-failed/NOTHING_FOUND'],
    },
    {
      what: 'with degraded and missing dates inside the lookback, and older ones',
      facts: {
        result: withDates({
          '2026-10-01': 'degraded',
          '2026-10-02': 'missing',
          '2026-11-18': 'degraded',
          '2026-11-19': 'missing',
          '2026-11-20': 'available',
        }),
      },
      gives: ['nightly/date-degraded/2026-11-18', 'nightly/date-missing/2026-11-19'],
    },
    {
      what: 'with a sealed date that stays different from the source, one that is equal, and one that somebody accepted',
      facts: {
        accepted: new Set(['2026-11-17']),
        result: withDates(
          { '2026-11-17': 'degraded', '2026-11-18': 'available', '2026-11-19': 'available' },
          {
            audits: {
              '2026-11-17': auditAs('differs'),
              '2026-11-18': auditAs('differs'),
              '2026-11-19': auditAs('equal'),
            },
          },
        ),
      },
      gives: ['nightly/date-differs/2026-11-18'],
    },
    {
      what: 'with a date lost now, one lost lately and one lost long ago',
      facts: {
        result: withDates(
          { '2026-06-01': 'expired', '2026-06-02': 'expired', '2026-11-03': 'expired', '2026-11-20': 'available' },
          { lost: ['2026-06-02'] },
        ),
      },
      gives: ['nightly/date-expired/2026-06-02', 'nightly/date-expired/2026-11-03'],
    },
    {
      what: 'with recipients that failed and refused',
      facts: { deliveries: [createDelivery({ 'a@x.com': 'sent', 'b@x.com': 'failed', 'c@x.com': 'refused' })] },
      gives: ['nightly/report-failed/flow/b@x.com', 'nightly/report-refused/flow/c@x.com'],
    },
    {
      what: 'whose reports could not be made',
      facts: { deliveries: undefined, failure: createFailure('TEMPLATE_INVALID', { isUsage: true }) },
      gives: ['nightly/report-failed/TEMPLATE_INVALID'],
    },
    {
      what: 'that could make no report of one date, while another date is due and not sealed',
      facts: {
        deliveries: [
          createDelivery({}, { date: '2026-11-18', pending: true, revision: 0 }),
          createDelivery({}, { date: '2026-11-19', error: { code: 'DROP_DAMAGED', message: 'why', hint: 'Verify.' } }),
        ],
      },
      gives: ['nightly/report-pending/2026-11-18', 'nightly/report-failed/flow/DROP_DAMAGED'],
    },
    {
      what: 'whose newest date is not sealed yet',
      facts: { result: withDates({ '2026-11-19': 'available', '2026-11-20': 'pending' }) },
      gives: ['nightly/report-pending/2026-11-20'],
    },
    {
      what: 'whose newest date is not sealed, without reports',
      facts: { hasReports: false, result: withDates({ '2026-11-20': 'pending' }) },
      gives: [],
    },
    {
      what: 'that was not to mail reports, whose newest date is not sealed',
      facts: { withReports: false, result: withDates({ '2026-11-20': 'pending' }) },
      gives: [],
    },
  ];
  it.each(cases)('$what are those', ({ facts, gives }) => {
    expect(ids(facts)).toEqual(gives);
  });

  it('a person who types a wrong date for a backfill hears it from the terminal alone', () => {
    const failure = createFailure('DATE_INVALID', { isUsage: true });
    const { result: _, ...facts } = createRunFacts({ command: 'backfill', failure });
    expect(listCauses(facts)).toEqual([]);
    const refused = createFailure('UNAUTHORIZED', { isUsage: true });
    expect(listCauses({ ...facts, failure: refused }).map(({ kind }) => kind)).toEqual(['key-refused']);
  });

  it('who stops a run, and a run beside another one, are no cause', () => {
    expect(isAlertWorthy(new Fault('INTERRUPTED', 'stopped', { kind: 'interrupted' }))).toBe(false);
    expect(isAlertWorthy(new Fault('ENGINE_BUSY', 'busy', { kind: 'active' }))).toBe(false);
    expect(isAlertWorthy(new Fault('S3_UNREACHABLE', 'down'))).toBe(true);
    expect(isAlertWorthy(new TypeError('a fault of ours'))).toBe(true);
  });

  it('are never none when the run ends as failed or incomplete', () => {
    const random = createRandom(11);
    const pick = <T>(of: readonly T[]) => of[Math.floor(random() * of.length)] as T; // Never empty here.
    const days = Array.from({ length: 14 }, (_, k) => `2026-11-${String(7 + k).padStart(2, '0')}`);
    let judged = 0;
    for (let round = 0; round < 500; round += 1) {
      const conditions = Object.fromEntries(
        days
          .filter(() => random() < 0.3)
          .map((date) => [date, pick(['available', 'degraded', 'pending', 'missing', 'expired'] as const)]),
      );
      const of = (...wanted: readonly string[]) =>
        Object.entries(conditions).flatMap(([date, condition]) => (wanted.includes(condition) ? [date] : []));
      const dates = days
        .filter(() => random() < 0.1)
        .map((date) => failedDate(date, pick(['CHECK_FAILED', 'SERVER_ERROR'])));
      const named = { sealed: [], no_session: [], no_rows: pick([[], ['2026-11-06']]), not_over: [] };
      const result = createResult({
        ...{ conditions, dates, gaps: of('missing', 'degraded'), new_gaps: of('missing'), lost: of('expired') },
        ...(random() < 0.3 ? { named } : {}),
      });
      if (judgeRun(result) === undefined) continue;
      judged += 1;
      expect(ids({ result }), JSON.stringify(result)).not.toEqual([]);
    }
    expect(judged).toBeGreaterThan(100);
  });
});

describe('a gap that a person accepted', () => {
  it('is no cause, and ends one that was told before, without a recovery', () => {
    const conditions = { '2026-11-17': 'missing', '2026-11-18': 'degraded', '2026-11-19': 'expired' } as const;
    const result = createResult({ conditions });
    expect(ids({ result })).toHaveLength(3);
    const accepted = new Set(Object.keys(conditions));
    expect(ids({ result, accepted })).toEqual([]);
    const facts = createRunFacts({ result, accepted });
    for (const [date, kind] of [
      ['2026-11-17', 'date-missing'],
      ['2026-11-18', 'date-degraded'],
      ['2026-11-19', 'date-expired'],
    ] as const) {
      expect(judgeCause({ kind, date, report: null }, facts, [])).toBe('over');
    }
  });

  it('is told all the same when its object is damaged', () => {
    const result = createResult({ conditions: { '2026-11-18': 'degraded' }, damaged: { '2026-11-18': 'is missing' } });
    expect(ids({ result, accepted: new Set(['2026-11-18']) })).toEqual(['nightly/date-degraded/2026-11-18']);
  });
});

describe('a gap that expires', () => {
  // 2026-11-06 begins to be clipped when its opening is fifteen days ago.
  const expiryMs = Date.parse('2026-11-21T14:30:00Z');
  const at = (nowMs: number, changes: Changes<RunFacts> = {}) =>
    ids({ nowMs, result: withDates({ '2026-11-06': 'pending', '2026-11-20': 'available' }), ...changes });

  it('is alerted within 48 hours of it, and not a millisecond before', () => {
    expect(at(expiryMs - 48 * 3_600_000)).toEqual([]);
    expect(at(expiryMs - 48 * 3_600_000 + 1)).toEqual(['nightly/gap-expires-soon/2026-11-06']);
    expect(at(expiryMs - 1)).toEqual(['nightly/gap-expires-soon/2026-11-06']);
  });

  it('is no gap where the source forgets nothing', () => {
    expect(at(expiryMs - 1, { isExpiring: false })).toEqual([]);
  });
});

describe('a cause that is not found again', () => {
  const date = '2026-11-19';
  const cases: readonly (readonly [string, Parameters<typeof judgeCause>[0], Changes<RunFacts>, CauseOutcome])[] = [
    ['a failed run, when an export finished', { kind: 'run-failed', date: null, report: null }, {}, 'recovered'],
    [
      'a failed run, when the next one failed otherwise',
      { kind: 'run-failed', date: null, report: null },
      { result: undefined, failure: createFailure('OTHER') },
      'open',
    ],
    ['a refused key, when the API was asked', { kind: 'key-refused', date: null, report: null }, {}, 'recovered'],
    [
      'a refused key, when nothing was asked',
      { kind: 'key-refused', date: null, report: null },
      { result: createResult({ requests: 0 }) },
      'open',
    ],
    [
      'a failed date that is sealed',
      { kind: 'date-failed', date, report: null },
      { conditions: { [date]: 'available' } },
      'recovered',
    ],
    [
      'a failed date that waits',
      { kind: 'date-failed', date, report: null },
      { conditions: { [date]: 'pending' } },
      'open',
    ],
    [
      'a failed date that is lost',
      { kind: 'date-failed', date, report: null },
      { conditions: { [date]: 'expired' } },
      'over',
    ],
    [
      'a degraded date that is whole',
      { kind: 'date-degraded', date, report: null },
      { conditions: { [date]: 'available' } },
      'recovered',
    ],
    [
      'a degraded date that left the lookback',
      { kind: 'date-degraded', date, report: null },
      { conditions: { [date]: 'degraded' } },
      'over',
    ],
    [
      'a missing date that is sealed',
      { kind: 'date-missing', date, report: null },
      { conditions: { [date]: 'available' } },
      'recovered',
    ],
    [
      'a missing date that has rows now',
      { kind: 'date-missing', date, report: null },
      { conditions: { [date]: 'pending' } },
      'open',
    ],
    [
      'a missing date sealed in part',
      { kind: 'date-missing', date, report: null },
      { conditions: { [date]: 'degraded' } },
      'over',
    ],
    [
      'a date that differed, when an audit finds it equal',
      { kind: 'date-differs', date, report: null },
      { result: createResult({ audits: { [date]: auditAs('equal') } }) },
      'recovered',
    ],
    ['a date that differed, when nothing was compared', { kind: 'date-differs', date, report: null }, {}, 'open'],
    [
      'a date that differed until it left the lookback',
      { kind: 'date-differs', date: '2026-10-30', report: null },
      {},
      'over',
    ],
    [
      'a gap that is closed',
      { kind: 'gap-expires-soon', date, report: null },
      { conditions: { [date]: 'available' } },
      'recovered',
    ],
    [
      'a gap that is lost',
      { kind: 'gap-expires-soon', date, report: null },
      { conditions: { [date]: 'expired' } },
      'over',
    ],
    ['a loss', { kind: 'date-expired', date, report: null }, { conditions: { [date]: 'expired' } }, 'open'],
    [
      'a loss of which something is sealed',
      { kind: 'date-expired', date, report: null },
      { conditions: { [date]: 'degraded' } },
      'over',
    ],
    [
      'a pending report that went out',
      { kind: 'report-pending', date, report: null },
      { conditions: { [date]: 'available' } },
      'recovered',
    ],
    [
      'a pending report whose date a backfill sealed',
      { kind: 'report-pending', date, report: null },
      { conditions: { [date]: 'available' }, deliveries: undefined },
      'open',
    ],
    [
      'a pending report of a lost date',
      { kind: 'report-pending', date, report: null },
      { conditions: { [date]: 'expired' } },
      'over',
    ],
    [
      'a recipient who got the next report',
      { kind: 'report-failed', date, report: { template: 'flow', to: 'a@x.com' } },
      { deliveries: [createDelivery({ 'a@x.com': 'sent' })] },
      'recovered',
    ],
    [
      'a recipient who was mailed by hand',
      { kind: 'report-failed', date: '2026-11-20', report: { template: 'flow', to: 'a@x.com' } },
      { deliveries: [createDelivery({}, { alreadySent: 2 })] },
      'recovered',
    ],
    [
      'a recipient whom another worker is mailing',
      { kind: 'report-failed', date: '2026-11-20', report: { template: 'flow', to: 'a@x.com' } },
      { deliveries: [createDelivery({}, { alreadySent: 2, leftToOther: true })] },
      'open',
    ],
    [
      'a refusal of which no new report has come',
      { kind: 'report-refused', date: '2026-11-20', report: { template: 'flow', to: 'a@x.com' } },
      { deliveries: [createDelivery({}, { alreadySent: 2 })] },
      'open',
    ],
    [
      'a recipient of another report',
      { kind: 'report-failed', date, report: { template: 'digest', to: 'a@x.com' } },
      { deliveries: [createDelivery({ 'a@x.com': 'sent' })] },
      'open',
    ],
  ];
  it.each(cases)('%s', (_, cause, facts, verdict) => {
    expect(judgeCause(cause, createRunFacts(facts), [])).toBe(verdict);
  });

  it('a date that fails otherwise now is alerted under the new code only', () => {
    const facts = createRunFacts({ conditions: { [date]: 'pending' } });
    const found = [`nightly/date-failed/${date}/OTHER`];
    expect(judgeCause({ kind: 'date-failed', date, report: null }, facts, found)).toBe('over');
  });
});

describe('the words of an alert', () => {
  const subject = {
    job: 'nightly',
    dataset: 'trades',
    isExpiring: true,
    redact: (text: string) => text.replace('hunter2', '[secret]'),
  };
  const hostile = '<b>bold</b>\r\nBcc: all@example.com\u2028`rm -rf`\u202ehunter2';

  it.each(CAUSE_KINDS)('of %s say in one line each what happened and which command comes next', (kind) => {
    const cause = {
      ...{ id: `nightly/${kind}/x`, kind, date: '2026-11-06', code: 'CODE', said: hostile, hint: hostile },
      report: { template: 'flow', to: hostile },
    };
    const words = describeCause(cause, subject);
    for (const text of Object.values(words)) {
      expect(text).not.toMatch(/[\p{Cc}\p{Zl}\p{Zp}\u202e]/u);
      expect(text).not.toContain('hunter2');
      expect(text.length).toBeLessThan(2000);
    }
    expect(words.title + words.what).not.toContain('`');
    expect(words.next).toMatch(/`flowdrop (run|backfill|report|check) nightly/);
  });

  it('of a date that will be lost say when', () => {
    const cause = {
      id: '',
      kind: 'gap-expires-soon',
      date: '2026-11-06',
      code: null,
      report: null,
      said: '',
      hint: '',
    } as const;
    expect(describeCause(cause, subject).what).toContain('Nov 21, 2026, 09:30 ET');
    expect(describeCause(cause, { ...subject, isExpiring: false }).what).not.toContain('ET');
  });
});
