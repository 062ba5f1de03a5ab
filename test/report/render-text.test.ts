/** Numbers, dates and labels as the mail prints them: changes in the unit in which a number is read, texts kept short. */
import { describe, expect, it } from 'vitest';
import {
  CANCEL_TYPES,
  LATE_TYPES,
  MULTI_LEG_TYPES,
  nameCode,
  SINGLE_LEG_TYPES,
  SWEEP_TYPES,
} from '../../src/api-contract/record-type.ts';
import { formatDate, formatDay, formatInstant, formatNearDay, formatShortDay } from '../../src/core/date-text.ts';
import { formatSignedDollars } from '../../src/core/units.ts';
import type { Change } from '../../src/report/changes.ts';
import { buildChangeRows, describeTotalChange, nameSessions } from '../../src/report/key-numbers.ts';
import { type Compared, forCompared } from '../../src/report/numbers.ts';
import { describeEarnings, describeSession, formatStrike } from '../../src/report/text/captions.ts';
import {
  cleanCode,
  cleanLabel,
  formatPart,
  formatShortCount,
  formatSignedPercent,
  nameContract,
} from '../../src/report/text/label.ts';
import { buildBar, buildExclusionRows } from '../../src/report/text/mail-view.ts';
import { createComparison, createExclusions, createPremium } from './model-fixture.ts';

const day = createPremium({ total: 1000 });

/** The row of one number, everything else being unknown. */
function readRow(key: Compared, change: Change) {
  const empty = { latest: null, previous: null, median: null, place: null };
  const changes = forCompared<Change>((number) => (number.key === key ? change : empty));
  const comparison = { ...createComparison(day, null), changes };
  const row = buildChangeRows(comparison).find(({ median }) => median !== '–');
  if (row === undefined) throw new RangeError(`${key} is in no row`);
  return row;
}

describe('a day by half hours', () => {
  const slot = (start: string, total: number, bullish: number, bearish: number) => ({
    start,
    ...createPremium({ total, bullish, bearish }),
  });
  const say = (...slots: ReturnType<typeof slot>[]) => describeSession(slots, 3e8);

  it('names the busiest, and the one that most of the net sentiment is from', () => {
    expect(say(slot('09:30', 2e8, 0.4, 0.4), slot('15:30', 1e8, 0.7, 0.1))).toBe(
      'Busiest half hour: 09:30 with $200M, 67% of the day. Most one-sided: 15:30, bullish by $60.0M. Bullish premium outweighed bearish in 1 of 2 half hours.',
    );
    expect(say(slot('09:30', 2e8, 0.4, 0.4), slot('15:30', 1e8, 0.1, 0.7))).toContain('15:30, bearish by $60.0M.');
  });

  it('does not count half hours of which no direction is known', () => {
    expect(say(slot('09:30', 2e8, 0, 0), slot('15:30', 1e8, 0, 0))).toBe(
      'Busiest half hour: 09:30 with $200M, 67% of the day.',
    );
  });

  it.each([
    ['the busiest itself', [slot('09:30', 2e8, 0.7, 0.1), slot('15:30', 1e8, 0.4, 0.4)]],
    ['noise', [slot('09:30', 2e8, 0.4, 0.4), slot('15:30', 1e8, 0.401, 0.4)]],
    ['one of many alike', [slot('09:30', 2e8, 0.3, 0.2), ...['10:00', '10:30'].map((at) => slot(at, 1e8, 0.3, 0.2))]],
  ])('leaves out %s', (_, slots) => {
    expect(say(...slots)).not.toContain('Most one-sided');
  });
});

describe('a change', () => {
  it.each<[Compared, number, number, string, string]>([
    ['total', 1.24e9, 1.1e9, '$1.24B', '+13%'],
    ['total', 1e9, 1e9, '$1.00B', '0%'],
    ['netCalls', -5e6, 2e6, '−$5.00M', '−$7.00M'],
    ['zeroDteShare', 0.382, 0.361, '38.2%', '+2.1 pt'],
    ['zeroDteShare', 0.1, 0.10001, '10.0%', '0.0 pt'],
    ['putCallByPremium', 0.7, 0.8, '0.70', '−0.10'],
  ])('of %s from %d before %d is said in its own unit', (key, latest, previous, text, change) => {
    const row = readRow(key, { latest, previous, median: previous, place: null });
    expect([row.latest, row.onPrevious, row.onMedian]).toEqual([text, change, change]);
  });

  it('against nothing, or against zero dollars, is not said', () => {
    expect(readRow('total', { latest: 5, previous: null, median: 0, place: null })).toMatchObject({
      previous: '–',
      onPrevious: '',
      median: '$0.00',
      onMedian: '',
    });
  });

  it('of the total names what it is compared with', () => {
    const comparison = createComparison(day, { previous: 0.5, median: 0.8 });
    expect(describeTotalChange(comparison, '2026-11-19')).toEqual(['+100% vs Nov 18', '+25% vs 5-session median']);
    const few = { ...comparison, dates: comparison.dates.slice(0, 2) };
    expect(nameSessions(few, '2026-11-19').median).toBe('Median');
    expect(describeTotalChange(createComparison(day, null), '2026-11-19')).toEqual([]);
  });
});

