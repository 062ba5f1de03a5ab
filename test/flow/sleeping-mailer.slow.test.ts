/**
 * A process that mails is stopped (SIGSTOP, as a machine that sleeps or a container that is frozen), another worker takes
 * over, and the first one wakes up. The processes, the mail server and the stores are real; the other worker's clock is
 * moved, so that nobody waits for a lease. What a process that is killed leaves is in `report-delivery.slow.test.ts`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import type { SMTPServerOptions } from 'smtp-server';
import { beforeAll, describe, expect, it } from 'vitest';
import { startSmtpReceiver } from '../mail/smtp-receiver.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, MAIN, startService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createMovedClock } from '../support/moved-clock.ts';
import { s3Environment, startS3 } from '../support/s3-server.ts';

const TO = ['a@example.com', 'b@example.com', 'c@example.com', 'd@example.com'] as const;
/** Longer than any lease. */
const NIGHT_MS = 3_600_000;

const { server: s3 } = await startS3();
const { cleanups, folder, keep } = useCleanups();

let cwd: string;
let env: Readonly<Record<string, string>>;
const STORES = [
  { isMissing: false, to: () => join(cwd, 'drops') },
  { isMissing: s3 === undefined, to: () => `s3://${s3?.bucket}/sleeping-${process.pid}` },
] as const;

beforeAll(async () => {
  cwd = await folder();
  const service = await keep(startService(['--generate', '1', '--generate-rows', '200']));
  env = { ...service.env, ...(s3 && s3Environment(s3)) };
  for (const { to, isMissing } of STORES) {
    if (isMissing) continue;
    const job = await writeJob(cwd, { name: 'sealing', to: to() });
    for (const args of [
      ['run', job, '--no-report'],
      ['verify', job, '--deep'],
    ]) {
      await flowdrop(args, { cwd, env, code: 0 });
    }
  }
});

interface Taken {
  readonly to: string;
  readonly source: Buffer;
}

const nothing = () => undefined;

interface Telling {
  readonly onBytes?: (to: string) => void;
  readonly onEnd?: (to: string) => void;
}

/** Accepts everything, and tells of the message's first bytes and of its end. */
function receive(taken: Taken[], { onBytes = nothing, onEnd = nothing }: Telling = {}): SMTPServerOptions {
  return {
    onData(stream, session, done) {
      const to = session.envelope.rcptTo.map(({ address }) => address).join();
      const chunks: Buffer[] = [];
      stream.once('data', () => onBytes(to));
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        taken.push({ to, source: Buffer.concat(chunks) });
        onEnd(to);
        done(null, 'queued');
      });
    },
  };
}

/** When `stop` is called. @param taken what the server has accepted */
const MOMENTS = {
  'before the first recipient': (stop, taken) => ({
    ...receive(taken),
    onMailFrom(_address, _session, done) {
      stop();
      done();
    },
  }),
  'after the first recipient': (stop, taken) => ({
    ...receive(taken),
    onRcptTo({ address }, _session, done) {
      if (address === TO[1]) stop();
      done();
    },
  }),
  'in the middle of a message': (stop, taken) => receive(taken, { onBytes: (to) => to === TO[1] && stop() }),
  // Nobody can know: the server has it, and the process that was told so sleeps.
  'between the end of a message and its answer': (stop, taken) =>
    receive(taken, { onEnd: (to) => to === TO[1] && stop() }),
} satisfies Record<string, (stop: () => void, taken: Taken[]) => SMTPServerOptions>;
type Moment = keyof typeof MOMENTS;

/** Mails the report on a machine of its own, until the server stops the process. */
async function fallAsleep(job: string, moment: Moment, taken: Taken[], more = {}) {
  let stop: () => void = nothing;
  const receiver = await keep(startSmtpReceiver(MOMENTS[moment](() => stop(), taken)));
  const run = runOn(job, 'sleeper', receiver.port, more);
  cleanups.push(async () => void run.child.kill('SIGKILL'));
  const stopped = new Promise<'stopped'>((resolve) => {
    stop = () => {
      run.child.kill('SIGSTOP');
      stop = nothing;
      resolve('stopped');
    };
  });
  expect(await Promise.race([stopped, run.ended]), run.said()).toBe('stopped');
  return {
    child: run.child,
    /** @returns its exit code */
    async wake() {
      run.child.kill('SIGCONT');
      return { code: await run.ended, said: run.said() };
    },
  };
}

