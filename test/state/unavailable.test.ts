/** Dates that snapshots were asked for in vain: what is kept of them, and when they are left alone. Flows are in `test/flow`. */
import { describe, expect, it } from 'vitest';
import { openDates } from '../../src/export/export.ts';
import { type StoredDates, selectDates } from '../../src/export/select-dates.ts';
import { parseJob } from '../../src/job/parse.ts';
import { settledAt } from '../../src/plan/dates.ts';
import type { SnapshotClient } from '../../src/source/snapshot.ts';
import { addUnavailable, isUnavailable, LATE_DAYS } from '../../src/state/job-state.ts';
import { ApiLimits } from '../../src/state/limits.ts';
import type { DateResult } from '../../src/state/run-result.ts';
import { openSnapshots } from '../support/run.ts';

const DATE = '2026-11-12';
const URL = 'https://api.example/api/option-chain';
const QUESTION = { url: URL, symbols: ['SPX', 'SPY'] };
const LATE_MS = settledAt(DATE, { settleSeconds: 0 }) + LATE_DAYS * 86_400_000;
const at = (ms: number) => new Date(ms).toISOString();
const absentAt = (ms: number, changes = {}) => ({ asked_at: at(ms), ...QUESTION, ...changes });

describe('a date that was asked for in vain', () => {
  it.each([
    ['when nothing more was to come is left alone', absentAt(LATE_MS), true],
    ['when something could still come is asked for again', absentAt(LATE_MS - 1), false],
    ['of another address is asked for again', absentAt(LATE_MS, { url: 'https://other.example' }), false],
    ['without a symbol that the job has now is asked for again', absentAt(LATE_MS, { symbols: ['SPY'] }), false],
    ['for more symbols than the job has now is left alone', absentAt(LATE_MS, { symbols: ['A', 'SPX', 'SPY'] }), true],
    ['never is asked for', undefined, false],
  ])('%s', (_, absence, expected) => {
    expect(isUnavailable(absence, QUESTION, DATE)).toBe(expected);
  });
});

describe('the record of dates that were asked for in vain', () => {
  const result = (date: string, status: DateResult['status']): DateResult => ({ date, status, rows: 0, requests: 1 });

  it('keeps the last time, and forgets what was found, what failed and what has left the lookback', () => {
    const first = ['2026-11-09', '2026-11-10', '2026-11-11', '2026-11-12'].map((date) => result(date, 'missing'));
    const kept = addUnavailable({}, first, QUESTION, { askedAt: at(LATE_MS), firstWhole: '2026-11-09' });
    expect(Object.keys(kept)).toHaveLength(4);
    const second = [result('2026-11-10', 'sealed'), result('2026-11-11', 'failed'), result(DATE, 'missing')];
    const narrower = { ...QUESTION, symbols: ['SPX'] };
    const asked = { askedAt: at(LATE_MS + 1), firstWhole: '2026-11-10' };
    expect(addUnavailable(kept, second, narrower, asked)).toEqual({
      [DATE]: absentAt(LATE_MS + 1, { symbols: ['SPX'] }),
    });
  });
});

it('a plan of snapshots leaves no date alone while the job never got anything', async () => {
  const job = parseJob(
    'c.yaml',
    'name: chain\nsource: {api: chain, symbols: [SPX, SPY]}\ndrop: {to: out, dataset: chain}\n',
  );
  const nowMs = Date.parse('2026-11-19T23:00:00Z');
  const client: Pick<SnapshotClient, 'url' | 'serverNow' | 'tellsTime' | 'stats'> = {
    url: URL,
    serverNow: () => nowMs,
    tellsTime: () => true,
    stats: { requests: 0, retries: 0, rateLimited: 0, bytes: 0, answerMs: 0 },
  };
  const limits = await new ApiLimits('none.json', 0).load();
  limits.clockOffsetMs = 1;
  const none = new Set<string>();
  const stored: Omit<StoredDates, 'damaged'> = {
    ...{ sealed: none, degraded: none, failed: none, again: none, inPart: [] },
    unavailable: { [DATE]: absentAt(LATE_MS) },
  };
  const opened = openSnapshots(job, client as SnapshotClient, limits);
  const { dates, empty } = await openDates(opened).plan(selectDates('unsealed', stored, undefined));
  expect(dates.map(({ date }) => date)).toContain(DATE);
  expect([dates.length, ...empty]).toEqual([11]);
});
