/** The trial of both mailers where `cli/doctor` does not show it. Deliveries are in the files beside it. */

import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SMTPServerOptions } from 'smtp-server';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { openOutboxMailer } from '../../src/mail/message.ts';
import { openSmtpMailer } from '../../src/mail/smtp.ts';
import { startSmtpReceiver } from './smtp-receiver.ts';

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
  test('needs no login where none is set', async () => {
    const receiver = await receive();
    expect(await open(`smtp://127.0.0.1:${receiver.port}`).verify()).toContain('no login is set');
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