function runOn(job: string, machine: string, smtpPort: number, more: Readonly<Record<string, string>>) {
  const home = { PATH: process.env['PATH'] ?? '', HOME: cwd, TZ: 'UTC' };
  const mail = { FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${smtpPort}`, FLOWDROP_STATE_DIR: join(cwd, machine) };
  const args = [MAIN, 'report', job, '--json'];
  const child = spawn(process.execPath, args, { cwd, env: { ...home, ...env, ...mail, ...more } });
  let said = '';
  child.stdout.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  const ended = once(child, 'close').then(([code]) => code as number | null);
  return { child, ended, said: () => said };
}

/** The other worker, by whose clock the night is over; while it looks whether the first one lives, time leaps again. */
async function takeOver(job: string, taken: Taken[]): Promise<void> {
  const receiver = await startSmtpReceiver(receive(taken));
  const clock = await createMovedClock(await folder(), Date.now() + NIGHT_MS);
  const { child, ended, said } = runOn(job, 'other', receiver.port, clock.env);
  child.stderr.on('data', (chunk: Buffer) => {
    if (chunk.includes('mail-watched')) void clock.moveTo(clock.now() + NIGHT_MS, child.pid);
  });
  expect(await ended, said()).toBe(0);
  await receiver.close();
}

let jobs = 0;
async function writeReportJob(to: string): Promise<string> {
  jobs += 1;
  return await writeJob(cwd, {
    name: `job-${jobs}`,
    to,
    reports: `reports:\n  - template: flow\n    to: [${TO.join(', ')}]`,
  });
}

const recipients = (taken: readonly Taken[]) => taken.map(({ to }) => to).toSorted();

/** Another worker mails the report while this one sleeps at the moment. */
async function expectOnce(job: string, moment: Moment): Promise<void> {
  const taken: Taken[] = [];
  const sleeper = await fallAsleep(job, moment, taken);
  await takeOver(job, taken);
  expect(recipients(taken)).toEqual(TO);
  const { code, said } = await sleeper.wake();
  expect(code, said).toBe(0);
  expect(said).toContain('"leftToOther": true');
  expect(recipients(taken)).toEqual(TO);
}

describe('a worker that sleeps', () => {
  it.each(['before the first recipient', 'after the first recipient', 'in the middle of a message'] as const)(
    '%s, and wakes up after another has mailed the report, mails nobody twice',
    async (moment) => await expectOnce(await writeReportJob(STORES[0].to()), moment),
  );

  // Skipped only where no S3 server can be had, which `support/s3-server.ts` says aloud; CI never skips it.
  it.skipIf(STORES[1].isMissing)('with a bucket for a store mails nobody twice, nor does the next one', async () => {
    const job = await writeReportJob(STORES[1].to());
    await expectOnce(job, 'after the first recipient');
    const calm = await startSmtpReceiver();
    const next = runOn(job, 'third', calm.port, {});
    expect(await next.ended, next.said()).toBe(0);
    expect(calm.messages).toEqual([]);
    await calm.close();
  });

  it('longer than it may, and finds that nobody has taken over, mails the rest', async () => {
    const job = await writeReportJob(STORES[0].to());
    const taken: Taken[] = [];
    const clock = await createMovedClock(cwd, Date.now());
    const sleeper = await fallAsleep(job, 'after the first recipient', taken, clock.env);
    await clock.moveTo(clock.now() + NIGHT_MS, sleeper.child.pid);
    const { code, said } = await sleeper.wake();
    expect(code, said).toBe(0);
    expect(recipients(taken)).toEqual(TO);
  });

  it('between the end of a message and its answer has that one repeated, under the same Message-ID', async () => {
    const job = await writeReportJob(STORES[0].to());
    const taken: Taken[] = [];
    const sleeper = await fallAsleep(job, 'between the end of a message and its answer', taken);
    await takeOver(job, taken);
    await sleeper.wake();
    expect(recipients(taken)).toEqual([TO[0], TO[1], TO[1], TO[2], TO[3]]);
    const ids = await Promise.all(taken.map(async ({ source }) => (await PostalMime.parse(source)).messageId));
    expect(new Set(ids).size).toBe(TO.length);
  });
});
