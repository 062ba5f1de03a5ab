/** Conditions on a report's numbers, and what a correction finds changed. On real data they are in `deliver.slow.test.ts`. */
import { describe, expect, it, test } from 'vitest';
import { compareReports, findReasonToSkip, isFulfilled } from '../../src/deliver/deliver-date.ts';
import type { ReportCondition } from '../../src/job/job.ts';
import type { FlowReport } from '../../src/report/model.ts';
import { readReportNumber } from '../../src/report/number-values.ts';
import { forCompared, REPORT_NUMBERS, type ReportNumber } from '../../src/report/numbers.ts';

interface Numbers {
  readonly headline?: Partial<FlowReport['headline']>;
  readonly gex?: Partial<FlowReport['exposure']['total']>;
  readonly previous?: number | null;
  readonly unusual?: number;
  readonly dataset?: string;
}

/** A report of which the numbers alone matter. */
function createReport({ headline = {}, gex = {}, previous = 800, unusual = 2, dataset = 'trades' }: Numbers = {}) {
  const all = {
    ...{ trades: 10, contracts: 100, callContracts: 60, putContracts: 40, total: 1000, calls: 600, puts: 400 },
    ...{ netCalls: 120, netPuts: -30, bullish: 450, bearish: 250, neutral: 300, putCallByPremium: 400 / 600 },
    ...{ putCallByVolume: 40 / 60, zeroDte: 200, multiLeg: 100, sweep: 50, ...headline },
  };
  const unknown = { latest: null, previous: null, median: null, place: null };
  return {
    headline: all,
    exposure: { total: { callGex: 5e6, putGex: -6e6, netGex: -1e6, netGexAfter: -5e5, contracts: 9, ...gex } },
    unusual: Array.from({ length: unusual }, () => ({})),
    comparison: {
      changes: {
        ...forCompared(() => unknown),
        total: { latest: all.total, previous, median: null, place: null },
      },
    },
    drop: { dataset },
  } as unknown as FlowReport; // The rest of a report is not read here.
}

const when = (number: ReportNumber, bounds: Partial<ReportCondition>): ReportCondition => ({
  ...{ number, above: null, below: null },
  ...bounds,
});

test.each([
  ['premium', 1000],
  ['call_premium', 600],
  ['put_premium', 400],
  ['net_call_premium', 120],
  ['net_put_premium', -30],
  ['bullish_share', 0.45],
  ['bearish_share', 0.25],
  ['neutral_share', 0.3],
  ['put_call_by_premium', 400 / 600],
  ['put_call_by_volume', 40 / 60],
  ['zero_dte_share', 0.2],
  ['multi_leg_share', 0.1],
  ['sweep_share', 0.05],
  ['net_gex', -1e6],
  ['unusual_symbols', 2],
  ['premium_change', 0.25],
] as const)('the number %s is %d in the example', (number, value) => {
  expect(readReportNumber(createReport(), number)).toBeCloseTo(value, 12);
});

describe('a number that is not known', () => {
  const empty = createReport({
    headline: { trades: 0, total: 0, bullish: 0, putCallByPremium: null, putCallByVolume: null },
    gex: { contracts: 0, netGex: 0 },
    previous: null,
  });
  test.each([
    'bullish_share',
    'zero_dte_share',
    'put_call_by_premium',
    'put_call_by_volume',
    'net_gex',
    'premium_change',
  ] as const)('%s is null and fulfils no condition', (number) => {
    expect(readReportNumber(empty, number)).toBeNull();
    expect(isFulfilled(when(number, { below: 1e12 }), empty)).toBe(false);
    expect(isFulfilled(when(number, { above: -1e12 }), empty)).toBe(false);
  });

  it('is the change of premium after a session without any', () => {
    expect(readReportNumber(createReport({ previous: 0 }), 'premium_change')).toBeNull();
  });
});

