/**
 * The MIME message, as it arrives at a server and as an independent reader sees it, postal-mime. As Python's `email` reads
 * whole reports: `postfix.external.test.ts`.
 */
import PostalMime from 'postal-mime';
import { describe, expect, test } from 'vitest';
import type { MailMessage } from '../../src/mail/message.ts';
import { buildMailOptions } from '../../src/mail/message.ts';
import { openSmtpMailer } from '../../src/mail/smtp.ts';
import { buildMessage, PIXEL } from './fixture.ts';
import { startSmtpReceiver } from './smtp-receiver.ts';

async function deliver(message: MailMessage): Promise<{ readonly to: string; readonly source: Buffer }> {
  const receiver = await startSmtpReceiver();
  const mailer = openSmtpMailer({ url: `smtp://127.0.0.1:${receiver.port}` });
  try {
    await mailer.send(message);
    const [received] = receiver.messages;
    if (received === undefined) throw new Error('nothing arrived');
    return received;
  } finally {
    await mailer.close();
    await receiver.close();
  }
}

describe('a mail as it arrives', () => {
  test('has text, HTML and pictures for postal-mime, equal to what was sent', async () => {
    const message = buildMessage();
    const { source } = await deliver(message);
    // The tree that mail programs expect.
    const types = source.toString().match(/(?<=^Content-Type: )[a-z/]+/gim);
    const related = ['multipart/related', 'text/html', 'image/png', 'image/png'];
    expect(types).toEqual(['multipart/alternative', 'text/plain', ...related]);
    // No longer than SMTP allows.
    for (const line of source.toString('latin1').split('\r\n')) expect(line.length).toBeLessThanOrEqual(998);
    const parsed = await PostalMime.parse(source);
    expect(parsed.text?.replaceAll('\r\n', '\n').trimEnd()).toBe(message.text.trimEnd());
    expect(parsed.html?.replaceAll('\r\n', '\n').trimEnd()).toBe(message.html);
    expect(parsed.subject).toBe(message.subject);
    expect(parsed.from).toMatchObject({ name: 'Flow Desk', address: 'flow@example.com' });
    expect(parsed.to).toMatchObject([{ address: 'desk@example.com' }]);
    expect(parsed.messageId).toBe(`<${message.messageId}>`);
    expect(new Date(parsed.date ?? '')).toEqual(message.date);
    expect(parsed.headers).toContainEqual(expect.objectContaining({ key: 'auto-submitted', value: 'auto-generated' }));
    expect(parsed.attachments.map(({ contentId, filename, mimeType }) => ({ contentId, filename, mimeType }))).toEqual([
      { contentId: '<gex>', filename: 'gex.png', mimeType: 'image/png' },
      { contentId: '<gex2>', filename: 'größe 2.png', mimeType: 'image/png' },
    ]);
    const [first] = parsed.attachments;
    expect(Buffer.from(first?.content as ArrayBuffer)).toEqual(PIXEL); // postal-mime gives an ArrayBuffer unless asked otherwise.
  });

  test('has its attachments beside text and pictures, under their names and types', async () => {
    const attachments = [
      {
        filename: 'symbols.csv',
        contentType: 'text/csv; charset=utf-8',
        bytes: Buffer.from('symbol,premium\r\nSPY,1\r\n'),
      },
      { filename: 'größe.pdf', contentType: 'application/pdf', bytes: new Uint8Array([0, 1, 2, 255]) },
    ];
    const { source } = await deliver(buildMessage({ attachments }));
    const parsed = await PostalMime.parse(source, { attachmentEncoding: 'arraybuffer' });
    const attached = parsed.attachments.filter(({ disposition }) => disposition === 'attachment');
    expect(attached.map(({ filename, mimeType }) => [filename, mimeType])).toEqual([
      ['symbols.csv', 'text/csv'],
      ['größe.pdf', 'application/pdf'],
    ]);
    expect(attached.map(({ content }) => Buffer.from(content as ArrayBuffer).toString('hex'))).toEqual(
      attachments.map(({ bytes }) => Buffer.from(bytes).toString('hex')),
    );
    expect(parsed.attachments.filter(({ disposition }) => disposition === 'inline')).toHaveLength(2);
  });

  test.each([
    [null, undefined, undefined],
    ['mailto:off@example.com?subject=unsubscribe', '<mailto:off@example.com?subject=unsubscribe>', undefined],
    ['https://example.com/off?u=1', '<https://example.com/off?u=1>', 'List-Unsubscribe=One-Click'],
    [
      `https://example.com/${'long/'.repeat(60)}`,
      `<https://example.com/${'long/'.repeat(60)}>`,
      'List-Unsubscribe=One-Click',
    ],
    [
      'https://example.com/>\r\nBcc: spy@evil.example',
      '<https://example.com/Bcc:spy@evil.example>',
      'List-Unsubscribe=One-Click',
    ],
  ])('whose unsubscribe address is %j says so as RFC 2369 and RFC 8058 ask', async (listUnsubscribe, list, post) => {
    const parsed = await PostalMime.parse((await deliver(buildMessage({ listUnsubscribe }))).source);
    const header = (name: string) => parsed.headers.find(({ key }) => key === name)?.value;
    expect([header('list-unsubscribe'), header('list-unsubscribe-post')]).toEqual([list, post]);
    expect(parsed.bcc ?? []).toEqual([]);
  });

  test.each([
    ['subject', { subject: 'x\r\nBcc: spy@evil.example\r\n\r\n<b>body</b>' }],
    ['display name', { from: '"x; Bcc: spy@evil.example" <flow@example.com>' }],
    ['Message-ID', { messageId: 'a@b>\r\nBcc: spy@evil.example\r\nX: <c@d' }],
    ['file name', { images: [{ cid: 'gex', filename: 'a"\r\nBcc: spy@evil.example.png', png: PIXEL }] }],
    ['content id', { images: [{ cid: 'gex>\r\nBcc: spy@evil.example', filename: 'a.png', png: PIXEL }] }],
  ] satisfies [string, Partial<MailMessage>][])('gets no header from its %s', async (_field, changes) => {
    const { source, to } = await deliver(buildMessage(changes));
    expect(to).toBe('desk@example.com');
    const parsed = await PostalMime.parse(source);
    expect(parsed.bcc ?? []).toEqual([]);
    expect(source.toString()).not.toMatch(/^Bcc:/im);
    expect(parsed.text).toContain('Größe');
  });

  test('is the same bytes each time it is sent', async () => {
    // The server's trace header is not part of the message that was sent.
    const [first, second] = [await deliver(buildMessage()), await deliver(buildMessage())];
    expect(first.source.equals(second.source)).toBe(true);
  });
});

