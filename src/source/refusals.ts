/**
 * Queries that the API refused as too broad are never sent again unchanged, as it asks for: whoever asks one again in the
 * life of the source gets the same refusal at once, without a request. What earlier runs were refused is known by its
 * size only, see `state/limits.ts`. A query that ran out of time is not among them: that may pass.
 */
import { type Source, SourceFault } from './source.ts';

/** So many are remembered, of about a kilobyte each; a date in which more were refused cannot be had anyway. */
const MAX_REFUSALS = 10_000;

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
