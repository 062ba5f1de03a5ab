/**
 * Writes mail to a directory: each message as an `.eml` file, and beside it as an `.html` page that opens in a browser
 * with its images. Invariants: the same Message-ID gives the same pair of files, so sending again is idempotent. All
 * messages go to the directory that existed first, so none is lost in the mount point of a disk unmounted meanwhile.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { hasErrorCode, writeWholeFile } from '../core/atomic-file.ts';
import { describeError } from '../core/errors.ts';
import {
  buildEml,
  embedImages,
  type Mailer,
  MailFault,
  type MailMessage,
  type MailOutcome,
  type SendOptions,
} from './message.ts';

/** Leaves room for the hash, the extension and a temporary suffix in the 255 bytes of a file name. */
const MAX_NAME_CHARACTERS = 180;
const OUTBOX_HINT = 'The outbox must be a directory that this user can write, on a mounted disk with free space.';

/** The first message creates the directory. */
export function openOutboxMailer(options: { readonly directory: string }): Mailer {
  const directory = resolve(options.directory);
  const first = readFolderId(directory);
  let seen: string | undefined;
  /** @throws TypeError if another directory has taken its place */
  const assertSame = async () => {
    seen ??= await first;
    const now = await readFolderId(directory);
    if (seen !== undefined && now !== seen) throw new TypeError(`${directory} is no longer the same directory`);
    return now;
  };
  return {
    url: directory,
    async send(message: MailMessage, { confirm }: SendOptions = {}): Promise<MailOutcome> {
      const path = join(directory, formatOutboxName(message.messageId));
      const eml = await buildEml(message);
      await confirm?.();
      try {
        await assertSame();
        await writeWholeFile(`${path}.html`, embedImages(message.html, message.images));
        await writeWholeFile(`${path}.eml`, eml);
        seen = await assertSame();
      } catch (cause) {
        throw new MailFault('settings', `mail: ${path}.eml was not written: ${describeError(cause)}`, {
          cause,
          hint: OUTBOX_HINT,
        });
      }
      return { status: 'sent', detail: `${path}.eml`, file: `${path}.eml` };
    },
    async verify(): Promise<string> {
      try {
        const found = await stat(directory);
        if (!found.isDirectory()) throw new TypeError('it is not a directory');
        await access(directory, constants.W_OK);
        return `no SMTP server is set: mail is written to ${directory}`;
      } catch (cause) {
        if (hasErrorCode(cause, 'ENOENT'))
          return `no SMTP server is set: mail is written to ${directory}, which the first mail creates`;
        throw new MailFault('settings', `mail: cannot write to ${directory}: ${describeError(cause)}`, {
          cause,
          hint: OUTBOX_HINT,
        });
      }
    },
    async close(): Promise<void> {},
  };
}

/** Identifies a directory, even if another one has the same path; `undefined` if it does not exist. */
async function readFolderId(path: string): Promise<string | undefined> {
  const found = await stat(path).catch(() => undefined);
  return found && `${found.dev}:${found.ino}`;
}

/** File name without extension for a Message-ID: its local part, or a safe form of it with a hash. */
export function formatOutboxName(messageId: string): string {
  const local = messageId.split('@')[0] ?? '';
  const safe = local
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^\.+/, '')
    .slice(0, MAX_NAME_CHARACTERS);
  if (safe !== '' && safe === local) return safe;
  return `${safe || 'message'}-${createHash('sha256').update(messageId).digest('hex').slice(0, 16)}`;
}
