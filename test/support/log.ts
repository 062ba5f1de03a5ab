/** A log that drops everything, for tests that look elsewhere. */
import { pino } from 'pino';
import type { Log } from '../../src/core/log.ts';

export function createSilentLog(): Log {
  return pino({ level: 'silent' });
}
