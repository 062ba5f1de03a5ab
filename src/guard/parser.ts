/**
 * Uses the engine to parse callers' SQL; it never runs it. Invariant: a text that takes too long to parse is given up,
 * together with its process.
 */
import { systemClock } from '../core/clock.ts';
import { CLICKHOUSE_CODES, EngineFault } from '../engine/engine-fault.ts';
import type { EnginePool, PooledEngine, PoolRequest } from '../engine/pool.ts';

/** Texts are short; one that takes longer than this to parse was built to be slow. */
const PARSE_TIMEOUT_MS = 5_000;
const TOO_SLOW = 'the statement takes too long to parse';

export type ParserRows = Pick<PooledEngine, 'rows'>;

export interface Parser {
  /** The parser on behalf of one caller; callers share it fairly. */
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
            // The time limit starts when the parser is free for this text.
            const giveUp = () => late.abort(new EngineFault(CLICKHOUSE_CODES.TIMEOUT_EXCEEDED, TOO_SLOW));
            systemClock.sleep(PARSE_TIMEOUT_MS, over.signal).then(giveUp, () => {}); // Parsed in time.
            return await engine.rows<Row>(sql);
          });
        } finally {
          over.abort();
        }
      },
    }),
  };
}