describe('a condition', () => {
  test.each([
    ['net_gex', { below: 0 }, true],
    ['net_gex', { above: 0 }, false],
    ['premium', { above: 1000 }, false],
    ['premium', { below: 1000 }, false],
    ['premium', { above: 999.9 }, true],
    ['premium', { above: 900, below: 1100 }, true],
    ['premium', { above: 1001, below: 1100 }, false],
    ['premium', { above: 900, below: 950 }, false],
  ] as const)('on %s with %j holds: %s', (number, bounds, holds) => {
    expect(isFulfilled(when(number, bounds), createReport())).toBe(holds);
  });

  it('of several must hold beside the others', () => {
    const onlyWhen = [when('net_gex', { below: 0 }), when('premium', { above: 5000 })];
    expect(findReasonToSkip({ onEmpty: 'send', onlyWhen }, [createReport()])).toBe(
      'premium is $1.00K, not above 5000 (only_when)',
    );
    expect(findReasonToSkip({ onEmpty: 'send', onlyWhen: onlyWhen.slice(0, 1) }, [createReport()])).toBeUndefined();
  });

  it('is fulfilled for a digest by one of its datasets, all conditions by the same', () => {
    const rich = createReport({ headline: { total: 9000 }, gex: { netGex: 1 } });
    const poor = createReport({ gex: { netGex: -1 } });
    const rule = { onEmpty: 'send', onlyWhen: [when('premium', { above: 5000 })] } as const;
    expect(findReasonToSkip(rule, [poor, rich])).toBeUndefined();
    expect(
      findReasonToSkip({ ...rule, onlyWhen: [...rule.onlyWhen, when('net_gex', { below: 0 })] }, [poor, rich]),
    ).toContain('only_when');
  });

  it('on nothing mails every day, and an empty one unless it is to be skipped', () => {
    const empty = createReport({ headline: { trades: 0 } });
    expect(findReasonToSkip({ onEmpty: 'send', onlyWhen: [] }, [empty])).toBeUndefined();
    expect(findReasonToSkip({ onEmpty: 'skip', onlyWhen: [] }, [empty])).toContain('on_empty');
    expect(findReasonToSkip({ onEmpty: 'skip', onlyWhen: [] }, [empty, createReport()])).toBeUndefined();
  });
});

describe('a restatement', () => {
  const changed = (numbers: Numbers, threshold = 0.01) =>
    compareReports([createReport()], [createReport(numbers)], threshold)?.map(({ name }) => name);

  it('that repeats every number changes none', () => {
    expect(changed({}, 0)).toEqual([]);
  });

  it('changes a number that is further off than the threshold, and says both values', () => {
    expect(compareReports([createReport()], [createReport({ headline: { calls: 700 } })], 0.01)).toEqual([
      { name: 'Call premium', before: '$600', after: '$700' },
    ]);
  });

  it('tells two values that read the same with the digits in which they differ', () => {
    const compare = (from: Numbers['headline'] & object, to: Numbers['headline'] & object, threshold: number) =>
      compareReports([createReport({ headline: from })], [createReport({ headline: to })], threshold);
    // 1.36% more, and above the default threshold: both are 0.30 in two decimals.
    expect(compare({ putCallByPremium: 0.3008 }, { putCallByPremium: 0.3049 }, 0.01)).toEqual([
      { name: 'Put/call by premium', before: '0.3008', after: '0.3049' },
    ]);
    expect(compare({ calls: 1.24e9 }, { calls: 1.243e9 }, 0.001)).toContainEqual({
      ...{ name: 'Call premium', before: '$1,240.0000M', after: '$1,243.0000M' },
    });
  });

  test.each([
    [{ headline: { calls: 604 } }, []],
    [{ headline: { calls: 607 } }, ['Call premium']],
    // A net is judged by the premium that it is a net of, not by itself.
    [{ headline: { netPuts: -39 } }, []],
    [{ headline: { netPuts: -41 } }, ['Net put premium']],
    // A share by its points.
    [{ headline: { sweep: 59 } }, []],
    [{ headline: { sweep: 61 } }, ['Sweep share']],
    // Net exposure by the gross one.
    [{ gex: { netGex: -1.1e6 } }, []],
    [{ gex: { netGex: -1.2e6 } }, ['Net GEX']],
    [{ headline: { putCallByPremium: null } }, ['Put/call by premium']],
    // These compare with other days.
    [{ unusual: 9, previous: 1 }, []],
  ] satisfies [Numbers, string[]][])('to %j changes %j at 1%%', (numbers, names) => {
    expect(changed(numbers)).toEqual(names);
  });

  it('of a digest says whose number changed', () => {
    const before = [createReport(), createReport({ dataset: 'index' })];
    const after = [createReport(), createReport({ dataset: 'index', headline: { calls: 700 } })];
    expect(compareReports(before, after, 0.01)).toEqual([
      { name: 'index: Call premium', before: '$600', after: '$700' },
    ]);
  });

  it('cannot be told without the earlier report, or with one that lacks numbers', () => {
    expect(compareReports(undefined, [createReport()], 0.01)).toBeUndefined();
    expect(compareReports([createReport({ dataset: 'other' })], [createReport()], 0.01)).toBeUndefined();
    const old = { drop: { dataset: 'trades' } } as unknown as FlowReport;
    expect(compareReports([old], [createReport()], 0.01)).toBeUndefined();
  });
});

it('every number of a job file can be read', () => {
  for (const number of REPORT_NUMBERS) expect(typeof readReportNumber(createReport(), number), number).toBe('number');
});
