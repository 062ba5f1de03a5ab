/** The condition of a date, from what is sealed, what was recorded, what the source shows and the calendar. */
import { describe, expect, it } from 'vitest';
import { type Condition, type ConditionFacts, deriveConditions } from '../../src/plan/conditions.ts';
import { computeLookback } from '../../src/plan/dates.ts';

/** 2026-11-06 is the first whole date, 2026-11-20 the last settled one. */
const lookback = computeLookback(Date.parse('2026-11-20T22:00:00Z'));

function derive(facts: Partial<ConditionFacts>): Record<string, Condition> {
  const empty = { sealed: new Map(), recorded: new Map(), lookback, isFiltered: false };
  return Object.fromEntries(deriveConditions({ ...empty, ...facts }));
}
const record = (entries: Record<string, Condition>) => new Map(Object.entries(entries));
const shown = (dates: readonly string[], empty: readonly string[] = [], range?: { from: string; to: string }) => ({
  dates,
  empty: new Set(empty),
  range,
});

describe('the condition of a session', () => {
  it('is that of its manifest, or pending, missing or expired without one', () => {
    const sealed = new Map([
      ['2026-11-03', 'available'],
      ['2026-11-18', 'degraded'],
    ] as const);
    const found = deriveConditions({
      ...{ sealed, recorded: new Map(), lookback, isFiltered: false },
      shown: shown([], ['2026-11-17']),
    });
    const pending = ['06', '09', '10', '11', '12', '13', '16'].map((day) => [`2026-11-${day}`, 'pending']);
    expect([...found]).toEqual([
      ['2026-11-03', 'available'],
      ['2026-11-04', 'expired'],
      ['2026-11-05', 'expired'],
      ...pending,
      ['2026-11-17', 'missing'],
      ['2026-11-18', 'degraded'],
      ['2026-11-19', 'pending'],
      ['2026-11-20', 'pending'],
    ]);
  });

  it('is no gap before the first known date', () => {
    expect(derive({ shown: shown(['2026-11-19']) })).toEqual({ '2026-11-19': 'pending', '2026-11-20': 'pending' });
    expect(derive({ shown: shown([], ['2026-11-19']) })).toEqual({});
  });

  it.each<[string, Condition, ConditionFacts['shown'], Condition]>([
    ['that was missing and has left the lookback stays missing', 'missing', shown([]), 'missing'],
    ['that was pending and has left the lookback is expired', 'pending', shown([]), 'expired'],
    ['that was pending is expired when nobody asks', 'pending', undefined, 'expired'],
    ['that was expired stays expired', 'expired', undefined, 'expired'],
    ['whose manifest is gone is expired', 'available', undefined, 'expired'],
  ])('%s', (_, before, asked, condition) => {
    expect(derive({ recorded: record({ '2026-11-04': before }), shown: asked })['2026-11-04']).toBe(condition);
  });

  it.each<[string, Condition, ConditionFacts['shown'], Condition]>([
    ['that was missing and has rows now is pending', 'missing', shown(['2026-11-19']), 'pending'],
    ['that was missing and was not asked for stays so', 'missing', shown([], [], range('2026-11-20')), 'missing'],
    ['that was missing stays so when nobody asks', 'missing', undefined, 'missing'],
    ['that a wrong clock called expired is pending when it is asked for', 'expired', shown(['2026-11-19']), 'pending'],
    ['that was expired by the clock of a run stays so when nobody asks', 'expired', undefined, 'expired'],
  ])('inside the lookback %s', (_, before, asked, condition) => {
    expect(derive({ recorded: record({ '2026-11-19': before }), shown: asked })['2026-11-19']).toBe(condition);
  });

  it('that the clock here does not know is told as it was recorded', () => {
    expect(derive({ recorded: record({ '2026-12-01': 'pending', '2026-12-02': 'available' }) })).toEqual({
      '2026-12-01': 'pending',
    });
  });
});

describe('of a job with a condition of its own, a session', () => {
  const facts = (recorded: Record<string, Condition>, asked?: ConditionFacts['shown']) =>
    derive({ recorded: record(recorded), isFiltered: true, shown: asked });

  it('without rows is none of its dates', () => {
    expect(facts({ '2026-11-18': 'pending' }, shown([], ['2026-11-19']))).toEqual({
      '2026-11-18': 'pending',
      '2026-11-20': 'pending',
    });
  });

  it('is lost only when rows of it were seen', () => {
    expect(facts({ '2026-11-03': 'pending', '2026-11-20': 'pending' }, shown([]))).toMatchObject({
      '2026-11-03': 'expired',
    });
    expect(facts({ '2026-11-03': 'pending' }, shown([]))).not.toHaveProperty('2026-11-04');
  });

  it('that the last run left out had no rows; of a later one nobody knows', () => {
    expect(facts({ '2026-11-17': 'pending', '2026-11-19': 'pending' })).toEqual({
      '2026-11-17': 'pending',
      '2026-11-19': 'pending',
      '2026-11-20': 'pending',
    });
  });
});

function range(date: string) {
  return { from: date, to: date };
}
