/**
 * The engine as a parser of callers' SQL: never runs it. Invariant: a text that takes too long to parse is given up, and
 * its process with it.
 */
import { systemClock } from '../core/clock.ts';
import { CLICKHOUSE_CODES, EngineFault } from '../engine/engine-fault.ts';
import type { EnginePool, PooledEngine, PoolRequest } from '../engine/pool.ts';

/** Texts are short; one that takes longer than this to parse was made for it. */
const PARSE_TIMEOUT_MS = 5_000;
const TOO_SLOW = 'the statement takes too long to parse';

export type ParserRows = Pick<PooledEngine, 'rows'>;

export interface Parser {
  /** The parser in one caller's name: the callers share it fairly. */
  for(request: PoolRequest): ParserRows;
}

/** @param pool one process is enough: a text takes a few milliseconds */
export function openParser(pool: EnginePool): Parser {
  return {
    for: ({ owner, signal }) => ({
      async rows<Row extends object>(sql: string): Promise<readonly Row[]> {
        const late = new AbortController();
        const over = new AbortController();
        try {
          return await pool.use({ owner, signal: AbortSignal.any([signal, late.signal]) }, async (engine) => {
            // Counted from when it is this text's turn.
            const giveUp = () => late.abort(new EngineFault(CLICKHOUSE_CODES.TIMEOUT_EXCEEDED, TOO_SLOW));
            systemClock.sleep(PARSE_TIMEOUT_MS, over.signal).then(giveUp, () => {}); // It was parsed in time.
            return await engine.rows<Row>(sql);
          });
        } finally {
          over.abort();
        }
      },
    }),
  };
}
