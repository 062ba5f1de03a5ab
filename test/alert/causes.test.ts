/**
 * Which causes a run gives operators, with which identity, and when a cause is over: the pure part, case by case. What is
 * remembered and delivered: `outbox.test.ts`, `alerts.slow.test.ts`.
 */

import { describe, expect, it } from 'vitest';
import { alertOperators, listCauses } from '../../src/alert/alerts.ts';
import {
  CAUSE_KINDS,
  type CauseKind,
  type CauseOutcome,
  describeCause,
  judgeCause,
  type RunFacts,
} from '../../src/alert/cause-table.ts';
import { Fault } from '../../src/core/errors.ts';
import type { Condition } from '../../src/plan/conditions.ts';
import type { RunEnv } from '../../src/run/run.ts';
import { judgeRun } from '../../src/state/run-result.ts';
import {
  ALERT_NOW,
  type Changes,
  createAlertJob,
  createDelivery,
  createFailure,
  createOutcome,
  createResult,
  createRunFacts,
} from '../support/alerts.ts';
import { createRandom } from '../support/random.ts';

const ids = (changes: Changes<RunFacts>) => listCauses(createRunFacts(changes)).map(({ id }) => id);
/** A source that forgets nothing. */
const table = createAlertJob('', '{api: clickhouse, table: trades}');
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

  const fail = (code: string, isUsage = false) => ({ result: undefined, error: createFailure(code, { isUsage }) });
  const failOn = (code: string, ...dates: readonly string[]) => ({
    result: createResult({ dates: dates.map((date) => failedDate(date, code)) }),
  });
  const dated = (...given: Parameters<typeof withDates>) => ({ result: withDates(...given) });
  const audits = {
    '2026-11-17': auditAs('differs'),
    '2026-11-18': auditAs('differs'),
    '2026-11-19': auditAs('equal'),
  };
  const cases: readonly (readonly [string, Changes<RunFacts>, readonly string[]])[] = [
    ['that a fault ended', fail('S3_UNREACHABLE'), ['run-failed/S3_UNREACHABLE']],
    ['whose key was refused (401)', fail('UNAUTHORIZED', true), ['key-refused/UNAUTHORIZED']],
    ['whose key has no subscription (403)', fail('SUBSCRIPTION_REQUIRED', true), ['key-refused/SUBSCRIPTION_REQUIRED']],
    ['whose query is wrong', fail('INVALID_SQL', true), ['run-failed/INVALID_SQL']],
    [
      'with a date that fails a check, and another the day after',
      failOn('CHECK_FAILED', '2026-11-18', '2026-11-19'),
      ['date-failed/2026-11-18/CHECK_FAILED', 'date-failed/2026-11-19/CHECK_FAILED'],
    ],
    ['whose API went down at some date', failOn('API_UNREACHABLE', '2026-11-18'), ['run-failed/API_UNREACHABLE']],
    [
      'that found nothing of what the job names',
      dated({}, { dates: [{ date: '2026-11-19', status: 'missing', rows: 0, requests: 1 }] }),
      ['run-failed/NOTHING_FOUND'],
    ],
    [
      'with degraded and missing dates inside the lookback, and older ones',
      dated({
        ...{ '2026-10-01': 'degraded', '2026-10-02': 'missing', '2026-11-18': 'degraded', '2026-11-19': 'missing' },
        '2026-11-20': 'available',
      }),
      ['date-degraded/2026-11-18', 'date-missing/2026-11-19'],
    ],
    [
      'with a sealed date that stays different from the source, one that is equal, and one that somebody accepted',
      {
        accepted: new Set(['2026-11-17']),
        ...dated({ '2026-11-17': 'degraded', '2026-11-18': 'available', '2026-11-19': 'available' }, { audits }),
      },
      ['date-differs/2026-11-18'],
    ],
    [
      'with a date lost now, one lost lately and one lost long ago',
      dated(
        { '2026-06-01': 'expired', '2026-06-02': 'expired', '2026-11-03': 'expired', '2026-11-20': 'available' },
        { lost: ['2026-06-02'] },
      ),
      ['date-expired/2026-06-02', 'date-expired/2026-11-03'],
    ],
    [
      'with recipients that failed and refused',
      { deliveries: [createDelivery({ 'a@x.com': 'sent', 'b@x.com': 'failed', 'c@x.com': 'refused' })] },
      ['report-failed/flow/b@x.com', 'report-refused/flow/c@x.com'],
    ],
    [
      'whose reports could not be made',
      { deliveries: undefined, error: createFailure('TEMPLATE_INVALID', { isUsage: true }) },
      ['report-failed/TEMPLATE_INVALID'],
    ],
    [
      'that could make no report of one date, while another date is due and not sealed',
      {
        deliveries: [
          createDelivery({}, { date: '2026-11-18', pending: true, revision: 0 }),
          createDelivery({}, { date: '2026-11-19', error: { code: 'DROP_DAMAGED', message: 'why', hint: 'Verify.' } }),
        ],
      },
      ['report-pending/2026-11-18', 'report-failed/flow/DROP_DAMAGED'],
    ],
    [
      'whose newest date is not sealed yet',
      dated({ '2026-11-19': 'available', '2026-11-20': 'pending' }),
      ['report-pending/2026-11-20'],
    ],
    [
      'whose newest date is not sealed, without reports',
      { job: createAlertJob(), ...dated({ '2026-11-20': 'pending' }) },
      [],
    ],
    [
      'that was not to mail reports, whose newest date is not sealed',
      { withReports: false, ...dated({ '2026-11-20': 'pending' }) },
      [],
    ],
  ];
  it.each(cases)('%s are those', (_, facts, gives) => {
    expect(ids(facts)).toEqual(gives.map((id) => `nightly/${id}`));
  });

  it('a person who types a wrong date for a backfill hears it from the terminal alone', () => {
    const failure = createFailure('DATE_INVALID', { isUsage: true });
    const { result: _, ...facts } = createRunFacts({ command: 'backfill', error: failure });
    expect(listCauses(facts)).toEqual([]);
    const refused = createFailure('UNAUTHORIZED', { isUsage: true });
    expect(listCauses({ ...facts, error: refused }).map(({ kind }) => kind)).toEqual(['key-refused']);
  });

  it.each(['interrupted', 'active'] as const)(
    'that ended as %s are told to nobody, and nothing is opened',
    async (kind) => {
      const { signal } = new AbortController();
      const error = new Fault('STOPPED', 'it went no further', { kind });
      const summary = await alertOperators({ signal } as RunEnv, createAlertJob(), createOutcome({ error }));
      expect(summary).toEqual({ sent: [], unsent: [], unread: null, isWhole: true });
    },
  );

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
    expect(at(expiryMs - 1, { job: table })).toEqual([]);
  });
});

