/** What several commands check of their arguments and jobs, and who typed a command. */
import { stat } from 'node:fs/promises';
import { hostname, userInfo } from 'node:os';
import { isDate } from '../calendar/wall-clock.ts';
import { Fault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';
import { parseLocation } from '../store/object-key.ts';

/** A mistake on the command line. */
export function usage(message: string, hint?: string, code = 'USAGE'): Fault {
  return new Fault(code, message, { kind: 'usage', hint });
}

/** @throws Fault `DATE_INVALID` */
export function assertDate(option: string, text: string): void {
  if (isDate(text)) return;
  const message = `${option} is ${JSON.stringify(text)}; allowed is an existing date, YYYY-MM-DD`;
  throw usage(message, `Write it like ${option} 2026-11-20.`, 'DATE_INVALID');
}

/**
 * Checks that a store in a directory exists. Opening it would create it: a wrong path would become an empty archive.
 * @param to as in a job file; S3 is not checked @throws Fault `STORE_MISSING`, `LOCATION_INVALID` (usage)
 */
export async function assertDirectory(
  cwd: string,
  to: string,
  hint = 'Run the job first, or check `drop.to` in the job file.',
): Promise<void> {
  const location = parseLocation(to, cwd);
  if (location.kind === 's3') return;
  const found = await stat(location.path).catch(() => undefined);
  if (found?.isDirectory()) return;
  throw new Fault('STORE_MISSING', `there is no directory ${location.path}`, { hint });
}

/** What a schedule needs that several daemons share. @throws Fault `SETTING_MISSING` */
export function assertShareable({ name, schedule }: Job, hasRedis: boolean): void {
  if (!schedule?.distributed || hasRedis) return;
  throw usage(
    `the job ${name} has \`distributed: true\`, but FLOWDROP_REDIS_URL is not set`,
    'Set it, or FLOWDROP_REDIS_URL_FILE, to the Redis that the daemons share, or remove `schedule.distributed`.',
    'SETTING_MISSING',
  );
}

/** `alice@host`. A container's user may have no name. */
export function nameUser(): string {
  try {
    return `${userInfo().username}@${hostname()}`;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}@${hostname()}`;
  }
}
