/**
 * Mail into a directory: each message as an `.eml` file, and beside it as an `.html` page that opens in a browser with
 * its pictures. Invariant: the same Message-ID is the same pair of files, so that sending again is idempotent.
 */
import { createHash } from 'node:crypto';
import { join, resolve } from 'node:path';
import { createTransport } from 'nodemailer';
import { writeFileAtomic } from '../core/atomic-file.ts';
import { describeError, Fault } from '../core/errors.ts';
import type { Mailer, MailMessage, MailOutcome } from './mailer.ts';
import { buildMailOptions } from './message.ts';
import { embedImages } from './page.ts';

export interface OutboxOptions {
  /** Where the files go; created with the first message. */
  readonly directory: string;
}

/** Leaves room for the extension and a temporary suffix in the 255 bytes of a file name. */
const MAX_NAME_CHARACTERS = 180;

export function openOutboxMailer(options: OutboxOptions): Mailer {
  const directory = resolve(options.directory);
  const transport = createTransport({ streamTransport: true, buffer: true, newline: 'windows' });
  return {
    url: directory,
    async send(message: MailMessage): Promise<MailOutcome> {
      const mail = buildMailOptions(message);
      const path = join(directory, formatOutboxName(message.messageId));
      try {
        const { message: eml } = await transport.sendMail(mail);
        if (!Buffer.isBuffer(eml)) throw new TypeError('the message was not built in memory');
        await writeFileAtomic(`${path}.html`, embedImages(message.html, message.images));
        await writeFileAtomic(`${path}.eml`, eml);
      } catch (cause) {
        throw new Fault('MAIL_FAILED', `mail: ${path}.eml was not written: ${describeError(cause)}`, {
          cause,
          hint: 'The outbox must be a directory in which this user may write, on a disk with room.',
        });
      }
      return { status: 'sent', detail: `${path}.eml` };
    },
    async close(): Promise<void> {
      transport.close();
    },
  };
}

/** File name without extension for a Message-ID: its local part, with a hash where that part is not safe as it is. */
export function formatOutboxName(messageId: string): string {
  const local = messageId.split('@')[0] ?? '';
  const safe = local
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^\.+/, '')
    .slice(0, MAX_NAME_CHARACTERS);
  if (safe !== '' && safe === local) return safe;
  return `${safe || 'message'}-${createHash('sha256').update(messageId).digest('hex').slice(0, 16)}`;
}
