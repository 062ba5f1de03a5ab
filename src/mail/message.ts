/**
 * The one place that turns a message of ours into a MIME message. Invariant: both mailers send the same bytes for the
 * same message, and no value can add a header or a recipient. Pure; it delivers nothing.
 */
import { createHash } from 'node:crypto';
import type { SendMailOptions } from 'nodemailer';
import parseAddresses from 'nodemailer/lib/addressparser';
import { Fault } from '../core/errors.ts';
import type { MailMessage } from './mailer.ts';

/** An address as SMTP takes it without extensions: no spaces, brackets, quotes or control characters. */
const PLAIN_ADDRESS = /^[^\s<>()[\]\\,;:"@\p{Cc}]+@[^\s<>()\\,;:"@\p{Cc}]+$/u;
const CONTROL_CHARACTERS = /\p{Cc}+/gu;

export interface MailAddress {
  readonly name: string;
  readonly address: string;
}

/** @throws Fault `MAIL_ADDRESS_INVALID` (usage) when an address is not exactly one plain address */
export function buildMailOptions(message: MailMessage): SendMailOptions {
  return {
    from: parseAddress('from', message.from),
    to: parseAddress('to', message.to),
    subject: message.subject.replace(CONTROL_CHARACTERS, ' '),
    messageId: formatMessageId(message.messageId),
    date: message.date,
    text: message.text,
    html: message.html,
    attachments: message.images.map((image) => ({
      cid: image.cid,
      filename: image.filename,
      content: Buffer.from(image.png),
      contentType: 'image/png',
      contentDisposition: 'inline',
    })),
    headers: {
      // RFC 3834: holiday and other automatic replies must not answer this mail.
      'Auto-Submitted': 'auto-generated',
      // Exchange does not read RFC 3834.
      'X-Auto-Response-Suppress': 'All',
    },
    // A random boundary would make every repetition of the same mail another file.
    baseBoundary: createHash('sha256').update(message.messageId).digest('hex').slice(0, 16),
    // Content comes from memory only: a body must never be able to name a file or an address to fetch.
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}

/** Reads `Name <local@domain>` or `local@domain`. @throws Fault `MAIL_ADDRESS_INVALID` (usage) */
export function parseAddress(field: 'from' | 'to', value: string): MailAddress {
  const parsed = parseAddresses(value, { flatten: true });
  const [only] = parsed;
  if (parsed.length !== 1 || only === undefined || !PLAIN_ADDRESS.test(only.address)) {
    throw new Fault(
      'MAIL_ADDRESS_INVALID',
      `mail: ${field} is ${JSON.stringify(value)}, which is not one mail address`,
      {
        kind: 'usage',
        hint: 'Write one address, as name@example.com or Name <name@example.com>; several recipients are several entries.',
      },
    );
  }
  return { name: only.name.replace(CONTROL_CHARACTERS, ' ').trim(), address: only.address };
}

function formatMessageId(messageId: string): string {
  return `<${messageId.replace(/[<>\s\p{Cc}]/gu, '')}>`;
}
