/** The trial login of both mailers: what it finds, and that it sends nothing. Deliveries are in the files beside it. */

import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SMTPServerOptions } from 'smtp-server';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { openOutboxMailer } from '../../src/mail/outbox.ts';
import { openSmtpMailer } from '../../src/mail/smtp.ts';
import { startSmtpReceiver } from './smtp-receiver.ts';

const PASSWORD = 'p@ss w/ord:9';
const USER = `desk:${encodeURIComponent(PASSWORD)}@`;

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const resource of opened.splice(0).toReversed()) await resource.close();
});

async function receive(options: SMTPServerOptions = {}) {
  const receiver = await startSmtpReceiver(options);
  opened.push(receiver);
  return receiver;
}

function open(url: string, timeoutMs = 10_000) {
  const mailer = openSmtpMailer({ url, timeoutMs });
  opened.push(mailer);
  return mailer;
}

describe('a trial of the mail server', () => {
  const accept: NonNullable<SMTPServerOptions['onAuth']> = (auth, _session, done) =>
    auth.password === PASSWORD ? done(null, { user: 'desk' }) : done(new Error(`not ${auth.password}`));
  const login = { authOptional: false, allowInsecureAuth: true, onAuth: accept } satisfies SMTPServerOptions;

  test('logs in and sends nothing', async () => {
    const receiver = await receive(login);
    const mailer = open(`smtp://${USER}127.0.0.1:${receiver.port}`);
    expect(await mailer.verify()).toBe(
      `smtp://127.0.0.1:${receiver.port} answers and accepts the login (TLS: opportunistic)`,
    );
    expect(receiver.messages).toEqual([]);
  });

  test('needs no login where none is set', async () => {
    const receiver = await receive();
    expect(await open(`smtp://127.0.0.1:${receiver.port}`).verify()).toContain('no login is set');
  });

  test('finds a wrong password, and shows it in no form', async () => {
    const receiver = await receive(login);
    const wrong = 'wrong-4711';
    const failing = open(`smtp://desk:${wrong}@127.0.0.1:${receiver.port}`).verify();
    await expect(failing).rejects.toMatchObject({
      code: 'MAIL_FAILED',
      hint: expect.stringContaining('user and password'),
      message: expect.not.stringContaining(wrong),
    });
  });

  test('refuses a certificate that is not trusted, where TLS is required', async () => {
    const receiver = await receive({ ...login, disabledCommands: [] });
    const url = `smtp://${USER}127.0.0.1:${receiver.port}?tls=required`;
    await expect(open(url).verify()).rejects.toMatchObject({ hint: expect.stringContaining('NODE_EXTRA_CA_CERTS') });
  });

  test('of a server that says nothing ends by itself', async () => {
    const silent = createServer((socket) => {
      socket.on('error', () => {});
      opened.push({ close: async () => void socket.destroy() });
    });
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    opened.unshift({ close: () => new Promise((resolve) => silent.close(() => resolve())) });
    const address = silent.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    await expect(open(`smtp://127.0.0.1:${address.port}`, 200).verify()).rejects.toMatchObject({ code: 'MAIL_FAILED' });
  });

  test('of a port that nobody listens at says what to look at', async () => {
    await expect(open('smtp://127.0.0.1:9').verify()).rejects.toMatchObject({
      code: 'MAIL_FAILED',
      hint: expect.stringContaining('host and port'),
    });
  });
});

describe('a trial of the outbox', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'flowdrop-verify-'));
  });
  afterAll(async () => await rm(folder, { recursive: true, force: true }));

  test('makes nothing', async () => {
    const directory = join(folder, 'not', 'yet');
    expect(await openOutboxMailer({ directory }).verify()).toContain(`${directory}, which the first mail creates`);
    expect(await openOutboxMailer({ directory: folder }).verify()).toMatch(/is written to \S+$/);
    expect(await readdir(folder)).toEqual([]);
  });

  test('finds a file in its place', async () => {
    const directory = join(folder, 'file');
    await writeFile(directory, '');
    await expect(openOutboxMailer({ directory }).verify()).rejects.toMatchObject({ code: 'MAIL_FAILED' });
    await expect(openOutboxMailer({ directory: join(directory, 'below') }).verify()).rejects.toMatchObject({
      code: 'MAIL_FAILED',
    });
  });
});
