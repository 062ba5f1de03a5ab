/** What became of the reports of a run. */

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

/** Whether the next run must retry any of it. */
export function hasFailed({ recipients, error }: Delivery): boolean {
  return error !== null || recipients.some(({ outcome }) => outcome === 'failed');
}
