/**
 * What an export costs before it is begun: requests, seconds, bytes, and which dates would leave the lookback before their
 * turn is over. Pure: pace and clock come in as arguments.
 */

interface DateWork {
  readonly date: string;
  /** `undefined` where nobody can tell. */
  readonly rows: number | undefined;
  readonly pages: number;
  /** `undefined` where the rows were not counted: then they are those of another date. */
  readonly counts: unknown;
  readonly expiresAtMs: number;
}

interface PriceTerms {
  readonly nowMs: number;
  /** Milliseconds between two request starts. */
  readonly intervalMs: number;
  /** Requests that counting a date takes, once. */
  readonly countRequests: number;
  /** Bytes of a row as it is transferred, before compression. */
  readonly rowBytes: number;
}

export interface DatePrice {
  readonly date: string;
  readonly rows: number | undefined;
  readonly isCounted: boolean;
  readonly requests: number;
  readonly seconds: number;
  readonly bytes: number;
  readonly expiresAtMs: number;
  /** When it would be done, one date after the other. */
  readonly doneAtMs: number;
  /** Whether it begins to expire before that: it could not be proved complete any more. */
  readonly isLost: boolean;
}

/** Counted, cut to the row, and counted again. */
const COUNTS_OF_A_DATE = 3;

/** @param work in the order of the run */
export function priceDates(work: readonly DateWork[], terms: PriceTerms): readonly DatePrice[] {
  let doneAtMs = terms.nowMs;
  return work.map(({ date, rows, pages, counts, expiresAtMs }) => {
    const isCounted = counts !== undefined;
    // What is counted already was paid for.
    const requests = pages + (isCounted ? COUNTS_OF_A_DATE - 1 : COUNTS_OF_A_DATE) * terms.countRequests;
    const tookMs = requests * terms.intervalMs;
    doneAtMs += tookMs;
    return {
      date,
      rows,
      isCounted,
      requests,
      seconds: tookMs / 1000,
      bytes: Math.round((rows ?? 0) * terms.rowBytes),
      expiresAtMs,
      doneAtMs,
      isLost: doneAtMs >= expiresAtMs,
    };
  });
}