describe('an address', () => {
  test.each([
    '',
    'desk',
    'desk@',
    '@example.com',
    'a@example.com, b@example.com',
    'a@example.com; b@example.com',
    'desk@example.com\r\nBcc: spy@evil.example',
    'desk@example.com>\r\nRCPT TO:<spy@evil.example',
    'de sk@example.com',
    '"x\r\nBcc: spy@evil.example" <desk@example.com>',
    'Desk, Flow <desk@example.com>',
    'Desk <desk@example.com> <spy@evil.example>',
    'a@evil.example <desk@example.com>',
    'list: a@example.com, b@example.com;',
  ])('%j is refused as a recipient', (to) => {
    expect(() => buildMailOptions(buildMessage({ to }))).toThrow(
      expect.objectContaining({ code: 'MAIL_ADDRESS_INVALID', kind: 'usage', hint: expect.any(String) }),
    );
  });

  test.each([
    ['desk@example.com', { name: '', address: 'desk@example.com' }],
    ['Flow Desk <flow+nightly@example.com>', { name: 'Flow Desk', address: 'flow+nightly@example.com' }],
    ['"Desk \\"A\\"" <flow@example.com>', { name: 'Desk "A"', address: 'flow@example.com' }],
    ['<flow@example.com>', { name: '', address: 'flow@example.com' }],
    ['"Desk, Flow" <flow@example.com>', { name: 'Desk, Flow', address: 'flow@example.com' }],
    ['Größe <größe@exämple.com>', { name: 'Größe', address: 'größe@exämple.com' }],
  ])('%s is understood', (to, address) => {
    expect(buildMailOptions(buildMessage({ to })).to).toEqual(address);
  });
});
