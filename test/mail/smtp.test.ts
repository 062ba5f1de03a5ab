/** Delivery over SMTP in real conversations. What the message looks like inside is tested in `message.test.ts`. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { SMTPServerOptions } from 'smtp-server';
import { afterEach, describe, expect, test } from 'vitest';
import type { Mailer, SendOptions } from '../../src/mail/message.ts';
import { openSmtpMailer, parseSmtpUrl } from '../../src/mail/smtp.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { buildMessage } from './fixture.ts';
import { buildReply, startSmtpReceiver } from './smtp-receiver.ts';

const PASSWORD = 'p@ss w/ord:9';
const USER = `desk:${encodeURIComponent(PASSWORD)}@`;
const STARTTLS = { disabledCommands: [] } satisfies SMTPServerOptions;

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const resource of opened.splice(0).toReversed()) await resource.close();
});

async function receive(options: SMTPServerOptions = {}) {
  const receiver = await startSmtpReceiver(options);
  opened.push(receiver);
  return receiver;
}

/** A server that only a test could write. @returns its port */
async function listen(onSocket: (socket: Socket) => void): Promise<number> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket.on('error', () => {}));
    onSocket(socket);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  opened.push({
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  });
  return (server.address() as AddressInfo).port; // It listens, so it has a port.
}

function openMailer(url: string, timeoutMs = 10_000): Mailer {
  const mailer = openSmtpMailer({ url, timeoutMs });
  opened.push(mailer);
  return mailer;
}

/** The fault, after a look that nothing in it shows the password. */
async function sendToFault(mailer: Mailer) {
  const fault: unknown = await mailer.send(buildMessage()).then(
    (outcome) => outcome,
    (error: unknown) => error,
  );
  if (!(fault instanceof Error)) throw new Error(`expected a fault, got ${JSON.stringify(fault)}`);
  const everything = JSON.stringify(fault, [...Object.getOwnPropertyNames(fault), 'message', 'stack', 'cause']);
  const encoded = Buffer.from(PASSWORD).toString('base64');
  for (const form of [PASSWORD, encodeURIComponent(PASSWORD), encoded]) expect(everything).not.toContain(form);
  return fault;
}