describe('a cause that is not found again', () => {
  const date = '2026-11-19';
  const is = (condition: Condition): Changes<RunFacts> => ({ conditions: { [date]: condition } });
  const equal = { result: createResult({ audits: { [date]: auditAs('equal') } }) };
  const failed = { result: undefined, error: createFailure('OTHER') };
  const mailed = (
    recipients: Parameters<typeof createDelivery>[0],
    rest: Parameters<typeof createDelivery>[1] = {},
  ) => ({
    deliveries: [createDelivery(recipients, { date, ...rest })],
  });
  const sent = { 'a@x.com': 'sent' } as const;
  const cases: readonly (readonly [string, CauseKind, Changes<RunFacts>, CauseOutcome])[] = [
    ['a failed run, when an export finished', 'run-failed', {}, 'recovered'],
    ['a failed run, when the next one failed otherwise', 'run-failed', failed, 'open'],
    ['a refused key, when the API was asked', 'key-refused', {}, 'recovered'],
    ['a refused key, when nothing was asked', 'key-refused', { result: createResult({ requests: 0 }) }, 'open'],
    ['a failed date that is sealed', 'date-failed', is('available'), 'recovered'],
    ['a failed date that waits', 'date-failed', is('pending'), 'open'],
    ['a failed date that is lost', 'date-failed', is('expired'), 'over'],
    ['a degraded date that is whole', 'date-degraded', is('available'), 'recovered'],
    ['a degraded date that left the lookback', 'date-degraded', is('degraded'), 'over'],
    ['a missing date that is sealed', 'date-missing', is('available'), 'recovered'],
    ['a missing date that has rows now', 'date-missing', is('pending'), 'open'],
    ['a missing date sealed in part', 'date-missing', is('degraded'), 'over'],
    ['a date that differed, when an audit finds it equal', 'date-differs', equal, 'recovered'],
    ['a date that differed, when nothing was compared', 'date-differs', {}, 'open'],
    ['a date that differed until it left the lookback', 'date-differs', { nowMs: ALERT_NOW + 30 * 86_400_000 }, 'over'],
    ['a gap that is closed', 'gap-expires-soon', is('available'), 'recovered'],
    ['a gap that is lost', 'gap-expires-soon', is('expired'), 'over'],
    ['a date that was late, when it is sealed', 'date-late', is('available'), 'recovered'],
    ['a date that was late, and waits', 'date-late', is('pending'), 'open'],
    ['a loss', 'date-expired', is('expired'), 'open'],
    ['a loss of which something is sealed', 'date-expired', is('degraded'), 'over'],
    ['a pending report that went out', 'report-pending', is('available'), 'recovered'],
    [
      'a pending report whose date a backfill sealed',
      'report-pending',
      { ...is('available'), deliveries: undefined },
      'open',
    ],
    ['a pending report of a lost date', 'report-pending', is('expired'), 'over'],
    ['a recipient who got the next report', 'report-failed', mailed(sent, { date: '2026-11-20' }), 'recovered'],
    ['a recipient who was mailed by hand', 'report-failed', mailed({}, { alreadySent: 2 }), 'recovered'],
    [
      'a recipient whom another worker is mailing',
      'report-failed',
      mailed({}, { alreadySent: 2, leftToOther: true }),
      'open',
    ],
    ['a refusal of which no new report has come', 'report-refused', mailed({}, { alreadySent: 2 }), 'open'],
    ['a recipient of another report', 'report-failed', mailed(sent, { report: 'digest' }), 'open'],
  ];
  it.each(cases)('%s', (_, kind, facts, verdict) => {
    const report = /^report-(failed|refused)$/.test(kind) ? { template: 'flow', to: 'a@x.com' } : null;
    const about = /^(date|gap|report)-/.test(kind) ? date : null;
    expect(judgeCause({ kind, date: about, report }, createRunFacts(facts), [])).toBe(verdict);
  });

  it('a date that fails otherwise now is alerted under the new code only', () => {
    const facts = createRunFacts({ conditions: { [date]: 'pending' } });
    const found = [`nightly/date-failed/${date}/OTHER`];
    expect(judgeCause({ kind: 'date-failed', date, report: null }, facts, found)).toBe('over');
  });
});

describe('the words of an alert', () => {
  const redact = (text: string) => text.replace('hunter2', '[secret]');
  const hostile = '<b>bold</b>\r\nBcc: all@example.com\u2028`rm -rf`\u202ehunter2';

  it.each(CAUSE_KINDS)('of %s say in one line each what happened and which command comes next', (kind) => {
    const cause = {
      ...{ id: `nightly/${kind}/x`, kind, date: '2026-11-06', code: 'CODE', said: hostile, hint: hostile },
      report: { template: 'flow', to: hostile },
    };
    const words = describeCause(cause, createAlertJob(), redact);
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
    expect(describeCause(cause, createAlertJob(), redact).what).toContain('Nov 21, 2026, 09:30 ET');
    expect(describeCause(cause, table, redact).what).not.toContain('ET');
  });
});
