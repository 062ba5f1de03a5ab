/** Logs for tests: one that drops everything, and one that keeps its records. */
import { pino } from 'pino';
import type { Log } from '../../src/core/log.ts';

export function createSilentLog(): Log {
  return pino({ level: 'silent' });
}

export interface KeptLog {
  readonly log: Log;
  /** What was logged so far, oldest first. */
  readonly records: Readonly<Record<string, unknown>>[];
}

export function createKeptLog(): KeptLog {
  const records: Readonly<Record<string, unknown>>[] = [];
  return { log: pino({ level: 'debug' }, { write: (line) => records.push(JSON.parse(line)) }), records };
}
