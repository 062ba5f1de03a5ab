/** What delivery takes and gives: types only, for those who call it and for its own parts. */
import type { CalendarOverride } from '../calendar/session.ts';
import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import type { Engine } from '../engine/engine.ts';
import type { Mailer } from '../mail/mailer.ts';
import type { JobState } from '../state/job-state.ts';
import type { OnRunEvent } from '../state/run-events.ts';
import type { Store } from '../store/store.ts';

export interface DeliveredRecipient {
  readonly to: string;
  /** `failed` ones are mailed by the next run, `refused` ones never again. */
  readonly outcome: 'sent' | 'refused' | 'failed';
  readonly detail: string;
  /** Of a mail that was written into the outbox in place of being sent. */
  readonly file?: string;
}

/** One report of one date. */
export interface Delivery {
  readonly report: string;
  readonly date: string;
  /** 0 for a date that is not sealed. */
  readonly revision: number;
  readonly subject: string;
  /** One per recipient who was still to be mailed. */
  readonly recipients: readonly DeliveredRecipient[];
  /** Recipients who had it already. */
  readonly alreadySent: number;
  /** Another worker is mailing it at the moment. */
  readonly leftToOther: boolean;
  /** A newer session was over before this one was mailed. */
  readonly late: boolean;
  /** Not sealed, though it is due: nobody is mailed, the operator is told. */
  readonly pending: boolean;
  /** Why recipients who were still to be mailed are not: an empty day, a condition, no change worth a mail; else null. */
  readonly skipped: string | null;
  /** Why the report of this date could not be made; else null. */
  readonly error: { readonly code: string; readonly message: string; readonly hint?: string } | null;
}

export interface DeliverOptions {
  /** Date to report on; default: the newest sealed one, and those of the lookback before it that were never mailed. */
  readonly date?: string | undefined;
  /** Mail only this recipient, again if need be. */
  readonly only?: string | undefined;
}

/** What delivery needs: no source, because it reads only what is sealed. */
export interface DeliverContext {
  readonly engine: Engine;
  readonly store: Store;
  readonly mailer: Mailer;
  readonly mailFrom: string;
  readonly clock: Clock;
  readonly calendar?: CalendarOverride | undefined;
  readonly log: Log;
  /** Masks secrets in a message that is kept. */
  readonly redact: (text: string) => string;
  readonly onEvent: OnRunEvent;
  readonly state: JobState;
  /** Folder of the MJML templates. */
  readonly templatesDir: string;
  readonly version: string;
  readonly signal?: AbortSignal | undefined;
}

/** Whether something of it is left to do that the next run tries again. */
export function hasFailed({ recipients, error }: Delivery): boolean {
  return error !== null || recipients.some(({ outcome }) => outcome === 'failed');
}
