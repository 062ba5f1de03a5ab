/** What an answer to an assistant rests on: the dates of each dataset, and the gaps among them with their reasons. */
import { z } from 'zod';
import type { Coverage } from '../../archive/coverage.ts';
import { Ledger } from '../../ledger/ledger.ts';
import type { Condition } from '../../plan/conditions.ts';
import type { Store } from '../../store/store.ts';

/** About a quarter of sessions; the others are counted. */
const MAX_DATES = 64;

const MEANINGS = {
  degraded: 'sealed, but known to be incomplete: the answer uses it and may be too low',
  pending: 'not sealed yet, so not in the answer; it can still be fetched',
  missing: 'not in the answer: the source had no rows for this session',
  expired: 'lost, so not in the answer: it left the lookback before it was sealed',
  empty: 'nothing to seal: no row of the source meets the condition of the job',
  unknown: 'a session that is not sealed, so not in the answer; nothing is recorded about it',
} as const satisfies Partial<Record<Condition | 'unknown', string>>;

const datesSchema = z.object({
  count: z.number().int(),
  first: z.string().nullable(),
  last: z.string().nullable(),
  newest: z.array(z.string()).describe(`the newest ${MAX_DATES} of them, newest first`),
});

export const basisSchema = z.array(
  z.object({
    dataset: z.string(),
    dates: datesSchema.describe('sealed dates that the answer rests on'),
    gaps: z.array(z.object({ what: z.string(), meaning: z.string(), dates: datesSchema })),
  }),
);

export type Basis = z.output<typeof basisSchema>[number];

type Gaps = readonly (readonly [what: string, meaning: string, dates: readonly string[]])[];

/** Of a statement's answer. @throws StoreFault */
export async function describeBasis(store: Store, coverage: readonly Coverage[]): Promise<Basis[]> {
  return await Promise.all(
    coverage.map(async ({ dataset, dates, degraded, missing, unsummarized, lacking }) => {
      const entries = missing.length > 0 ? (await new Ledger(store, dataset).conditions()).entries : undefined;
      const found = missing.map((date) => [date, entries?.get(date)?.condition ?? 'unknown'] as const);
      return buildBasis(dataset, dates, [
        ...listGaps([...degraded.map((date) => [date, 'degraded'] as const), ...found]),
        ['no summary', 'not in the answer: the date has no summary', unsummarized],
        ...Array.from(lacking, ([name, some]) => [`no column ${name}`, 'the column is empty there', some] as const),
      ]);
    }),
  );
}

/** By condition. A date that is known as complete is no gap. */
export function listGaps(conditions: readonly (readonly [date: string, condition: Condition | 'unknown'])[]): Gaps {
  return Object.entries(MEANINGS).map(([what, meaning]) => {
    return [what, meaning, conditions.flatMap(([date, condition]) => (condition === what ? [date] : []))];
  });
}

/** @param dates ascending, as those of the gaps are; gaps without any are left out */
export function buildBasis(dataset: string, dates: readonly string[], gaps: Gaps): Basis {
  const some = gaps.filter(([, , lacking]) => lacking.length > 0);
  return {
    dataset,
    dates: listDates(dates),
    gaps: some.map(([what, meaning, lacking]) => ({ what, meaning, dates: listDates(lacking) })),
  };
}

function listDates(dates: readonly string[]): z.output<typeof datesSchema> {
  const newest = dates.slice(-MAX_DATES).reverse();
  return { count: dates.length, first: dates[0] ?? null, last: dates.at(-1) ?? null, newest };
}
