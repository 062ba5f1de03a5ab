/** The id of a run: in every line of its log, in its result and in operator alerts. Pure except for its random part. */
import { randomBytes } from 'node:crypto';

/** Format of a given id: it becomes part of file names and log lines. */
const RUN_ID = /^(?=.*[A-Za-z0-9])[A-Za-z0-9._-]{1,64}$/;
/** Hexadecimal digits that distinguish runs of the same millisecond. */
const RANDOM_DIGITS = 3;

/**
 * The id that the parent process gave, or a new one, which sorts by time to the millisecond: `20261122T063448Z-482a9c`.
 * @param given ignored unless it is 1 to 64 letters, digits, dots, hyphens and underscores
 */
export function chooseRunId(given: string | undefined, nowMs: number): string {
  return given !== undefined && RUN_ID.test(given) ? given : createRunId(nowMs);
}

/** A new id. */
export function createRunId(nowMs: number): string {
  const [second = '', milliseconds = ''] = new Date(nowMs).toISOString().replace(/[-:Z]/g, '').split('.');
  return `${second}Z-${milliseconds}${randomBytes(RANDOM_DIGITS).toString('hex').slice(0, RANDOM_DIGITS)}`;
}
