/** Inputs and results of delivery: types only, for its callers and its own parts. */
import type { CalendarOverride } from '../calendar/session.ts';
import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import type { Engine } from '../engine/engine.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Mailer } from '../mail/mailer.ts';
import type { JobState } from '../state/job-state.ts';
import type { OnRunEvent } from '../state/run-events.ts';
import type { Store } from '../store/store.ts';

export interface DeliveredRecipient {
  readonly to: string;
  /** The next run mails `failed` ones, but never `refused` ones. */
  readonly outcome: 'sent' | 'refused' | 'failed';
  readonly detail: string;
  /** Path of a mail that was written to the outbox instead of sent. */
  readonly file?: string;
}

/** One report of one date. */
export interface Delivery {
  readonly report: string;
  readonly date: string;
  /** 0 if the date is not sealed or its report failed. */
  readonly revision: number;
  readonly subject: string;
  /** One per recipient still to be mailed. */
  readonly recipients: readonly DeliveredRecipient[];
  /** Recipients who received it before. */
  readonly alreadySent: number;
  /** Another worker is mailing it now. */
  readonly leftToOther: boolean;
  /** A newer session was over before this one was mailed. */
  readonly late: boolean;
  /** Due but not sealed: no mail is sent, and the operator is alerted. */
  readonly pending: boolean;
  /** Why recipients still to be mailed are skipped: an empty day, a condition, no change worth a mail; else null. */
  readonly skipped: string | null;
  /** Why the report of this date failed; else null. */
  readonly error: { readonly code: string; readonly message: string; readonly hint?: string } | null;
}

export interface DeliverOptions {
  /** Date to report on; default: the newest sealed one, and those of the lookback before it that were never mailed. */
  readonly date?: string | undefined;
  /** Mail only this recipient, even if already mailed. */
  readonly only?: string | undefined;
  /** Of the dates that are due, only these: an audit has restated them since the others were mailed. */
  readonly restated?: ReadonlySet<string> | undefined;
}

/** What delivery needs. No source, because it reads only sealed data. */
export interface DeliverContext {
  readonly engine: Engine;
  readonly store: Store;
  /** Of the job's own dataset. */
  readonly ledger: Ledger;
  readonly mailer: Mailer;
  readonly mailFrom: string;
  readonly clock: Clock;
  readonly calendar?: CalendarOverride | undefined;
  readonly log: Log;
  /** Masks secrets in a message that is stored. */
  readonly redact: (text: string) => string;
  readonly onEvent: OnRunEvent;
  readonly state: JobState;
  /** Folder of the MJML templates. */
  readonly templatesDir: string;
  /** Address of the status page for readers, without a slash at its end; `undefined` if they cannot reach it. */
  readonly publicUrl: string | undefined;
  readonly version: string;
  readonly signal?: AbortSignal | undefined;
}

/** Whether the next run must retry any of it. */
export function hasFailed({ recipients, error }: Delivery): boolean {
  return error !== null || recipients.some(({ outcome }) => outcome === 'failed');
}
