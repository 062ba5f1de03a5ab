/**
 * Links to objects for people without credentials, and how long a link may last. A link is a secret: anyone who has it
 * can read that one object until it expires. It goes only to its intended reader, never into a log or manifest.
 */
import { Fault } from '../core/errors.ts';

export interface ObjectLink {
  readonly url: string;
  /** When it expires: as requested, or when the credentials that signed it expire, if that is known and sooner. */
  readonly expiresAt: Date;
}

/** Seven days: S3 refuses version 4 signatures that last longer. */
export const MAX_LINK_SECONDS = 7 * 86_400;

/** @throws Fault `LINK_INVALID` (usage) unless it is a whole number from 1 to `MAX_LINK_SECONDS` */
export function assertLinkSeconds(seconds: number): void {
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= MAX_LINK_SECONDS) return;
  throw new Fault(
    'LINK_INVALID',
    `a link to an object must last a whole number of seconds from 1 to ${MAX_LINK_SECONDS} (7 days), not ${seconds}`,
    { kind: 'usage', hint: 'Let the link expire after 7 days or less: S3 signs no longer links.' },
  );
}
