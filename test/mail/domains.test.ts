/** Settings of mail, and the allow-list of recipients' domains. That delivery asks it first is in `test/deliver/deliver.slow.test.ts`. */
import { describe, expect, test } from 'vitest';
import { assertAllowedRecipients, parseMailDomains, restrictMailer } from '../../src/mail/message.ts';
import { openSmtpMailer } from '../../src/mail/smtp.ts';
import { readRuled } from '../../src/settings/setting-list.ts';
import { buildMessage } from './fixture.ts';
import { startSmtpReceiver } from './smtp-receiver.ts';

describe('FLOWDROP_MAIL_DOMAINS', () => {
  test('is a list of domains, whatever its case and blanks', () => {
    expect(parseMailDomains(' Example.com,desk.example.org , ')).toEqual(['example.com', 'desk.example.org']);
  });

  test.each([',', '*.example.com', 'desk@example.com', 'example.com;example.org', '.com', 'exa mple.com'])(
    '%j is refused, with what is wrong',
    (text) => {
      expect(() => parseMailDomains(text)).toThrow(
        expect.objectContaining({
          code: 'SETTING_INVALID',
          kind: 'usage',
          message: expect.stringContaining(JSON.stringify(text)),
        }),
      );
    },
  );
});

describe('FLOWDROP_MAIL_RETRY_SECONDS', () => {
  const read = (text: string) => readRuled({ FLOWDROP_MAIL_RETRY_SECONDS: text }, 'FLOWDROP_MAIL_RETRY_SECONDS');

  test('may be a fraction of a second, none, or unset', () => {
    expect(['1.5', '0', ''].map(read)).toEqual([1.5, 0, undefined]);
  });

  test.each(['-1', 'ten', '5m', 'Infinity'])('%j is refused, with what is allowed', (text) => {
    expect(() => read(text)).toThrow(
      expect.objectContaining({ code: 'SETTING_INVALID', kind: 'usage', message: expect.stringContaining('seconds') }),
    );
  });
});

describe('recipients', () => {
  const allowedDomains = ['example.com'];

  test('of the allowed domains pass, in whatever case and with whatever name', () => {
    expect(assertAllowedRecipients({ allowedDomains }, ['a@example.com', 'Desk <b@EXAMPLE.com>'])).toBeUndefined();
  });

  test.each([
    'a@sub.example.com',
    'a@example.com.evil.example',
    'a@notexample.com',
    '"x@example.com" <a@evil.example>',
  ])('like %s do not', (address) => {
    expect(() => assertAllowedRecipients({ allowedDomains }, ['a@example.com', address])).toThrow(
      expect.objectContaining({ code: 'MAIL_DOMAIN_REFUSED', message: expect.stringContaining(address) }),
    );
  });

  test('are all allowed without a list', () => {
    expect(assertAllowedRecipients({}, ['a@anywhere.example'])).toBeUndefined();
  });

  test('that slip past the first look are stopped by the mailer itself', async () => {
    const receiver = await startSmtpReceiver();
    const mailer = restrictMailer(openSmtpMailer({ url: `smtp://127.0.0.1:${receiver.port}` }), allowedDomains);
    try {
      await expect(mailer.send(buildMessage({ to: 'a@evil.example' }))).rejects.toMatchObject({
        code: 'MAIL_DOMAIN_REFUSED',
      });
      expect(await mailer.send(buildMessage())).toMatchObject({ status: 'sent' });
      expect(receiver.messages.map(({ to }) => to)).toEqual(['desk@example.com']);
    } finally {
      await mailer.close();
      await receiver.close();
    }
  });
});
