/**
 * Reports as a user has them mailed, by processes that are killed, and previewed. The mail server is real and counts what
 * arrives; what delivery decides is in `test/deliver/deliver.slow.test.ts`, the mail itself in `test/mail`.
 */
import type { ChildProcess } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import type { SMTPServerOptions } from 'smtp-server';
import { beforeAll, expect, it } from 'vitest';
import { buildReply, type SmtpReceiver, startSmtpReceiver } from '../mail/smtp-receiver.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, listFiles, startService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { findFreePort } from '../support/server-process.ts';
import { pickNewest } from '../support/store-keys.ts';

const TO = ['a@example.com', 'b@example.com', 'c@example.com', 'd@example.com'] as const;

const REPORT = 'reports:\n  - template: flow\n    to: ';

let cwd: string;
let env: Readonly<Record<string, string>>;
const { cleanups, folder, keep } = useCleanups();

beforeAll(async () => {
  cwd = await folder();
  const service = await keep(startService(['--generate', '2', '--generate-rows', '500']));
  env = service.env;
});

const mailTo = ({ port }: SmtpReceiver) => ({ ...env, FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${port}` });

/** Kills the process when it comes to the second recipient: before the message is taken, or after. */
const MOMENTS: readonly {
  readonly when: string;
  readonly repeated: readonly string[];
  options(kill: () => void): SMTPServerOptions;
}[] = [
  {
    when: 'between two recipients goes on with the rest, and nobody gets it twice',
    repeated: [],
    options: (kill) => ({
      onRcptTo({ address }, _session, done) {
        if (address === TO[1]) kill();
        done();
      },
    }),
  },
  {
    when: 'before a message was answered repeats that one alone, under the same Message-ID',
    repeated: [TO[1]],
    options: (kill) => ({
      onData(stream, session, done) {
        const to = session.envelope.rcptTo.map(({ address }) => address).join();
        const chunks: Buffer[] = [];
        stream.on('data', (chunk: Buffer) => chunks.push(chunk));
        stream.on('end', () => {
          taken.push({ to, source: Buffer.concat(chunks) });
          if (to === TO[1]) kill();
          else done(null);
        });
      },
    }),
  },
];
let taken: { readonly to: string; readonly source: Buffer }[] = [];

it.each(MOMENTS)('a report whose process is killed $when', async ({ options, repeated }) => {
  taken = [];
  let child: ChildProcess | undefined;
  const receiver = await startSmtpReceiver(
    options(() => {
      child?.kill('SIGKILL');
      child = undefined;
    }),
  );
  cleanups.push(receiver.close);
  const name = `killed-${repeated.length}`;
  const job = await writeJob(cwd, { name, to: name, reports: `${REPORT}[${TO.join(', ')}]` });
  const killed = await flowdrop(['run', job], {
    cwd,
    env: mailTo(receiver),
    onStart: (started) => {
      child = started;
    },
  });
  expect(killed.code, killed.stderr).toBeNull();
  // The next process finds another server: the one that takes everything.
  const calm = await keep(startSmtpReceiver());
  await flowdrop(['run', job], { cwd, env: mailTo(calm), code: 0 });
  const all = [...receiver.messages, ...taken, ...calm.messages];
  expect(all.map(({ to }) => to).toSorted()).toEqual([...TO, ...repeated].toSorted());
  expect(calm.messages.map(({ to }) => to)).toEqual(TO.slice(1));
  const ids = await Promise.all(all.map(async ({ source }) => (await PostalMime.parse(source)).messageId));
  expect(new Set(ids).size).toBe(TO.length);
});

it('what was written to a folder is owed to a mail server: the newest is sent, older ones by a command', async () => {
  const job = await writeJob(cwd, { name: 'owed', to: 'owed-drops', reports: `${REPORT}[desk@example.com]` });
  const own = { ...env, FLOWDROP_OUTBOX_DIR: 'owed-mail' };
  const type = async (settings: Readonly<Record<string, string>>, ...args: readonly string[]) =>
    await flowdrop(args, { cwd, env: { ...own, ...settings }, code: 0 });
  const { dates } = JSON.parse((await type({}, '--json', 'plan', job)).stdout) as { dates: { date: string }[] };
  const [first = '', second = ''] = dates.map(({ date }) => date).toSorted();
  await type({}, 'backfill', job, '--from', first, '--to', first);
  await type({}, 'report', job);
  const written = await type({}, 'run', job);
  expect(written.stdout).toMatch(/ {2}written for desk@example\.com, not sent: \S+\.eml\n {4}to read it: \S+\.html\n/);
  expect(written.stdout).toContain('-> To send it, set FLOWDROP_SMTP_URL, then `flowdrop report owed`.');
  expect(written.stderr).toMatch(/"outcome":"written"/);
  expect(written.stderr).not.toMatch(/"outcome":"sent"| sent to desk/);
  expect((await type({}, 'runs', job, 'last')).stdout).toContain(`flow of ${second}: 1 written to a folder`);
  expect((await type({}, 'report', job)).stdout).toContain(`Written to a folder and not sent: ${second}\n`);

  const receiver = await keep(startSmtpReceiver());
  const server = mailTo(receiver);
  const mailed = async () =>
    await Promise.all(receiver.messages.map(async ({ source }) => (await PostalMime.parse(source)).messageId));
  const older = `Written to a folder and not sent: ${first}\n  -> To send one: \`flowdrop report owed --date ${first}\`\n`;
  const sent = await type(server, 'report', job);
  expect(sent.stdout).toContain('  sent desk@example.com: 250');
  expect(sent.stdout).toContain(older);
  expect((await type(server, 'run', job)).stdout).toContain(older);
  expect(await mailed()).toEqual([expect.stringContaining(`owed.${second}.r1.`)]);
  await type(server, 'report', job, '--date', first);
  expect(await mailed()).toEqual([expect.stringContaining(second), expect.stringContaining(`owed.${first}.r1.`)]);
  expect((await type(server, 'report', job)).stdout).toBe(
    `Report of ${second}: nothing left to mail (1 already received it).\n`,
  );
});

