/**
 * Links to objects for people without credentials: how long one may last. A link is a secret in itself, because whoever
 * has it can read that one object until it ends; so it goes to the reader it was made for, and into no log or manifest.
 */
import { Fault } from '../core/errors.ts';

export interface ObjectLink {
  readonly url: string;
  /** When it stops working: as asked for, or when the credentials that signed it end, if that is known and sooner. */
  readonly expiresAt: Date;
}

/** Seven days: S3 refuses a signature of version 4 that is to last longer. */
export const MAX_LINK_SECONDS = 7 * 86_400;

/** @throws Fault `LINK_INVALID` (usage) unless it is a whole number from 1 to `MAX_LINK_SECONDS` */
export function assertLinkSeconds(seconds: number): void {
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= MAX_LINK_SECONDS) return;
  throw new Fault(
    'LINK_INVALID',
    `a link to an object must last a whole number of seconds from 1 to ${MAX_LINK_SECONDS} (7 days), not ${seconds}`,
    { kind: 'usage', hint: 'Let the link expire after 7 days or less: S3 signs none that lasts longer.' },
  );
}
