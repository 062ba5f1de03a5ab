/**
 * The contract of mail delivery. One call is one message to one recipient, so that one refused address cannot make
 * another get a mail twice. Implementations: `smtp.ts` and `outbox.ts` (a directory of `.eml` files).
 */

export interface InlineImage {
  /** Content id without angle brackets, as `cid:` refers to it. */
  readonly cid: string;
  readonly filename: string;
  readonly png: Uint8Array;
}

export interface MailMessage {
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly html: string;
  readonly text: string;
  readonly images: readonly InlineImage[];
  /** Stable for job, date, revision and recipient, so that mail systems can recognise a repetition. */
  readonly messageId: string;
  readonly date: Date;
}

/** Refused is final for this recipient (5xx); a failure that may pass is thrown as a `Fault`. */
export type MailOutcome =
  | { readonly status: 'sent'; readonly detail: string }
  | { readonly status: 'refused'; readonly detail: string };

export interface Mailer {
  /** Where mail goes, for people: host and port, or a directory. Never has credentials in it. */
  readonly url: string;
  /** Not idempotent: each call is a mail. @throws Fault `MAIL_FAILED` when delivery may succeed later */
  send(message: MailMessage): Promise<MailOutcome>;
  close(): Promise<void>;
}