describe('smtp delivery', () => {
  test('an accepted message is sent, with the answer of the server', async () => {
    const receiver = await receive();
    const mailer = openMailer(`smtp://127.0.0.1:${receiver.port}`);
    expect(mailer.url).toBe(`smtp://127.0.0.1:${receiver.port}`);
    expect(await mailer.send(buildMessage())).toEqual({
      status: 'sent',
      detail: expect.stringMatching(/^250 .*queued/),
    });
    expect(receiver.messages.map(({ to }) => to)).toEqual(['desk@example.com']);
  });

  test.each([
    ['554 looks like spam', {}],
    ['552 too large', { size: 1000 }],
  ])('a message that is refused for good after DATA is an outcome: %s', async (reply, options) => {
    const receiver = await receive({
      ...options,
      onData(stream, _session, done) {
        stream.resume().on('end', () => done(buildReply(Number(reply.slice(0, 3)), reply.slice(4))));
      },
    });
    const outcome = await openMailer(`smtp://127.0.0.1:${receiver.port}`).send(buildMessage());
    expect(outcome).toEqual({ status: 'refused', detail: expect.stringContaining(reply.slice(4)) });
  });

  test.each([
    ['recipient', { onRcptTo: (_address, _session, done) => done(buildReply(451, 'greylisted')) }],
    [
      'message',
      { onData: (stream, _session, done) => stream.resume().on('end', () => done(buildReply(452, 'greylisted'))) },
    ],
  ] satisfies [string, SMTPServerOptions][])(
    'a %s that is refused for now is a fault to send again',
    async (_which, options) => {
      const receiver = await receive(options);
      const fault = await sendToFault(openMailer(`smtp://127.0.0.1:${receiver.port}`));
      const hint = expect.stringContaining('again');
      expect(fault).toMatchObject({ code: 'MAIL_FAILED', fate: 'later', kind: 'failed', hint });
      expect(fault.message).toContain('greylisted');
    },
  );

  test('a sender that is refused is a fault about the settings, not the recipient’s outcome', async () => {
    const receiver = await receive({ onMailFrom: (_address, _session, done) => done(buildReply(553, 'not yours')) });
    const fault = await sendToFault(openMailer(`smtp://127.0.0.1:${receiver.port}`));
    const hint = expect.stringContaining('FLOWDROP_MAIL_FROM');
    expect(fault).toMatchObject({ code: 'MAIL_FAILED', fate: 'settings', hint });
  });

  test.each([
    ['accepts DATA like any command', '250 ok'],
    ['accepts DATA like any command, and the message at once,', '250 ok', {}],
    ['answers before it can have the message', '354 go on\r\n250 queued'],
  ])(
    'a server that %s has taken no mail',
    async (_what, reply, options: SendOptions = { confirm: async () => await delay(50) }) => {
      const port = await listen((socket) => {
        socket.write('220 here\r\n');
        socket.on('data', (chunk) => socket.write(`${String(chunk).startsWith('DATA') ? reply : '250 ok'}\r\n`));
      });
      const sent = openMailer(`smtp://127.0.0.1:${port}`).send(buildMessage(), options);
      await expect(sent).rejects.toMatchObject({
        code: 'MAIL_FAILED',
        hint: expect.stringContaining('FLOWDROP_SMTP_URL'),
      });
    },
  );

  test('a port where nobody listens is a fault that names the setting', async () => {
    const receiver = await startSmtpReceiver();
    await receiver.close();
    const fault = await sendToFault(openMailer(`smtp://${USER}127.0.0.1:${receiver.port}`));
    const hint = expect.stringContaining('FLOWDROP_SMTP_URL');
    expect(fault).toMatchObject({ code: 'MAIL_FAILED', fate: 'unreachable', hint });
  });

  test('a server that never greets is given up after the time-out, also by a trial', async () => {
    const port = await listen((socket) => socket.resume());
    const fault = await sendToFault(openMailer(`smtp://127.0.0.1:${port}`, 100));
    const hint = expect.stringContaining('did not answer in time');
    expect(fault).toMatchObject({ code: 'MAIL_FAILED', fate: 'unreachable', hint });
    await expect(openMailer(`smtp://127.0.0.1:${port}`, 200).verify()).rejects.toMatchObject({ code: 'MAIL_FAILED' });
  });

  test('a connection that breaks within the message is a fault, and nothing was delivered', async () => {
    const receiver = await receive();
    const proxy = await startTcpProxy({ host: '127.0.0.1', port: receiver.port });
    opened.push(proxy);
    proxy.breakWith({ direction: 'request', afterBytes: 1500, lasting: false });
    const mailer = openMailer(`smtp://127.0.0.1:${proxy.port}`);
    expect(await sendToFault(mailer)).toMatchObject({ code: 'MAIL_FAILED' });
    expect(receiver.messages).toEqual([]);
    expect(await mailer.send(buildMessage())).toMatchObject({ status: 'sent' });
  });
});

describe('a message that its sender confirms', () => {
  test('ends only then: the server has not accepted it before', async () => {
    const receiver = await receive();
    const mailer = openMailer(`smtp://127.0.0.1:${receiver.port}`);
    const accepted: number[] = [];
    const confirm = async () => {
      // All of it is on its way but the end, so nothing is left that the answer could wait for.
      await new Promise((resolve) => setImmediate(resolve));
      accepted.push(receiver.messages.length);
    };
    expect(await mailer.send(buildMessage(), { confirm })).toMatchObject({ status: 'sent' });
    expect([...accepted, receiver.messages.length]).toEqual([0, 1]);
  });

  test('is not delivered when the sender takes it back, and the next one is', async () => {
    const receiver = await receive();
    const mailer = openMailer(`smtp://127.0.0.1:${receiver.port}`);
    await mailer.send(buildMessage({ to: 'a@example.com' }));
    const reason = new RangeError('somebody else mails it');
    const taken = mailer.send(buildMessage({ to: 'b@example.com' }), { confirm: () => Promise.reject(reason) });
    await expect(taken).rejects.toBe(reason);
    await mailer.send(buildMessage({ to: 'c@example.com' }));
    expect(receiver.messages.map(({ to }) => to)).toEqual(['a@example.com', 'c@example.com']);
  });
});

