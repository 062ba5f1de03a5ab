/**
 * The engine as a parser of callers' SQL: never runs it. Invariant: a text that takes too long to parse is given up, and
 * its process with it.
 */
import { CLICKHOUSE_CODES, EngineFault } from '../engine/fault.ts';
import type { EnginePool } from '../engine/pool.ts';
import type { StatementRunner } from './dataset.ts';

/** Texts are short; one that takes longer than this to parse was made for it. */
const PARSE_TIMEOUT_MS = 5_000;

export type Parser = Pick<StatementRunner, 'rows'>;

/** @param pool one process is enough: a text takes a few milliseconds */
export function openParser(pool: EnginePool): Parser {
  return {
    async rows<Row extends object>(sql: string): Promise<readonly Row[]> {
      const signal = AbortSignal.timeout(PARSE_TIMEOUT_MS);
      try {
        return await pool.use({ owner: 'parser', signal }, (engine) => engine.rows<Row>(sql));
      } catch (cause) {
        if (!signal.aborted) throw cause;
        throw new EngineFault(CLICKHOUSE_CODES.TOO_SLOW_PARSING, 'the statement takes too long to parse', cause);
      }
    },
  };
}
