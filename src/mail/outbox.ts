/**
 * Mail into a directory: each message as an `.eml` file, and beside it as an `.html` page that opens in a browser with
 * its pictures. Invariant: the same Message-ID is the same pair of files, so that sending again is idempotent.
 */
import { createHash } from 'node:crypto';
import { join, resolve } from 'node:path';
import { createTransport } from 'nodemailer';
import { writeFileAtomic } from '../core/atomic-file.ts';
import { describeError, Fault } from '../core/errors.ts';
import type { InlineImage, Mailer, MailMessage, MailOutcome } from './mailer.ts';
import { buildMailOptions } from './message.ts';

export interface OutboxOptions {
  /** Where the files go; created with the first message. */
  readonly directory: string;
}

/** Leaves room for the extension and a temporary suffix in the 255 bytes of a file name. */
const MAX_NAME_CHARACTERS = 180;
const CID_REFERENCE = /cid:([^"'\s)>&]+)/g;

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

/** The page with its `cid:` pictures written into it, so that one file shows everything without a mail program. */
export function embedImages(html: string, images: readonly InlineImage[]): string {
  const byCid = new Map(images.map((image) => [image.cid, image]));
  return html.replace(CID_REFERENCE, (reference, cid: string) => {
    const image = byCid.get(cid);
    return image === undefined ? reference : `data:image/png;base64,${Buffer.from(image.png).toString('base64')}`;
  });
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