describe('a connection', () => {
  test('serves many messages, whatever became of each', async () => {
    const receiver = await receive({
      onRcptTo({ address }, _session, done) {
        done(address === 'gone@example.com' ? buildReply(550, 'no such user') : null);
      },
    });
    const mailer = openMailer(`smtp://127.0.0.1:${receiver.port}`);
    const outcomes: object[] = [];
    for (const to of ['a@example.com', 'gone@example.com', 'b@example.com', 'c@example.com'])
      outcomes.push(await mailer.send(buildMessage({ to })));
    const refused = { status: 'refused', detail: expect.stringContaining('no such user') };
    expect(outcomes).toMatchObject([{ status: 'sent' }, refused, { status: 'sent' }, { status: 'sent' }]);
    expect(receiver.messages.map(({ to }) => to)).toEqual(['a@example.com', 'b@example.com', 'c@example.com']);
    expect(receiver.connections()).toBe(1);
  });

  test('that the server closed between two messages is made again, and nothing is sent twice', async () => {
    const receiver = await receive();
    const mailer = openMailer(`smtp://127.0.0.1:${receiver.port}`);
    await mailer.send(buildMessage({ to: 'a@example.com' }));
    receiver.drop();
    expect(await mailer.send(buildMessage({ to: 'b@example.com' }))).toMatchObject({ status: 'sent' });
    expect(receiver.messages.map(({ to }) => to)).toEqual(['a@example.com', 'b@example.com']);
  });

  test('that breaks before all of a large message was handed over has certainly not delivered it', async () => {
    const receiver = await receive({
      onData: (stream) => void stream.once('data', () => receiver.drop()),
    });
    // Far more than the buffers of both ends take.
    const bytes = new Uint8Array(32_000_000);
    const attachments = [{ filename: 'large.bin', contentType: 'application/octet-stream', bytes }];
    const sent = openMailer(`smtp://127.0.0.1:${receiver.port}`).send(buildMessage({ attachments }));
    await expect(sent).rejects.toMatchObject({ code: 'MAIL_FAILED', fate: 'unreachable' });
  });

  test('that breaks or falls silent after the whole message may have delivered it', async () => {
    for (const isBroken of [true, false]) {
      const receiver = await receive({
        onData: (stream) => void stream.resume().once('end', () => isBroken && receiver.drop()),
      });
      const sent = openMailer(`smtp://127.0.0.1:${receiver.port}`, 500).send(buildMessage());
      await expect(sent).rejects.toMatchObject({ fate: 'unknown', hint: expect.stringContaining('Message-ID') });
    }
  });
});

test('a trial of the mail server needs no login where none is set', async () => {
  const receiver = await receive();
  expect(await openMailer(`smtp://127.0.0.1:${receiver.port}`).verify()).toContain('no login is set');
});

describe('smtp login', () => {
  const onAuth: NonNullable<SMTPServerOptions['onAuth']> = (auth, _session, done) => {
    if (auth.username === 'desk' && auth.password === PASSWORD) done(null, { user: 'desk' });
    else done(buildReply(535, `wrong password ${auth.password}`));
  };

  test('user and password of the URL are used, unescaped', async () => {
    const receiver = await receive({ authOptional: false, allowInsecureAuth: true, onAuth });
    const mailer = openMailer(`smtp://${USER}127.0.0.1:${receiver.port}`);
    expect(mailer.url).not.toContain('desk');
    expect(await mailer.send(buildMessage())).toMatchObject({ status: 'sent' });
  });

  test('a wrong password is a fault with its own hint, and stays hidden even when the server repeats it', async () => {
    const refuse: typeof onAuth = (auth, _session, done) => done(buildReply(535, `wrong password ${auth.password}`));
    const receiver = await receive({ authOptional: false, allowInsecureAuth: true, onAuth: refuse });
    const fault = await sendToFault(openMailer(`smtp://${USER}127.0.0.1:${receiver.port}`));
    expect(fault).toMatchObject({
      code: 'MAIL_FAILED',
      fate: 'settings',
      hint: expect.stringContaining('user and password'),
    });
    expect(fault.message).toContain('[secret]');
  });

  test('a server that wants a login and gets none is a fault, not a refusal', async () => {
    const receiver = await receive({ authOptional: false, allowInsecureAuth: true, onAuth });
    expect(await sendToFault(openMailer(`smtp://127.0.0.1:${receiver.port}`))).toMatchObject({ code: 'MAIL_FAILED' });
  });
});

