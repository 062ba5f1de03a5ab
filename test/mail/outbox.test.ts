/** Mail into a directory. The message itself is tested in `message.test.ts`. */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { beforeEach, expect, test } from 'vitest';
import { embedImages, openOutboxMailer } from '../../src/mail/message.ts';
import { useCleanups } from '../support/cleanups.ts';
import { buildMessage, PIXEL } from './fixture.ts';

const { folder } = useCleanups();
let directory: string;
beforeEach(async () => {
  directory = await folder();
});

test('the outbox has the mail as .eml, and a page with its pictures in it', async () => {
  const mailer = openOutboxMailer({ directory: join(directory, 'new') });
  const path = join(directory, 'new/nightly.2026-11-19.r1.0123456789abcdef');
  expect(await mailer.send(buildMessage())).toEqual({ status: 'written', detail: `${path}.eml`, file: `${path}.eml` });
  const eml = await readFile(`${path}.eml`);
  const parsed = await PostalMime.parse(eml);
  expect(parsed.subject).toBe(buildMessage().subject);
  expect(parsed.attachments).toHaveLength(2);
  expect(eml.toString('latin1')).not.toMatch(/[^\r]\n/);
  const html = await readFile(`${path}.html`, 'utf8');
  expect(html).not.toContain('cid:');
  expect(html).toContain(`src="data:image/png;base64,${PIXEL.toString('base64')}"`);
  await mailer.close();
});

test('sending the same Message-ID again leaves the same two files, byte for byte', async () => {
  const mailer = openOutboxMailer({ directory });
  await mailer.send(buildMessage());
  const read = async () =>
    Promise.all((await readdir(directory)).toSorted().map((name) => readFile(join(directory, name))));
  const before = await read();
  await mailer.send(buildMessage());
  expect(before).toHaveLength(2);
  expect(await read()).toEqual(before);
});

test('an outbox that cannot be written is a fault, and a trial of it finds the file in its place', async () => {
  const file = join(directory, 'file');
  await writeFile(file, '');
  for (const path of [file, join(file, 'below')]) {
    const mailer = openOutboxMailer({ directory: path });
    await expect(mailer.send(buildMessage())).rejects.toMatchObject({ code: 'MAIL_FAILED', hint: expect.any(String) });
    await expect(mailer.verify()).rejects.toMatchObject({ code: 'MAIL_FAILED' });
  }
});

test('a reference to a picture that is not in the mail is left as it is', () => {
  expect(embedImages('<img src="cid:other">', [{ cid: 'oth', filename: 'a.png', png: PIXEL }])).toBe(
    '<img src="cid:other">',
  );
});

test('a message that its sender takes back is not written', async () => {
  const mailer = openOutboxMailer({ directory });
  const reason = new RangeError('somebody else mails it');
  await expect(mailer.send(buildMessage(), { confirm: () => Promise.reject(reason) })).rejects.toBe(reason);
  expect(await readdir(directory)).toEqual([]);
});

test('a trial of the outbox makes nothing', async () => {
  const missing = join(directory, 'not', 'yet');
  expect(await openOutboxMailer({ directory: missing }).verify()).toContain(`${missing}, which the first mail creates`);
  expect(await openOutboxMailer({ directory }).verify()).toMatch(/is written to \S+$/);
  expect(await readdir(directory)).toEqual([]);
});
