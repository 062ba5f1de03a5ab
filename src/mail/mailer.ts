/**
 * The contract of mail delivery. One call sends one message to one recipient, so that a refused address cannot cause a
 * second mail to another one. Implementations: `smtp.ts` and `outbox.ts` (a directory of `.eml` files).
 */
import { Fault } from '../core/errors.ts';

export interface InlineImage {
  /** Content id without angle brackets, as in the `cid:` reference. */
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
  /** `mailto:` or `https:` address for List-Unsubscribe (RFC 2369, RFC 8058); null: no such header. */
  readonly listUnsubscribe: string | null;
  /** Stable for job, date, revision and recipient, so that mail systems can recognise a repetition. */
  readonly messageId: string;
  readonly date: Date;
}

/** `refused` is final for this recipient (5xx); any other failure is thrown as a `MailFault`. */
export type MailOutcome =
  | {
      readonly status: 'sent';
      readonly detail: string;
      /** The file, if mail is written instead of sent. Then the recipient has not received it. */
      readonly file?: string;
    }
  | { readonly status: 'refused'; readonly detail: string };

export interface SendOptions {
  /**
   * Called when all of the message but its end is handed over, to keep the time between the answer and the mail as
   * short as possible. If it throws, nothing was delivered, and `send` throws the same error.
   */
  readonly confirm?: (() => Promise<void>) | undefined;
}

export interface Mailer {
  /** Where mail goes, for people: scheme, host and port, or a directory. Never contains credentials. */
  readonly url: string;
  /** Allowed domains, lower case; absent: all. */
  readonly allowedDomains?: readonly string[];
  /** Total time that a run may wait between retries of deferred mail; absent: the default in `deliver/`. */
  readonly patienceMs?: number | undefined;
  /** Not idempotent: each call is a mail. @throws MailFault if it was not delivered, or its delivery is unknown */
  send(message: MailMessage, options?: SendOptions): Promise<MailOutcome>;
  /**
   * Connects, encrypts and logs in like a delivery, or checks the directory, and sends nothing. Idempotent.
   * @returns what was found, for people @throws Fault `MAIL_FAILED`
   */
  verify(): Promise<string>;
  close(): Promise<void>;
}

/**
 * The fate of a message that was neither accepted nor finally refused.
 * - `later`: the server deferred it; certainly not delivered
 * - `unreachable`: no server, or the connection broke before the message was handed over; certainly not delivered
 * - `settings`: not delivered, and not deliverable until someone fixes the settings, the server or the directory
 * - `unknown`: the whole message was handed over, but no answer came: it may have been delivered
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
