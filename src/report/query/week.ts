/**
 * The week of a report: the key numbers of each day, from the summaries beside the drops, and from the drops of the week what
 * expired and what was opened. Invariant: an unknown number of a day makes that of the week unknown; a day that is not sealed
 * is in no sum, and `Week.days` says so. Averages are per session, so that a week with a holiday compares with a whole one.
 */
import type { Families } from '../../api-contract/family.ts';
import { type CalendarOverride, dayLength } from '../../calendar/session.ts';
import { addDays, mondayOf } from '../../calendar/wall-clock.ts';
import type { Engine } from '../../engine/engine.ts';
import { type Amount, divide } from '../amount.ts';
import { compare } from '../changes.ts';
import { keepRecords, openDropFile, queryRenamed } from '../drop-source.ts';
import type { SealedDrop } from '../model.ts';
import { type Compared, forCompared, type KEY_NUMBERS } from '../numbers.ts';
import { buildReportHours, writeColumns } from '../records.ts';
import { WEEK_SUMS, type Week, type WeekDay, type WeekExpired, type WeekOpened } from '../week-model.ts';
import { queryExclusions } from './exclusions.ts';
import { withStates } from './exposure.ts';
import { type PastSession, queryHistory } from './past-sessions.ts';
import { fillSql, STATE_KEY } from './sql.ts';
import { writeContract } from './trades.ts';

/** Weeks that a week is compared with: about a month. */
export const WEEKS_BEFORE = 4;
/** Rows of a table. */
const MOST_ROWS = 10;

/** What the store has of a session, or of a weekday of the week without one; `null`: it has none. */
export interface WeekFile extends Pick<WeekDay, 'date' | 'state' | 'reason'> {
  readonly summary: PastSession | null;
  /** Only of the week itself, with its file on this machine. */
  readonly drop: SealedDrop | null;
}

interface WeekOptions {
  /** Of the report, in the week itself. */
  readonly date: string;
  readonly families: Families;
  readonly calendar?: CalendarOverride | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** @param files of the week and the weeks before it, ascending @throws EngineFault */
export async function queryWeek(
  engine: Pick<Engine, 'rows' | 'command'>,
  files: readonly WeekFile[],
  options: WeekOptions,
): Promise<Week> {
  const { date, families, calendar, signal } = options;
  const monday = mondayOf(date);
  const drops = files.flatMap(({ drop }) => drop ?? []);
  const source = openDropFile(engine, drops[0]?.path ?? '', { signal });
  const summaries = files.flatMap(({ summary }) => summary ?? []);
  const { numbers } = await queryHistory(source, summaries, families);
  const known = files.map(({ date: day, state, reason }) => {
    return { date: day, state, reason, length: dayLength(day, calendar), numbers: numbers.get(day) ?? null };
  });
  const before = Array.from({ length: WEEKS_BEFORE }, (_, place) => addDays(monday, -7 * (place + 1)))
    .map((start) => known.filter((day) => mondayOf(day.date) === start))
    .filter((days) => days.some((day) => day.numbers !== null));
  const days = known.filter((day) => day.date >= monday);
  const sealed = days.flatMap((day) => day.numbers ?? []);
  const sums = WEEK_SUMS.map((key) => [key, addUp(sealed.map((numbers) => numbers[key]))]);
  return {
    days,
    before,
    changes: forCompared((number) => {
      const past = before.map((week) => averageOf(week, number));
      return compare(averageOf(days, number), past[0] ?? null, past);
    }),
    sums: Object.fromEntries(sums) as Week['sums'], // One for each key.
    ...(await querySeries(engine, drops, options)),
  };
}

/** Of a sum: for a whole session, half days by their length. Of a quotient: that of the sums; its parts are its values times its wholes. */
function averageOf(days: readonly WeekDay[], { key, quotient }: (typeof KEY_NUMBERS)[number]): Amount {
  const sealed = days.flatMap(({ numbers, length }) => {
    const whole = numbers?.[quotient?.[1] as Compared] ?? null; // Null if the quotient is of other numbers.
    return numbers === null ? [] : [{ value: numbers[key], weight: quotient === undefined ? length : whole }];
  });
  const parts = sealed.map(({ value, weight }) =>
    quotient === undefined ? value : value === null || weight === null ? null : value * weight,
  );
  return divide(addUp(parts), addUp(sealed.map(({ weight }) => weight)));
}

function addUp(amounts: readonly Amount[]): Amount {
  return amounts.reduce((sum, one) => (sum === null || one === null ? null : sum + one), 0);
}

/** What expired and what was opened, of the contracts that traded. */
async function querySeries(
  engine: Pick<Engine, 'rows' | 'command'>,
  drops: readonly SealedDrop[],
  { date, families, calendar, signal }: WeekOptions,
): Promise<Pick<Week, 'expired' | 'expiredSymbols' | 'opened' | 'openedSeries'>> {
  const source = openDropFile(engine, drops[0]?.path ?? '', { signal });
  try {
    for (const [place, drop] of drops.entries()) {
      const file = openDropFile(engine, drop.path, { signal });
      const { condition, hasGaps } = await queryExclusions(file);
      const renamed = await queryRenamed(file, families);
      const columns = writeColumns(hasGaps, renamed.length === 0 ? null : families);
      const counted = keepRecords(file, [condition, buildReportHours(drop, calendar)], columns);
      const columnsOfDay = `${STATE_KEY}, is_adjusted, shown_oi AS open_interest, total_premium AS premium`;
      const select = `SELECT toDate('${drop.date}') AS session, ${columnsOfDay} FROM states`;
      const into = place === 0 ? 'CREATE OR REPLACE TEMPORARY TABLE week_series AS' : 'INSERT INTO week_series';
      await withStates(counted, drop.date, () => file.command(`${into} ${select}`));
    }
    const values = { from: mondayOf(date), date, count: MOST_ROWS };
    const expired = await source.known<WeekExpired & { readonly isAll: number }>(
      fillSql('week-expired', { ...values, count: MOST_ROWS + 1 }),
    );
    const opened = await source.known<WeekOpened & { readonly of: number }>(
      `SELECT symbol, ${writeContract('strike_price')} AS contract, held_before AS before, held_after AS after,
        total_premium AS premium, series AS of FROM (${fillSql('week-opened', values)})`,
    );
    const [all] = expired.filter(({ isAll }) => isAll === 1);
    return {
      expired: { premium: all?.premium ?? 0, openInterest: all?.openInterest ?? 0, series: all?.series ?? 0 },
      expiredSymbols: expired.filter(({ isAll }) => isAll === 0).map(({ isAll: _, ...row }) => row),
      openedSeries: opened[0]?.of ?? 0,
      opened: opened.map(({ of: _, ...row }) => row),
    };
  } finally {
    await source.cleanUp('DROP TEMPORARY TABLE IF EXISTS week_series').catch(() => {});
  }
}
