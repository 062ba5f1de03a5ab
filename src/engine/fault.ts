/**
 * Errors of the engine. Invariant: ClickHouse's own numeric code survives, because the service maps it to the API's
 * error codes and the stage reacts to some of them.
 */
import { Fault } from '../core/errors.ts';

/** Codes that flowdrop reacts to; names as in ClickHouse's `ErrorCodes.cpp`. */
export const CLICKHOUSE_CODES = {
  INCORRECT_DATA: 117,
  TOO_MANY_ROWS: 158,
  TIMEOUT_EXCEEDED: 159,
  MEMORY_LIMIT_EXCEEDED: 241,
} as const;

export class EngineFault extends Fault {
  override readonly name = 'EngineFault';
  /** ClickHouse's error number; 0 when the failure did not come from a statement. */
  readonly clickhouseCode: number;

  constructor(clickhouseCode: number, message: string, cause?: unknown) {
    super('ENGINE_FAILED', message, { cause });
    this.clickhouseCode = clickhouseCode;
  }
}
