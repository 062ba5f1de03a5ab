/** Logs for tests: one that drops everything, and one that keeps its records. */
import { Writable } from 'node:stream';
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
  const sink = new Writable({
    write(line, _encoding, done) {
      records.push(JSON.parse(String(line)));
      done();
    },
  });
  return { log: pino({ level: 'debug' }, sink), records };
}
