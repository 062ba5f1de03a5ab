/** What an answer to an assistant rests on: the dates of each dataset, and the gaps among them with what they mean. */
import type { Coverage } from '../../archive/coverage.ts';
import { listSessions } from '../../calendar/session.ts';
import { Ledger } from '../../ledger/ledger.ts';
import { type Condition, isSealed } from '../../plan/conditions.ts';
import type { AskedStore } from '../query/asked-store.ts';

/** About a quarter of sessions; the others are counted. */
const MAX_DATES = 64;

const GAPS = {
  degraded: 'sealed, but known to be incomplete',
  pending: 'not sealed yet, so not in the answer; it can still be fetched',
  missing: 'not in the answer: the source had no rows for this session',
  expired: 'lost, so not in the answer: it left the lookback before it was sealed',
  empty: 'nothing to seal: no row of the source meets the condition of the job',
  since: 'not in the answer: the date was sealed later',
  unknown: 'not in the answer: the session is not sealed, and nothing is recorded about it',
} as const satisfies Partial<Record<Condition | 'since' | 'unknown', string>>;

type Gap = readonly [what: string, meaning: string, dates: readonly string[]];

/** Of the dates that an answer uses, and those that it lacks. @throws StoreFault */
export async function describeBasis(
  { store }: AskedStore,
  { dataset, dates, missing, degraded }: Pick<Coverage, 'dataset' | 'dates' | 'missing' | 'degraded'>,
  others: readonly Gap[] = [],
) {
  const { entries } = await new Ledger(store, dataset).conditions();
  const gaps = Object.entries(GAPS).map(([what, meaning]): Gap => {
    const own = missing.filter((date) => {
      const condition = entries.get(date)?.condition;
      return (condition === undefined ? 'unknown' : isSealed(condition) ? 'since' : condition) === what;
    });
    return [what, meaning, what === 'degraded' ? degraded : own];
  });
  const some = [...gaps, ...others].filter(([, , lacking]) => lacking.length > 0);
  return {
    dataset,
    dates: listDates(dates),
    gaps: some.map(([what, meaning, lacking]) => ({ what, meaning, ...listDates(lacking) })),
  };
}

/** Of all dates of a dataset. @throws StoreFault */
export async function describeDates(asked: AskedStore, dataset: string) {
  const ledger = new Ledger(asked.store, dataset);
  const dates = await ledger.dates();
  const { entries } = await ledger.conditions();
  const sessions = dates[0] === undefined ? [] : listSessions(dates[0], asked.findLastSession(), asked.calendar);
  const missing = [...new Set([...sessions, ...entries.keys()])].filter((date) => !dates.includes(date)).sort();
  const degraded = dates.filter((date) => entries.get(date)?.condition === 'degraded');
  return await describeBasis(asked, { dataset, dates, missing, degraded });
}

/** @param dates in any order */
function listDates(dates: readonly string[]) {
  const newest = dates.toSorted().reverse();
  return { count: dates.length, first: newest.at(-1), last: newest[0], newest: newest.slice(0, MAX_DATES) };
}
