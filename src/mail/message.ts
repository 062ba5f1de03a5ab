/**
 * The only place that turns our message into a MIME message. Invariant: both mailers produce the same bytes for the
 * same message, and no value can add a header or a recipient; with an allow-list of domains, no address outside it is
 * mailed, whatever a job file says. Delivers nothing.
 *
 * The contract of mail delivery. One call sends one message to one recipient, so that a refused address cannot cause a
 * second mail to another one. Implementations: `smtp.ts`, and below the directory of `.eml` files.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { SendMailOptions } from 'nodemailer';
import { hasErrorCode, writeWholeFile } from '../core/atomic-file.ts';
import { describeError, Fault } from '../core/errors.ts';

const LOCAL_AND_DOMAIN = String.raw`[^\s<>()[\]\\,;:"@\p{Cc}]+@[^\s<>()[\]\\,;:"@\p{Cc}]+`;
const NAME = String.raw`"(?:[^"\\\p{Cc}]|\\[^\p{Cc}])*"|[^"<>@,;:\\\p{Cc}]*`;
/**
 * `local@domain`, or `Name <local@domain>`. Stricter than RFC 5322 and than the tolerant parsers of mail libraries,
 * which guess at `de sk@example.com` and would mail someone else.
 */
const ADDRESS = new RegExp(`^(?:(?<bare>${LOCAL_AND_DOMAIN})|(?<name>${NAME}) *<(?<inner>${LOCAL_AND_DOMAIN})>)$`, 'u');
const CONTROL_CHARACTERS = /\p{Cc}+/gu;