it('each try of a mail server that is busy or down says when the next is, for as long as --wait says', async () => {
  const job = await writeJob(cwd, { name: 'patient', to: 'patient-drops', reports: `${REPORT}[desk@example.com]` });
  await flowdrop(['run', job, '--no-report'], { cwd, env, code: 0 });
  let isBusy = true;
  const busy = await startSmtpReceiver({
    onRcptTo(_address, _session, done) {
      done(isBusy ? buildReply(450, 'not now') : null);
      isBusy = false;
    },
  });
  cleanups.push(busy.close);
  const waited = await flowdrop(['report', job, '--wait', '6s'], { cwd, env: mailTo(busy), code: 0 });
  expect(waited.stderr).toMatch(
    /mail to desk@example\.com was deferred; next try in \d\.\d s, the last within 6\.0 s: .*450/,
  );
  expect(waited.stdout).toContain('  sent desk@example.com: 250');
  const nowhere = { ...env, FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${await findFreePort()}` };
  const only = ['report', job, '--only', 'me@example.com', '--wait'];
  const failed = await flowdrop([...only, '0'], { cwd, env: nowhere, code: 1 });
  expect(failed.stdout).toMatch(/ {2}failed me@example\.com: .*ECONNREFUSED/);
  expect(failed.stdout).toContain('-> To try again: `flowdrop report patient`.');
  expect(failed.stderr).not.toContain('next try');
  const { stderr } = await flowdrop([...only, 'long'], { cwd, env: nowhere, code: 2 });
  expect(stderr).toContain('WAIT_INVALID: --wait is "long"; allowed is');
});

it('a folder that the settings name as the recipient has received what was written to it', async () => {
  const job = await writeJob(cwd, { name: 'kept', to: 'kept-drops', reports: `${REPORT}[desk@example.com]` });
  const own = { ...env, FLOWDROP_OUTBOX_DIR: 'kept-mail', FLOWDROP_SMTP_URL: 'folder' };
  const { stdout } = await flowdrop(['run', job], { cwd, env: own, code: 0 });
  expect(stdout).toMatch(/ {2}written for desk@example\.com: \S+kept-mail\S+\.eml\n/);
  expect(stdout).not.toContain('FLOWDROP_SMTP_URL');
  const receiver = await keep(startSmtpReceiver());
  const later = await flowdrop(['report', job], { cwd, env: mailTo(receiver), code: 0 });
  expect(later.stdout).toContain('nothing left to mail (1 already received it)');
  expect(receiver.messages).toEqual([]);
});

it('a broken receipt fails its own date, by name, and the next date is mailed', async () => {
  const job = await writeJob(cwd, { name: 'broken', to: 'broken-drops', reports: `${REPORT}[desk@example.com]` });
  const own = { ...env, FLOWDROP_OUTBOX_DIR: join(cwd, 'broken-mail') };
  expect((await flowdrop(['run', job, '--no-report'], { cwd, env: own })).code).toBe(0);
  const store = join(cwd, 'broken-drops');
  const dates = (await listFiles(join(store, 'trades'))).map((file) => file.slice('session='.length).slice(0, 10));
  const [first = '', second = ''] = [...new Set(dates)].toSorted();
  expect((await flowdrop(['report', job, '--date', first], { cwd, env: own })).code).toBe(0);
  const [receipt = ''] = pickNewest((await listFiles(store)).filter((file) => file.includes('/receipt/')));
  await writeFile(join(store, receipt), '{"report": "');
  const { stdout, stderr } = await flowdrop(['run', job], { cwd, env: own, code: 1 });
  expect(stdout + stderr).toContain(`${receipt} is not a receipt`);
  expect(stdout + stderr).toContain(`so the report of ${first} is mailed to nobody`);
  const mailed = (await listFiles(join(store, '_flowdrop', 'reports'))).filter((file) => file.endsWith('.eml'));
  expect(mailed.map((file) => /session=(.{10})/.exec(file)?.[1])).toEqual([first, second]);
});

it('report --preview writes a page with its pictures, the text, the message and its attachments, and mails nobody', async () => {
  const reports = `${REPORT}[desk@example.com]\n    attach: [csv]`;
  const job = await writeJob(cwd, { name: 'preview', to: 'preview-drops', reports });
  expect((await flowdrop(['run', job, '--no-report'], { cwd, env })).code).toBe(0);
  const preview = await flowdrop(['report', job, '--preview', 'shown'], { cwd, env, code: 0 });
  const files = await listFiles(join(cwd, 'shown'));
  expect(preview.stdout.trim().split('\n').toSorted()).toEqual(
    files.map((file) => join(cwd, 'shown', file)).toSorted(),
  );
  expect(files).toEqual(expect.arrayContaining(['flow-1.eml', 'flow-1.html', 'flow-1.txt']));
  expect(files.filter((file) => file.endsWith('.csv')).length).toBeGreaterThan(0);
  const texts = await Promise.all(files.map(async (file) => await readFile(join(cwd, 'shown', file), 'latin1')));
  expect(new Set(texts).size).toBe(texts.length);
  const html = await readFile(join(cwd, 'shown', 'flow-1.html'), 'utf8');
  expect(html).toContain('src="data:image/png;base64,');
  expect(html).not.toContain('cid:');
  const eml = await PostalMime.parse(await readFile(join(cwd, 'shown', 'flow-1.eml')));
  expect(eml.to).toMatchObject([{ address: 'desk@example.com' }]);
  expect(await listFiles(join(cwd, 'out', 'mail'))).toEqual([]);
  expect(await listFiles(join(cwd, 'preview-drops', '_flowdrop', 'reports'))).toEqual([]);
});