describe('smtp encryption', () => {
  test('on loopback STARTTLS is used when offered, whatever the certificate', async () => {
    const receiver = await receive(STARTTLS);
    expect(await openMailer(`smtp://127.0.0.1:${receiver.port}`).send(buildMessage())).toMatchObject({
      status: 'sent',
    });
    expect(receiver.messages.map(({ isEncrypted }) => isEncrypted)).toEqual([true]);
  });

  test.each([
    ['a self-signed certificate', 'smtp:', STARTTLS, { fate: 'settings', hint: /NODE_EXTRA_CA_CERTS/ }],
    ['a server without STARTTLS', 'smtp:', {}, { fate: 'settings', hint: /tls=none/ }],
    ['a self-signed certificate', 'smtps:', { secure: true }, { fate: 'settings', hint: /certificate/ }],
  ])('where it is required, %s is sent nothing over %s', async (_what, scheme, options, { fate, hint }) => {
    const receiver = await receive(options);
    const tls = scheme === 'smtp:' ? '?tls=required' : '';
    const fault = await sendToFault(openMailer(`${scheme}//${USER}127.0.0.1:${receiver.port}${tls}`));
    expect(fault).toMatchObject({ code: 'MAIL_FAILED', fate, hint: expect.stringMatching(hint) });
    expect(receiver.messages).toEqual([]);
  });

  test('tls=none does not encrypt even when it could', async () => {
    const receiver = await receive(STARTTLS);
    await openMailer(`smtp://127.0.0.1:${receiver.port}?tls=none`).send(buildMessage());
    expect(receiver.messages.map(({ isEncrypted }) => isEncrypted)).toEqual([false]);
  });
});

describe('an SMTP URL', () => {
  test.each([
    ['smtp://mail.example.com', 'mail.example.com', 587, 'required'],
    ['smtps://mail.example.com', 'mail.example.com', 465, 'implicit'],
    ['smtp://mail.example.com:25?tls=none', 'mail.example.com', 25, 'none'],
    ['smtp://localhost:1025', 'localhost', 1025, 'opportunistic'],
    ['smtp://[::1]:1025/', '::1', 1025, 'opportunistic'],
    ['smtp://127.0.0.1?tls=required', '127.0.0.1', 587, 'required'],
    ['smtp://a%40b:c%2Fd@h', 'h', 587, 'required', { user: 'a@b', password: 'c/d' }],
    // A name that only looks like loopback is another machine.
    ['smtp://localhost.example.com', 'localhost.example.com', 587, 'required'],
  ] as const)('%s is understood', (url, host, port, encryption, auth: object | undefined = undefined) => {
    expect(parseSmtpUrl(url)).toEqual({ host, port, encryption, auth });
  });

  test.each([
    '',
    'mail.example.com',
    'http://u:topsecret@h',
    'smtp://',
    'smtp://u:topsecret@h:99999',
    'smtp://u:top%secret@h',
    'smtp://u:topsecret/x@h',
    'smtp://u:topsecret@h?tls=maybe',
    'smtp://u:topsecret@h?rejectUnauthorized=false',
    'smtps://u:topsecret@h?tls=none',
  ])('%j is refused without showing it', (url) => {
    const message = expect.not.stringMatching(/topsecret|top%secret/);
    expect(() => openSmtpMailer({ url })).toThrow(
      expect.objectContaining({ code: 'SMTP_URL_INVALID', kind: 'usage', message }),
    );
  });
});
