/** A message like the report's: text, HTML with two pictures, and letters outside ASCII. */
import type { MailMessage } from '../../src/mail/message.ts';

/** The smallest PNG: one transparent pixel. */
export const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==',
  'base64',
);

export function buildMessage(changes: Partial<MailMessage> = {}): MailMessage {
  return {
    from: 'Flow Desk <flow@example.com>',
    to: 'desk@example.com',
    subject: 'SPY flow 2026-11-19: premium €1.24B ▲',
    html: `<html><body><h1>Größe ▲</h1><img src="cid:gex"><img src='cid:gex2'><p>${'long '.repeat(400)}</p></body></html>`,
    text: `Größe ▲\n.a line that begins with a dot\n${'long '.repeat(400)}\n`,
    images: [
      { cid: 'gex', filename: 'gex.png', png: PIXEL },
      { cid: 'gex2', filename: 'größe 2.png', png: new Uint8Array([...PIXEL, 0]) },
    ],
    attachments: [],
    listUnsubscribe: null,
    messageId: 'nightly.2026-11-19.r1.0123456789abcdef@example.com',
    date: new Date('2026-11-19T22:30:00Z'),
    ...changes,
  };
}