/** @throws Fault `MAIL_ADDRESS_INVALID` (usage) if `from` or `to` is not exactly one plain address */
export function buildMailOptions(message: MailMessage): SendMailOptions {
  return {
    from: parseAddress('from', message.from),
    to: parseAddress('to', message.to),
    subject: message.subject.replace(CONTROL_CHARACTERS, ' '),
    messageId: `<${message.messageId.replace(/[<>\s\p{Cc}]/gu, '')}>`,
    date: message.date,
    text: message.text,
    html: message.html,
    attachments: [
      ...message.images.map((image) => ({
        cid: image.cid,
        filename: image.filename,
        content: Buffer.from(image.png),
        contentType: 'image/png',
        contentDisposition: 'inline' as const,
      })),
      ...message.attachments.map(({ filename, contentType, bytes }) => ({
        filename,
        content: Buffer.from(bytes),
        contentType,
        contentDisposition: 'attachment' as const,
      })),
    ],
    headers: {
      ...buildUnsubscribe(message.listUnsubscribe),
      // RFC 3834: holiday and other automatic replies must not answer this mail.
      'Auto-Submitted': 'auto-generated',
      // Exchange does not read RFC 3834.
      'X-Auto-Response-Suppress': 'All',
    },
    // With a random boundary, each repetition of the same mail would have different bytes.
    baseBoundary: createHash('sha256').update(message.messageId).digest('hex').slice(0, 16),
    // Content comes from memory only: a body must never make us read a file or fetch a URL.
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}

/** RFC 2369; for https also RFC 8058, which lets a mail program unsubscribe with one POST. */
function buildUnsubscribe(address: string | null): Record<string, { prepared: true; value: string } | string> {
  if (address === null) return {};
  // Prepared: folding or encoding would insert blanks into the address.
  const list = { prepared: true as const, value: `<${address.replace(/[<>\s\p{Cc}]/gu, '')}>` };
  if (!address.startsWith('https:')) return { 'List-Unsubscribe': list };
  return { 'List-Unsubscribe': list, 'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click' };
}

/** Parses `Name <local@domain>` or `local@domain`. @throws Fault `MAIL_ADDRESS_INVALID` (usage) */
export function parseAddress(field: 'from' | 'to', value: string) {
  const groups = ADDRESS.exec(value.trim())?.groups;
  const address = groups?.['bare'] ?? groups?.['inner'];
  if (address === undefined) {
    const what = `mail: ${field} is ${JSON.stringify(value)}, which is not one mail address`;
    const hint =
      field === 'from'
        ? 'Set FLOWDROP_MAIL_FROM to one address, as name@example.com or Name <name@example.com>.'
        : 'Write one address, as name@example.com or Name <name@example.com>; several recipients are several entries.';
    throw new Fault('MAIL_ADDRESS_INVALID', what, { kind: 'usage', hint });
  }
  const name = (groups?.['name'] ?? '').trim();
  return { name: name.startsWith('"') ? name.slice(1, -1).replace(/\\(.)/gu, '$1') : name, address };
}

const DOMAIN = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;

/** `example.com, desk.example.org`: exactly these, without their subdomains. @throws Fault `SETTING_INVALID` (usage) */
export function parseMailDomains(text: string): readonly string[] {
  const domains = text
    .split(',')
    .map((domain) => domain.trim().toLowerCase())
    .filter((domain) => domain !== '');
  const wrong = domains.find((domain) => !DOMAIN.test(domain));
  if (wrong === undefined && domains.length > 0) return domains;
  const what = `${JSON.stringify(text)}${wrong === undefined ? '' : `, and "${wrong}" is not a domain`}`;
  const hint = 'Separate domains with commas: example.com,desk.example.org.';
  throw new Fault('SETTING_INVALID', `FLOWDROP_MAIL_DOMAINS is ${what}`, { kind: 'usage', hint });
}

/** Restricts the mailer to these domains. */
export function restrictMailer(mailer: Mailer, domains: readonly string[]): Mailer {
  return {
    ...mailer,
    allowedDomains: domains,
    async send(message, options) {
      assertAllowedRecipients({ allowedDomains: domains }, [message.to]);
      return await mailer.send(message, options);
    },
  };
}

/** @throws Fault `MAIL_DOMAIN_REFUSED` (usage) that names every refused address */
export function assertAllowedRecipients(mailer: Pick<Mailer, 'allowedDomains'>, addresses: readonly string[]): void {
  const allowed = mailer.allowedDomains;
  if (allowed === undefined) return;
  const refused = addresses.filter((address) => !allowed.includes(domainOf(address)));
  if (refused.length === 0) return;
  const what = `FLOWDROP_MAIL_DOMAINS does not allow ${refused.join(', ')}; allowed: ${allowed.join(', ')}`;
  const hint = 'Take the address out of the job file, or add its domain to FLOWDROP_MAIL_DOMAINS.';
  throw new Fault('MAIL_DOMAIN_REFUSED', `no mail was sent: ${what}`, { kind: 'usage', hint });
}

/** The domain of an address with or without a name, in lower case. @throws Fault `MAIL_ADDRESS_INVALID` (usage) */
export function domainOf(address: string): string {
  const { address: bare } = parseAddress('to', address);
  return bare.slice(bare.lastIndexOf('@') + 1).toLowerCase();
}

/** @throws Fault `MAIL_ADDRESS_INVALID` (usage) */
export async function buildEml(message: MailMessage): Promise<Buffer> {
  const { createTransport } = await import('nodemailer');
  const transport = createTransport({ streamTransport: true, buffer: true, newline: 'windows' });
  const { message: eml } = await transport.sendMail(buildMailOptions(message));
  if (!Buffer.isBuffer(eml)) throw new TypeError('the message was not built in memory');
  return eml;
}

const CID_REFERENCE = /cid:([^"'\s)>&]+)/g;

/** Embeds the `cid:` images in the page, so that one file shows everything without a mail program. */
export function embedImages(html: string, images: readonly InlineImage[]): string {
  const byCid = new Map(images.map((image) => [image.cid, image]));
  return html.replace(CID_REFERENCE, (reference, cid: string) => {
    const image = byCid.get(cid);
    return image === undefined ? reference : `data:image/png;base64,${Buffer.from(image.png).toString('base64')}`;
  });
}

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

/**
 * `written`: it is in a folder, and the recipient has not received it. `refused` is final for this recipient (5xx); any
 * other failure is thrown as a `MailFault`.
 */
export interface MailOutcome {
  readonly status: 'sent' | 'written' | 'refused';
  readonly detail: string;
  /** The file of a mail in a folder, `.eml`; beside it is the page, `.html`. */
  readonly file?: string;
}

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
  /** Whether recipients receive what it takes. A folder does not deliver, unless the settings name it as the recipient. */
  readonly delivers: boolean;
  /** Allowed domains, lower case; absent: all. */
  readonly allowedDomains?: readonly string[];
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

const OUTBOX_HINT = 'The outbox must be a directory that this user can write, on a mounted disk with free space.';

/**
 * Writes mail to a directory: each message as an `.eml` file, and beside it as an `.html` page that opens in a browser
 * with its images. Invariant: the same Message-ID gives the same pair of files, so sending again is idempotent. The first
 * message creates the directory.
 */
export function openOutboxMailer(options: {
  readonly directory: string;
  /** Whether mail belongs there. Default: false, it waits there for a server. */
  readonly isRecipient?: boolean | undefined;
}): Mailer {
  const directory = resolve(options.directory);
  const delivers = options.isRecipient === true;
  const where = `${delivers ? '' : 'no SMTP server is set: '}mail is written to ${directory}`;
  return {
    url: directory,
    delivers,
    async send(message: MailMessage, { confirm }: SendOptions = {}): Promise<MailOutcome> {
      // Letters, digits, `.`, `_` and `-`: the name of a job, a date or `alert`, and a hash.
      const path = join(directory, message.messageId.split('@')[0] ?? '');
      const eml = await buildEml(message);
      await confirm?.();
      try {
        await writeWholeFile(`${path}.html`, embedImages(message.html, message.images));
        await writeWholeFile(`${path}.eml`, eml);
      } catch (cause) {
        throw new MailFault('settings', `mail: ${path}.eml was not written: ${describeError(cause)}`, {
          cause,
          hint: OUTBOX_HINT,
        });
      }
      return { status: delivers ? 'sent' : 'written', detail: `${path}.eml`, file: `${path}.eml` };
    },
    async verify(): Promise<string> {
      try {
        const found = await stat(directory);
        if (!found.isDirectory()) throw new TypeError('it is not a directory');
        await access(directory, constants.W_OK);
        return where;
      } catch (cause) {
        if (hasErrorCode(cause, 'ENOENT')) return `${where}, which the first mail creates`;
        throw new MailFault('settings', `mail: cannot write to ${directory}: ${describeError(cause)}`, {
          cause,
          hint: OUTBOX_HINT,
        });
      }
    },
    async close(): Promise<void> {},
  };
}
