/** The condition of a date, from what is sealed, what was recorded, what the source shows and the calendar. */
import { describe, expect, it } from 'vitest';
import { type Condition, type ConditionFacts, deriveConditions } from '../../src/plan/conditions.ts';
import { computeLookback } from '../../src/plan/dates.ts';

/** 2026-11-06 is the first whole date, 2026-11-20 the last settled one. */
const lookback = computeLookback(Date.parse('2026-11-20T22:00:00Z'));

function derive(facts: Partial<ConditionFacts>): Record<string, Condition> {
  const empty = { sealed: new Map(), recorded: new Map(), lookback };
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
      ...{ sealed, recorded: new Map(), lookback },
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
  const unmatched = { ...shown(['2026-11-18'], ['2026-11-19', '2026-11-20']), unmatched: new Set(['2026-11-19']) };

  it('with rows at the source is empty if none meets the condition, and missing without any rows', () => {
    expect(derive({ shown: unmatched })).toEqual({
      '2026-11-18': 'pending',
      '2026-11-19': 'empty',
      '2026-11-20': 'missing',
    });
  });

  it.each<[string, string, ConditionFacts['shown'], Condition]>([
    ['stays empty when it expires', '2026-11-04', shown([]), 'empty'],
    ['stays empty when nobody asks', '2026-11-04', undefined, 'empty'],
    ['stays empty while the source does not say otherwise', '2026-11-19', shown([]), 'empty'],
    ['is pending once it has rows', '2026-11-19', shown(['2026-11-19']), 'pending'],
    ['is missing once the source has no rows at all', '2026-11-19', shown([], ['2026-11-19']), 'missing'],
  ])('that was empty %s', (_, date, asked, condition) => {
    expect(derive({ recorded: record({ [date]: 'empty' }), shown: asked })[date]).toBe(condition);
  });

  it('that no run asked for is lost when it expires', () => {
    expect(derive({ recorded: record({ '2026-11-03': 'empty' }), shown: shown([]) })).toMatchObject({
      '2026-11-04': 'expired',
    });
  });
});

function range(date: string) {
  return { from: date, to: date };
}
