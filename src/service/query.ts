/**
 * Runs one admitted query under the service's limits and cuts its rows to the row limit. Invariant: rows stay bytes; the
 * limits stand in the outermost SETTINGS clause, which the guard has kept free of the caller's own.
 */
import type { Clock } from '../core/clock.ts';
import type { Engine } from '../engine/engine.ts';
import { queryTimeout, toApiFailure, tooBroad } from './failure.ts';
import type { Guard } from './guard.ts';
import type { Trades } from './trades.ts';

export interface QueryLimits {
  /** Most rows of an answer. */
  readonly rowLimit: number;
  /** Most rows the engine may read for one. */
  readonly scanLimit: number;
}

export interface QueryResult {
  /** A JSON array of objects. */
  readonly json: Uint8Array;
  readonly rows: number;
  readonly truncated: boolean;
}

export interface QueryRunner {
  /** @throws ApiFailure */
  run(sql: string): Promise<QueryResult>;
}

/** Longest run of one query, seconds. */
const MAX_EXECUTION_SECONDS = 30;
/**
 * After this the caller is answered even when the engine has not stopped: some functions do not look at the time limit,
 * and statements of others wait in the same queue.
 */
const MAX_WAIT_MS = 45_000;
const MAX_MEMORY_BYTES = 2_000_000_000;
/**
 * Bytes of an answer: ten thousand full rows are about 7 MB. The engine counts a constant column once for all rows, so
 * the answer itself is measured too.
 */
const MAX_RESULT_BYTES = 256_000_000;

const NEWLINE = 0x0a;

export function createQueryRunner(
  deps: { readonly engine: Engine; readonly clock: Clock; readonly guard: Guard; readonly trades: Trades },
  limits: QueryLimits,
): QueryRunner {
  const settings = settingsSql(limits);
  return {
    run: async (sql) => {
      const give = new AbortController();
      try {
        return await Promise.race([runQuery(sql, give.signal), expire(deps.clock, give.signal)]);
      } finally {
        give.abort();
      }
    },
  };

  async function runQuery(sql: string, signal: AbortSignal): Promise<QueryResult> {
    const text = await deps.guard.admit(sql);
    await deps.trades.follow();
    try {
      const { bytes, rows } = await deps.engine.format(`${text} ${settings}`, 'JSONEachRow', { signal });
      if (bytes.length > MAX_RESULT_BYTES) throw tooBroad('The answer has more bytes than the service allows.');
      if (rows <= limits.rowLimit) return { json: bytes, rows, truncated: false };
      return { json: cutRows(bytes, limits.rowLimit), rows: limits.rowLimit, truncated: true };
    } catch (error) {
      throw toApiFailure(error, text);
    }
  }
}

async function expire(clock: Clock, signal: AbortSignal): Promise<never> {
  await clock.sleep(MAX_WAIT_MS, signal);
  throw queryTimeout();
}

/**
 * The SETTINGS clause. `limit` asks for one row more than may be answered, which tells truncation. The four after the
 * JSON ones keep a count or a repeated query from being answered without reading, so that the scan limit means the same
 * every time. The last two keep the views' filter in front: in a merged or reordered filter the caller's expressions see
 * hidden rows, and whether one of them failed would tell what is in those.
 */
function settingsSql(limits: QueryLimits): string {
  const settings: Readonly<Record<string, string | number>> = {
    limit: limits.rowLimit + 1,
    max_rows_to_read: limits.scanLimit,
    read_overflow_mode: "'throw'",
    max_execution_time: MAX_EXECUTION_SECONDS,
    timeout_overflow_mode: "'throw'",
    max_memory_usage: MAX_MEMORY_BYTES,
    max_result_bytes: MAX_RESULT_BYTES,
    result_overflow_mode: "'throw'",
    output_format_json_array_of_rows: 1,
    output_format_json_validate_utf8: 1,
    output_format_json_quote_64bit_integers: 0,
    optimize_trivial_count_query: 0,
    optimize_use_implicit_projections: 0,
    use_query_condition_cache: 0,
    use_query_cache: 0,
    optimize_move_to_prewhere: 0,
    query_plan_merge_filters: 0,
  };
  return `SETTINGS ${Object.entries(settings)
    .map(([name, value]) => `${name} = ${value}`)
    .join(', ')}`;
}

/**
 * The first `rows` objects of the array: the engine writes `[`, one object a line, and `]`, and escapes line ends inside
 * objects. There may be more than one too many: WITH TIES also holds for the limit of the settings.
 */
function cutRows(bytes: Uint8Array, rows: number): Uint8Array {
  let end = -1;
  for (let line = 0; line <= rows; line += 1) end = bytes.indexOf(NEWLINE, end + 1);
  // The comma before that line end goes too.
  return Buffer.concat([bytes.subarray(0, end - 1), Buffer.from('\n]')]);
}
