/** Builds the bytes of an `.eml` file, the same that a server gets. Pure except for the library's streams. */
import { createTransport } from 'nodemailer';
import type { MailMessage } from './mailer.ts';
import { buildMailOptions } from './message.ts';

/** @throws Fault `MAIL_ADDRESS_INVALID` (usage) */
export async function buildEml(message: MailMessage): Promise<Buffer> {
  const transport = createTransport({ streamTransport: true, buffer: true, newline: 'windows' });
  const { message: eml } = await transport.sendMail(buildMailOptions(message));
  if (!Buffer.isBuffer(eml)) throw new TypeError('the message was not built in memory');
  return eml;
}
