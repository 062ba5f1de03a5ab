/**
 * Estimates an export before it starts: requests, seconds, bytes, and the dates that would leave the lookback before
 * they are done. Pure: pace and clock come in as arguments.
 */

interface DateWork {
  readonly date: string;
  /** `undefined` if unknown. */
  readonly rows: number | undefined;
  readonly pages: number;
  /** `undefined` if the rows were not counted: then `rows` comes from another date. */
  readonly counts: unknown;
  readonly expiresAtMs: number;
}

interface PriceTerms {
  readonly nowMs: number;
  /** Milliseconds between two request starts. */
  readonly intervalMs: number;
  /** Requests for counting a date once. */
  readonly countRequests: number;
  /** Bytes of a row in transfer, before compression. */
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
  /** When the date would be done, if dates run one after the other. */
  readonly doneAtMs: number;
  /** Whether it begins to expire before it is done: then it could no longer be proved complete. */
  readonly isLost: boolean;
}

/** Count, recount. */
const COUNTS_OF_A_DATE = 2;

/** @param work in the order of the run */
export function priceDates(work: readonly DateWork[], terms: PriceTerms): readonly DatePrice[] {
  let doneAtMs = terms.nowMs;
  return work.map(({ date, rows, pages, counts, expiresAtMs }) => {
    const isCounted = counts !== undefined;
    // An existing count costs nothing more.
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
