/**
 * Runs one caller's query: admitted by the guard, on an engine of the pool, under the service's limits. Invariant: rows
 * stay bytes; the limits are in the outermost SETTINGS clause, where the guard admits no settings of the caller; the
 * query has succeeded before the first byte of its rows is returned.
 */

import { type EngineSettings, formatSettings } from '../../engine/literal.ts';
import type { PoolRequest } from '../../engine/pool.ts';
import { keepKnown } from '../../engine/server.ts';
import type { Guard } from '../../guard/guard.ts';
import type { AdmittedStatement, Backend } from '../backend.ts';
import { toApiFailure } from '../http/api-failure.ts';
import { HeldBytes, PieceQueue } from './piece-queue.ts';
import { type RowBody, type RowFrame, writeRows } from './row-stream.ts';

interface QueryRequest extends PoolRequest {
  readonly sql: string;
  /** Maximum rows of the answer. */
  readonly rowLimit: number;
  readonly frame: RowFrame;
}

/** @throws ApiFailure */
export type RunQuery = (request: QueryRequest) => Promise<RowBody>;

/** Maximum run time of one query, seconds. */
const MAX_EXECUTION_SECONDS = 30;
const MAX_MEMORY_BYTES = 2_000_000_000;
/**
 * Maximum bytes of an answer; ten thousand full rows are about 7 MB. The engine counts a constant column once for all
 * rows, so the embedded pool also measures the answer itself.
 */
export const MAX_RESULT_BYTES = 256_000_000;
/** Maximum bytes of answers that wait for their callers; above this the engines wait too. */
const MAX_HELD_BYTES = 512_000_000;

/** @param scanLimit maximum rows that the engine may read for one answer */
export function createQueryRunner(backend: Backend, guard: Guard, scanLimit: number): RunQuery {
  const { pool, dataset, capabilities } = backend;
  const held = new HeldBytes(MAX_HELD_BYTES);
  return async ({ sql, rowLimit, frame, ...asker }) => {
    try {
      const text = await guard.admit(sql, asker);
      const wanted = { ...limitSettings(rowLimit, scanLimit), ...(backend.settings ?? HIDING_SETTINGS) };
      const settings = capabilities ? keepKnown(wanted, capabilities) : wanted;
      const statement = { text, settings, format: 'JSONEachRow' };
      return writeRows(await openLines(statement, asker), rowLimit, frame);
    } catch (error) {
      throw toApiFailure(error, sql);
    }
  };

  /**
   * Returns the result's lines once the query has succeeded. The engine is free as soon as it has produced them all,
   * however slowly the caller reads, unless too many bytes already wait for callers.
   */
  async function openLines(statement: AdmittedStatement, asker: PoolRequest): Promise<AsyncIterable<Uint8Array>> {
    const { signal } = asker;
    return await new Promise((resolve, reject) => {
      const lines = new PieceQueue(held);
      // A caller that disconnects before the first piece never starts to read, so it never leaves the iteration.
      signal.addEventListener('abort', () => lines.leave(signal.reason), { once: true });
      const task = pool.use(asker, async (engine) => {
        const pieces = await dataset.stream(engine, statement);
        resolve(lines);
        for await (const piece of pieces) {
          if (lines.isLeft) break;
          await lines.push(piece, signal);
        }
        lines.end();
      });
      task.catch((error: unknown) => {
        reject(error); // No effect once the lines are open; after that `lines` reports the error.
        lines.fail(error);
      });
    });
  }
}

/**
 * Settings for data with hidden rows. The first four force every query to read its rows, so that the scan limit always
 * means the same; otherwise a count or a repeated query could be answered without reading. The others keep the views'
 * filter first. In a merged or reordered filter, a join filter or a late projection, the caller's expressions would see
 * hidden rows, and whether an expression failed would leak their content.
 */
const HIDING_SETTINGS: EngineSettings = {
  optimize_trivial_count_query: 0,
  optimize_use_implicit_projections: 0,
  use_query_condition_cache: 0,
  use_query_cache: 0,
  optimize_move_to_prewhere: 0,
  query_plan_merge_filters: 0,
  enable_join_runtime_filters: 0,
  query_plan_optimize_lazy_materialization: 0,
};

/** The limits as settings. `limit` asks for one row more than may be answered, which reveals truncation. */
function limitSettings(rowLimit: number, scanLimit: number): EngineSettings {
  return {
    limit: rowLimit + 1,
    max_rows_to_read: scanLimit,
    read_overflow_mode: 'throw',
    max_execution_time: MAX_EXECUTION_SECONDS,
    timeout_overflow_mode: 'throw',
    max_memory_usage: MAX_MEMORY_BYTES,
    max_result_bytes: MAX_RESULT_BYTES,
    result_overflow_mode: 'throw',
    output_format_json_validate_utf8: 1,
    output_format_json_quote_64bit_integers: 0,
    session_timezone: 'UTC',
  };
}

/** The SETTINGS clause of callers' statements over data with hidden rows. */
export function settingsSql(rowLimit: number, scanLimit: number): string {
  return formatSettings({ ...limitSettings(rowLimit, scanLimit), ...HIDING_SETTINGS });
}
