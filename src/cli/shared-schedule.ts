/** Checks what a schedule needs that several daemons share, for both `start` and `doctor`. */
import { Fault } from '../core/errors.ts';
import type { Job } from '../job/job.ts';

/** @throws Fault `SETTING_MISSING` */
export function assertShareable({ name, schedule }: Job, hasRedis: boolean): void {
  if (!schedule?.distributed || hasRedis) return;
  throw new Fault('SETTING_MISSING', `the job ${name} has \`distributed: true\`, but FLOWDROP_REDIS_URL is not set`, {
    kind: 'usage',
    hint: 'Set it, or FLOWDROP_REDIS_URL_FILE, to the Redis that the daemons share, or remove `schedule.distributed`.',
  });
}
