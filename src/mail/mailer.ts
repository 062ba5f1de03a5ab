/**
 * The contract of mail delivery. One call is one message to one recipient, so that one refused address cannot make
 * another get a mail twice. Implementations: `smtp.ts` and `outbox.ts` (a directory of `.eml` files).
 */
import { Fault } from '../core/errors.ts';

export interface InlineImage {
  /** Content id without angle brackets, as `cid:` refers to it. */
  readonly cid: string;
  readonly filename: string;
  readonly png: Uint8Array;
}

export interface MailAttachment {
  readonly filename: string;
  readonly contentType: string;
  readonly bytes: Uint8Array;
}

export interface MailMessage {
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly html: string;
  readonly text: string;
  readonly images: readonly InlineImage[];
  readonly attachments: readonly MailAttachment[];
  /** `mailto:` or `https:` address for List-Unsubscribe (RFC 2369, RFC 8058); null for no such header. */
  readonly listUnsubscribe: string | null;
  /** Stable for job, date, revision and recipient, so that mail systems can recognise a repetition. */
  readonly messageId: string;
  readonly date: Date;
}

/** Refused is final for this recipient (5xx); a failure that may pass is thrown as a `Fault`. */
export type MailOutcome =
  | {
      readonly status: 'sent';
      readonly detail: string;
      /** Where mail is not sent but written: the file. Nobody has got it by that. */
      readonly file?: string;
    }
  | { readonly status: 'refused'; readonly detail: string };

export interface SendOptions {
  /**
   * Asked when all of the message is handed over but its end, so that as little time as can be lies between its answer and
   * the mail. When it throws, nothing was delivered, and `send` throws the same.
   */
  readonly confirm?: (() => Promise<void>) | undefined;
}

export interface Mailer {
  /** Where mail goes, for people: host and port, or a directory. Never has credentials in it. */
  readonly url: string;
  /** Domains that may be mailed, lower case; absent: all. */
  readonly allowedDomains?: readonly string[];
  /** How long a run may wait, all in all, to try again what was put off; absent: the default of delivery. */
  readonly patienceMs?: number | undefined;
  /** Not idempotent: each call is a mail. @throws MailFault when it was not delivered, or nobody knows whether it was */
  send(message: MailMessage, options?: SendOptions): Promise<MailOutcome>;
  /**
   * Connects, encrypts and logs in as a delivery would, or looks at the directory, and sends nothing. Idempotent.
   * @returns what was seen, for people @throws Fault `MAIL_FAILED`
   */
  verify(): Promise<string>;
  close(): Promise<void>;
}

/**
 * What became of a message that was not answered with yes or a final no.
 * - `later`: the server will not take it now; certainly not delivered
 * - `unreachable`: no server, or none that stayed until the message was handed over; certainly not delivered
 * - `settings`: not delivered, and it will not be until somebody mends something
 * - `unknown`: all of it was handed over, and no answer came: it may have been delivered
 */
export type MailFate = 'later' | 'unreachable' | 'settings' | 'unknown';

export class MailFault extends Fault {
  override readonly name = 'MailFault';
  readonly fate: MailFate;

  constructor(fate: MailFate, message: string, options: { readonly hint: string; readonly cause?: unknown }) {
    super('MAIL_FAILED', message, options);
    this.fate = fate;
  }
}
