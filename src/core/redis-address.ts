/**
 * The address of Redis for display. The setting may contain a password, so its value is never shown. It does not
 * connect.
 */
import { Fault } from './errors.ts';

/** Host and port, for people. @throws Fault `SETTING_INVALID` */
export function readRedisAddress(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed || !/^rediss?:$/.test(parsed.protocol) || parsed.hostname === '') {
    throw new Fault(
      'SETTING_INVALID',
      'FLOWDROP_REDIS_URL is not a Redis address; allowed is redis://user:password@host:6379/0, or rediss:// for TLS',
      { kind: 'usage' },
    );
  }
  return parsed.host;
}
