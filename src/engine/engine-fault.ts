/**
 * Errors of the engine. Invariant: ClickHouse's own numeric code is kept, because the service maps it to the API's
 * error codes and the stage reacts to some of them. A task that was not started, because too many wait, has its own
 * class: the statement is not at fault, and the same call may succeed a moment later.
 */
import { Fault } from '../core/errors.ts';

/** Codes that flowdrop reacts to; names as in ClickHouse's `ErrorCodes.cpp`. */
export const CLICKHOUSE_CODES = {
  UNKNOWN_FUNCTION: 46,
  LOGICAL_ERROR: 49,
  SYNTAX_ERROR: 62,
  TOO_MANY_ROWS: 158,
  TIMEOUT_EXCEEDED: 159,
  MEMORY_LIMIT_EXCEEDED: 241,
  NOT_ENOUGH_SPACE: 243,
  TOO_MANY_ROWS_OR_BYTES: 396,
  ACCESS_DENIED: 497,
  S3_ERROR: 499,
  AUTHENTICATION_FAILED: 516,
  NAMED_COLLECTION_DOESNT_EXIST: 669,
  CLUSTER_DOESNT_EXIST: 701,
} as const;

const MEMORY_HINT =
  'This machine or container has too little memory: give it more, then start the same command again. Staged pages are kept.';

const FULL_HINT =
  'Free space on the disk of FLOWDROP_STATE_DIR (`df -h` shows it), then start the same command again. Sealed drops and staged pages are kept.';

/** The engine checks for space before it writes; a disk that fills up later is an error of the system. */
const NO_SPACE = /No space left on device|errno: 28\b/;

export class EngineFault extends Fault {
  override readonly name = 'EngineFault';
  /** ClickHouse's error number; 0 if the failure did not come from a statement. */
  readonly clickhouseCode: number;

  constructor(clickhouseCode: number, message: string, cause?: unknown) {
    if (clickhouseCode === CLICKHOUSE_CODES.NOT_ENOUGH_SPACE || NO_SPACE.test(message)) {
      const said = cause ?? new Error(message);
      super('DISK_FULL', 'there is no space left for the files of the engine', { cause: said, hint: FULL_HINT });
    } else {
      const isMemory = clickhouseCode === CLICKHOUSE_CODES.MEMORY_LIMIT_EXCEEDED;
      super('ENGINE_FAILED', message, { cause, hint: isMemory ? MEMORY_HINT : undefined });
    }
    this.clickhouseCode = clickhouseCode;
  }
}

/** Too many tasks already wait for an engine. Nothing was started. */
export class PoolBusyFault extends Fault {
  override readonly name = 'PoolBusyFault';

  constructor(waiting: number) {
    super('POOL_BUSY', `${waiting} queries are already waiting for an engine`, {
      hint: 'Try again in a moment; more engines, or a server with more of them, shorten the queue.',
    });
  }
}
