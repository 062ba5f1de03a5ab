/**
 * Client of the historical SQL API, both entry points. Invariant: an answer is either a whole page or a fault from
 * `source-failure.ts`; `requester.ts` does the pacing and the retries. The key travels only in the body.
 */
import { metaSchema } from '../api-contract/historical.ts';
import { formatCount } from '../core/units.ts';
import { readEnvelope } from './envelope.ts';
import { createRequester, type RequesterOptions, type Surroundings } from './requester.ts';
import { MAX_PAGE_ROWS, type Page, type Source, SourceFault } from './source.ts';
import { judgeFailure } from './source-failure.ts';

/** Refusals to remember, about a kilobyte each. A date with more refusals cannot be fetched anyway. */
const MAX_REFUSALS = 10_000;

interface HistoricalOptions extends RequesterOptions {
  /** The portal need not send `meta`; the main entry point must. */
  readonly expectsMeta: boolean;
}

export function createHistoricalSource(options: HistoricalOptions, around: Surroundings): Source {
  const { apiKey, expectsMeta } = options;
  const { send, ...client } = createRequester(options, around);
  let lookbackDays: number | undefined;
  let isCapped = false;
  const ask: Source['ask'] = async (sql, { testMode, signal } = {}) => {
    const page = await send({
      body: { api_key: apiKey, sql, ...(testMode ? { test_mode: true } : {}) },
      signal,
      about: { sql },
      read: (status, body) => (status >= 200 && status <= 299 ? readPage(body, expectsMeta) : undefined),
      judge: (status, body, retryAfterMs) => judgeFailure(status, body, retryAfterMs, sql),
    });
    if (page.rows > MAX_PAGE_ROWS) {
      const found = `the API's answer has ${formatCount(page.rows)} rows, ${formatCount(MAX_PAGE_ROWS)} at most`;
      throw new SourceFault('PAGE_TOO_LARGE', found, { action: 'split' });
    }
    const stated = page.meta?.lookback_days;
    if (stated !== undefined) lookbackDays = Math.min(lookbackDays ?? stated, stated);
    isCapped = page.meta?.capped === true;
    return page;
  };
  return rememberRefusals({ ...client, ask, lookbackDays: () => lookbackDays, isCapped: () => isCapped });
}

/** @throws SyntaxError or ZodError if the body is not a page */
function readPage(body: Uint8Array, expectsMeta: boolean): Page {
  const { members, ...page } = readEnvelope(body);
  if (members['status'] !== 'SUCCESS')
    throw new SyntaxError(`"status" is ${JSON.stringify(members['status'])}, not "SUCCESS"`);
  // The portal's `meta` is not specified: it is used if it is valid, and never required.
  const meta = expectsMeta ? metaSchema.parse(members['meta']) : metaSchema.safeParse(members['meta']).data;
  return { ...page, meta };
}

/**
 * Queries that the API refused as too broad are not sent again unchanged, as the API asks: the caller gets the same
 * refusal at once. `state/limits.ts` keeps only the sizes refused in earlier runs. A query that timed out may succeed
 * later, so it is sent again.
 */
export function rememberRefusals(source: Source): Source {
  const refusals = new Map<string, SourceFault>();
  return {
    ...source,
    ask: async (sql, options) => {
      const known = refusals.get(sql);
      if (known !== undefined && options?.testMode !== true) throw known;
      try {
        return await source.ask(sql, options);
      } catch (error) {
        const isRefusal = error instanceof SourceFault && error.code === 'QUERY_TOO_BROAD';
        if (isRefusal && refusals.size < MAX_REFUSALS) refusals.set(sql, error);
        throw error;
      }
    },
  };
}
