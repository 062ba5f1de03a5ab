/**
 * Runs one caller's query: admitted by the guard, on an engine of the pool, under the service's limits. Invariant: rows
 * stay bytes; the limits are in the outermost SETTINGS clause, where the guard admits no settings of the caller; the
 * query has succeeded before the first byte of its rows is returned; at most `rowLimit` rows are written, and whether
 * there were more is known at the end.
 */
import { EventEmitter, once } from 'node:events';
import { addAbortSignal, Readable } from 'node:stream';
import { type EngineSettings, formatSettings } from '../../engine/literal.ts';
import type { PoolRequest } from '../../engine/pool.ts';
import { keepKnown } from '../../engine/server.ts';
import type { Guard } from '../../guard/guard.ts';
import type { Backend } from '../backend.ts';
import { toApiFailure } from '../http/api-failure.ts';
import type { Answer } from '../http/route.ts';

interface QueryRequest extends PoolRequest {
  readonly sql: string;
  /** Maximum rows of the answer. */
  readonly rowLimit: number;
  /** Text after the rows, which can report whether rows were dropped. */
  tail(truncated: boolean): string;
}

export type RunQuery = ReturnType<typeof createQueryRunner>;

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
/** Bytes that each answer may always hold, so that callers who do not read never slow down one who does. */
const ALWAYS_ALLOWED_BYTES = 4_000_000;

/** Admitted statements to remember, of 64 kB at most each. */
const MAX_REMEMBERED = 256;

/** @param scanLimit maximum rows that the engine may read for one answer */
export function createQueryRunner(backend: Backend, guard: Guard, scanLimit: number) {
  const { pool, capabilities } = backend;
  /** What the guard returns depends on the text alone; oldest first. */
  const admitted = new Map<string, string>();
  /** Bytes of all answers that wait for their callers. */
  let heldBytes = 0;
  const events = new EventEmitter().setMaxListeners(0);
  /** @throws ApiFailure */
  return async ({ sql, rowLimit, tail, ...asker }: QueryRequest): Promise<Answer> => {
    try {
      const text = admitted.get(sql) ?? (await guard.admit(sql, asker));
      admitted.set(sql, text);
      if (admitted.size > MAX_REMEMBERED) admitted.delete(admitted.keys().next().value ?? '');
      const wanted = { ...limitSettings(rowLimit, scanLimit), ...(backend.settings ?? HIDING_SETTINGS) };
      const settings = formatSettings(capabilities ? keepKnown(wanted, capabilities) : wanted);
      return writeRows(await openLines(text, settings, asker), rowLimit, tail);
    } catch (error) {
      throw toApiFailure(error, sql);
    }
  };

  /**
   * Returns the result's lines once the query has succeeded. The engine is free as soon as it has produced them all,
   * however slowly the caller reads, unless too many bytes already wait for callers: then it waits for its own caller.
   */
  async function openLines(text: string, settings: string, asker: PoolRequest): Promise<AsyncIterable<Uint8Array>> {
    let waitingBytes = 0;
    const hold = (bytes: number) => {
      waitingBytes += bytes;
      heldBytes += bytes;
      if (bytes < 0) events.emit('taken');
    };
    // A caller that disconnects before the first piece never starts to read: the signal ends the queue too.
    const queue = addAbortSignal(asker.signal, new Readable({ objectMode: true, read: () => {} }));
    queue.once('close', () => hold(-waitingBytes));
    queue.on('error', () => {}); // Its reader gets it too, if there is one.
    let failure: Error | undefined;
    return await new Promise((resolve, reject) => {
      const task = pool.use(asker, async (engine) => {
        const run = () => engine.stream(`${text} ${settings}`, 'JSONEachRow');
        const pieces = await (backend.stream?.(engine, text, run) ?? run());
        resolve(read());
        for await (const piece of pieces) {
          if (queue.destroyed) break;
          hold(piece.length);
          queue.push(piece);
          while (heldBytes > MAX_HELD_BYTES && waitingBytes > ALWAYS_ALLOWED_BYTES) await once(events, 'taken');
        }
        queue.push(null);
      });
      task.catch((error: unknown) => {
        reject(error); // No effect once the lines are open.
        failure = error as Error;
        queue.push(null);
      });
    });

    async function* read(): AsyncGenerator<Uint8Array> {
      for await (const piece of queue as AsyncIterable<Uint8Array>) {
        hold(-piece.length);
        yield piece;
      }
      // A failure comes behind the pieces: those may be all that the caller takes.
      if (failure) throw failure;
    }
  }
}

/** The rows come first, because part of `meta` is known only at their end. */
const HEAD = '{"status":"SUCCESS","data":[';
const NEWLINE = 0x0a;
const COMMA = 0x2c;

/**
 * The body of an answer with rows. The engine writes one object per line (JSONEachRow) and escapes line ends inside it,
 * so each line end becomes the comma between two objects.
 * @param lines JSONEachRow; the pieces are overwritten
 */
export function writeRows(lines: AsyncIterable<Uint8Array>, rowLimit: number, tail: QueryRequest['tail']) {
  let rows = 0;
  return { body: write(), rows: () => rows };

  async function* write(): AsyncGenerator<Uint8Array> {
    yield Buffer.from(HEAD);
    let owesComma = false;
    let isTruncated = false;
    for await (const piece of lines) {
      if (piece.length === 0) continue;
      isTruncated = rows === rowLimit;
      if (isTruncated) break;
      if (owesComma) yield Uint8Array.of(COMMA);
      // Only the next piece shows whether the last row needs a comma.
      owesComma = piece.at(-1) === NEWLINE;
      const end = joinLines(piece);
      isTruncated = end < piece.length;
      yield piece.subarray(0, owesComma && !isTruncated ? -1 : end);
      if (isTruncated) break;
    }
    yield Buffer.from(tail(isTruncated));
  }

  /** Turns line ends into commas. @returns the start of the rows beyond the limit, or the length */
  function joinLines(piece: Uint8Array): number {
    for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, at + 1)) {
      rows += 1;
      if (rows === rowLimit && at < piece.length - 1) return at;
      piece[at] = COMMA;
    }
    return piece.length;
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