describe('a code', () => {
  it('is shown by the name of the published list, and as it came where no list has it', () => {
    const codes = ['AUTO', 'ISOI', 'SLAI', 'MLAT', 'AASK', 'MLAI', 'constructor', ''];
    expect(codes.map(nameCode)).toEqual([
      ...['Electronic', 'Sweep', 'Sweep, auction', 'Multi-leg, auction', 'Above ask', 'MLAI', 'constructor', ''],
    ]);
    const types = [...CANCEL_TYPES, ...LATE_TYPES, ...SWEEP_TYPES, ...MULTI_LEG_TYPES, ...SINGLE_LEG_TYPES];
    expect(types.filter((type) => nameCode(type) === type)).toEqual(['CSTP', 'SPIM']);
  });

  it('of a contract has its expiration as people write it', () => {
    expect(nameContract('SPY 2026-11-20 600 C')).toBe('SPY Nov 20, 2026 600 C');
    expect(nameContract('SPY ? ? ?')).toBe('SPY ? ? ?');
  });
});

describe('earnings', () => {
  it('are named by symbol and day', () => {
    const earnings = [
      { symbol: 'TSLA', day: '2026-11-25' },
      { symbol: 'B\r\nX', day: '2026-11-29' },
    ];
    expect(describeEarnings(earnings, '2026-11-19')).toBe('Earnings within ten days: TSLA Nov 25, B  X Nov 29.');
    expect(describeEarnings([], '2026-11-19')).toBe('');
  });
});

describe('a text', () => {
  it('of the data is one line of bounded length', () => {
    expect(cleanLabel('A\r\nB\u2028C\u202ED')).toBe('A  B C D');
    expect([...cleanLabel('🚀'.repeat(50))]).toHaveLength(40);
    expect(cleanCode('INTERMARKETSWEEP')).toBe('INTERMARKET…');
  });

  it.each([
    ['UTC', 'Nov 19, 2026, 22:31 UTC'],
    ['America/New_York', 'Nov 19, 2026, 17:31 ET'],
    ['Asia/Kolkata', 'Nov 20, 2026, 04:01 GMT+5:30'],
    ['Pacific/Auckland', 'Nov 20, 2026, 11:31 GMT+13'],
  ])('of an instant in %s is %s', (zone, text) => {
    expect(formatInstant('2026-11-19T22:31:07.000Z', zone)).toBe(text);
  });

  it('of an instant near a date has no year', () => {
    const near = (date: string) => formatInstant('2026-11-19T22:31:07.000Z', 'UTC', date);
    expect([near('2026-11-19'), near('2016-06-01')]).toEqual(['Nov 19, 22:31 UTC', 'Nov 19, 2026, 22:31 UTC']);
  });

  it('of midnight has hour 00', () => {
    expect(formatInstant('2026-11-19T00:05:00.000Z', 'UTC')).toBe('Nov 19, 2026, 00:05 UTC');
  });

  it('of small and large numbers is short', () => {
    expect([950, 9_999, 61_204, 6_526_316].map(formatShortCount)).toEqual(['950', '9,999', '61.2K', '6.53M']);
    expect(
      [991_999, 99.4, 0.1, 0.0994, -0.034, -0.9951, -0.99999, -1, -0.0001, Number.NaN].map(formatSignedPercent),
    ).toEqual(['992K ×', '100 ×', '+10%', '+9.9%', '−3.4%', '−99.5%', '−99.9%', '−100%', '0%', 'n/a']);
    expect([600, 182.5, 4734.48, 1000].map(formatStrike)).toEqual(['600', '182.5', '4,734.48', '1,000']);
    expect(formatShortDay('2026-11-18')).toBe('Nov 18');
    expect(['2026-12-31', '2026-06-01', '2027-12-17'].map((day) => formatNearDay(day, '2027-01-04'))).toEqual([
      ...['Dec 31', 'Jun 1, 2026', 'Dec 17, 2027'],
    ]);
    expect([formatDay('2026-11-19'), formatDate('2026-11-19')]).toEqual([
      'Thursday, November 19, 2026',
      'Nov 19, 2026',
    ]);
    expect(formatDay('no\r\ndate')).toBe('no  date');
    expect([0, 1e-12, 0.004, 0.5, 0.994, 0.996, 1 - 1e-12, 1].map(formatPart)).toEqual([
      ...['0%', '0%', '<1%', '50%', '99%', '>99%', '100%', '100%'],
    ]);
    expect([-0.001, 0.001, -1].map(formatSignedDollars)).toEqual(['$0.00', '$0.00', '−$1.00']);
  });
});

describe('the sentiment bar', () => {
  it('fills its width, whatever is rounded', () => {
    for (let part = 0; part <= 1; part += 0.013) {
      const bar = buildBar({
        ...day,
        bullish: 1000 * part,
        bearish: 1000 * (1 - part) * 0.37,
        neutral: 1000 * (1 - part) * 0.63,
      });
      expect(bar.reduce((sum, { width }) => sum + width, 0)).toBe(100);
    }
  });
});

describe('what is left out', () => {
  it('stands between what is counted and what the file holds', () => {
    const left = createExclusions(
      { ...day, trades: 10 },
      { lateReports: { trades: 2, premium: 30, bullish: 30, bearish: 0 } },
    );
    expect(buildExclusionRows({ ...day, trades: 10 }, left)).toEqual([
      { name: 'Counted above', trades: '10', premium: '$1.00K' },
      { name: 'Cancel messages', trades: '0', premium: '$0.00' },
      { name: 'Prints they cancel', trades: '0', premium: '$0.00' },
      { name: 'Late reports', trades: '2', premium: '$30.0' },
      { name: 'Recorded in the file', trades: '12', premium: '$1.03K' },
    ]);
  });
});
