/**
 * Conversations with a real mail server, Debian's postfix, over STARTTLS, and what it delivered as Python's `email` reads it.
 * The certificate must be trusted to be used, so the product runs as a process of its own, with the authority that a user
 * would give it. A mail's inside in detail is in `message.test.ts`, servers that fail are in `smtp.test.ts`.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { openSmtpMailer } from '../../src/mail/smtp.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, startService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { type DeliveredMail, type PostfixServer, startPostfix } from '../support/postfix-server.ts';
import { buildMessage } from './fixture.ts';

const postfix = await startPostfix();
const TO = ['desk@example.com', 'gone@example.com', '{ address: quant@example.com, symbols: [QQQ] }'];
const REPORTS = `reports:
  - template: flow
    to: [${TO.join(', ')}]
    symbols: [SPY]
    attach: [csv]
    unsubscribe: https://example.com/unsubscribe?list=flow`;

let cwd: string;
let env: Readonly<Record<string, string>>;
let job: string;
const { cleanups, folder } = useCleanups();

// Skipped only where postfix cannot be had, which `support/postfix-server.ts` says aloud; CI never skips it.
describe.skipIf(postfix.server === undefined)('through postfix', () => {
  let server: PostfixServer;

  beforeAll(async () => {
    if (postfix.server === undefined) throw new Error(postfix.reason);
    server = postfix.server;
    const url = `smtp://localhost:${server.port}?tls=required`;
    cleanups.push(() => server.stop());
    cwd = await folder();
    const service = await startService(['--generate', '1', '--generate-rows', '2000']);
    cleanups.push(() => service.stop());
    env = { ...service.env, FLOWDROP_MAIL_FROM: 'Flow Desk <flow@example.org>', FLOWDROP_SMTP_URL: url };
    job = await writeJob(cwd, { reports: REPORTS });
    const run = await flowdrop(['run', job, '--no-report'], { cwd, env });
    expect(run.code, run.stderr).toBe(0);
  });

  test('nothing is sent when its certificate is not trusted, and the hint says what to give', async () => {
    const report = await flowdrop(['report', job], { cwd, env });
    expect(report.code, report.stdout).toBe(1);
    expect(report.stdout).toContain('NODE_EXTRA_CA_CERTS');
    expect(await server.mails(0)).toEqual([]);
    expect(await server.log()).not.toContain('status=sent');
  });

  describe('with its authority trusted', () => {
    let mails: readonly DeliveredMail[];
    let outcomes: Readonly<Record<string, string>>;
    beforeAll(async () => {
      const trusted = { ...env, NODE_EXTRA_CA_CERTS: server.caFile };
      const report = await flowdrop(['--json', 'report', job], { cwd, env: trusted });
      const [delivery] = JSON.parse(report.stdout) as { recipients: { to: string; outcome: string }[] }[];
      outcomes = Object.fromEntries((delivery?.recipients ?? []).map(({ to, outcome }) => [to, outcome]));
      mails = await server.mails(2);
    });

    test('each recipient has the outcome that the server gave it, and one mail at most', async () => {
      expect(outcomes).toEqual({
        'desk@example.com': 'sent',
        'gone@example.com': 'refused',
        'quant@example.com': 'sent',
      });
      expect(mails.map(({ recipient }) => recipient).toSorted()).toEqual(['desk@example.com', 'quant@example.com']);
    });

    test('every conversation was encrypted, and all mails went over one connection', async () => {
      const ends = (await server.log()).split('\n').filter((line) => /disconnect from .* data=/.test(line));
      expect(ends).toEqual([expect.stringMatching(/starttls=1 mail=3 rcpt=2\/3 data=2/)]);
    });

    test('a mail is whole: text, page, pictures and attachment, without a defect', async () => {
      const [mail] = mails.filter(({ recipient }) => recipient === 'desk@example.com');
      const parts = mail?.parts ?? [];
      expect(mail?.defects).toEqual([]);
      expect(parts.slice(0, 2).map(({ type }) => type)).toEqual(['text/plain', 'text/html']);
      const html = parts[1]?.content ?? '';
      const pictures = parts.filter(({ type }) => type === 'image/png');
      expect(pictures.length).toBeGreaterThan(0);
      for (const { cid, disposition, content } of pictures) {
        expect(html).toContain(`cid:${cid?.slice(1, -1)}`);
        expect(disposition).toBe('inline');
        expect(content).toMatch(/^89504e470d0a1a0a/);
      }
      const attached = parts.filter(({ disposition }) => disposition === 'attachment');
      expect(attached.length).toBeGreaterThan(0);
      // The full report, then the tables.
      expect(attached.map(({ type, filename }) => [type, filename?.split('.').at(-1)])).toEqual([
        ['text/html', 'html'],
        ...attached.slice(1).map(() => ['text/csv', 'csv']),
      ]);
    });

    test('its headers are what mail systems go by', () => {
      for (const mail of mails) {
        const headers = Object.fromEntries(mail.headers);
        expect(headers).toMatchObject({
          From: 'Flow Desk <flow@example.org>',
          To: mail.recipient,
          'List-Unsubscribe': '<https://example.com/unsubscribe?list=flow>',
          'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
          'Auto-Submitted': 'auto-generated',
        });
        for (const name of ['Message-ID', 'Date', 'Subject'])
          expect(mail.headers.filter(([key]) => key.toLowerCase() === name.toLowerCase())).toHaveLength(1);
      }
      const ids = mails.map((mail) => Object.fromEntries(mail.headers)['Message-ID']);
      expect(new Set(ids).size).toBe(2);
    });

    test('a recipient outside FLOWDROP_MAIL_DOMAINS keeps everybody from being mailed, by name', async () => {
      const restricted = { ...env, NODE_EXTRA_CA_CERTS: server.caFile, FLOWDROP_MAIL_DOMAINS: 'example.org' };
      const refused = await flowdrop(['report', job, '--only', 'boss@example.com'], { cwd, env: restricted });
      expect(refused.code, refused.stdout).toBe(2);
      expect(refused.stderr).toMatch(/FLOWDROP_MAIL_DOMAINS does not allow boss@example\.com.*allowed: example\.org/s);
      expect(await server.mails(0)).toHaveLength(2);
    });
  });

  test('a recipient that it refuses for now may be tried again', async () => {
    const mailer = openSmtpMailer({ url: `smtp://127.0.0.1:${server.port}` });
    const later = mailer.send(buildMessage({ to: 'later@example.com' }));
    await expect(later).rejects.toMatchObject({ fate: 'later', message: expect.stringContaining('come again later') });
    await mailer.close();
  });
});
