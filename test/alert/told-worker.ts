/**
 * A worker whose operators and programs are told what happens: commands in a folder of their own, against the real service,
 * a real mail server and a real HTTP receiver that fails, sleeps, or kills them.
 */
import type { ChildProcess } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { SMTPServerOptions } from 'smtp-server';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import { type SmtpReceiver, startSmtpReceiver } from '../mail/smtp-receiver.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../mail/webhook-receiver.ts';
import { flowdrop, makeFolder, type RunOptions, startService, type TestService } from '../support/flowdrop.ts';

export const AS_OF = '2026-11-20T23:00:00Z';

/**
 * To be called outside of any test. The job is `nightly`, of two dates.
 * @param listSettings environment of the commands, by the address of the receiver
 */
export function useToldWorker(
  listSettings: (receiverUrl: string) => Readonly<Record<string, string>>,
  smtpOptions: SMTPServerOptions = {},
) {
  let service: TestService;
  let smtp: SmtpReceiver;
  let receiver: WebhookReceiver;
  let place: Awaited<ReturnType<typeof makeFolder>>;
  let before: { readonly mails: number; readonly posts: number };
  let child: ChildProcess | undefined;

  beforeAll(async () => {
    [service, smtp, receiver] = await Promise.all([
      startService(['--generate', '2', '--generate-rows', '300', '--as-of', AS_OF]),
      startSmtpReceiver(smtpOptions),
      startWebhookReceiver(),
    ]);
  });
  afterAll(async () => {
    await Promise.all([service.stop(), smtp.close(), receiver.close()]);
  });
  beforeEach(async () => {
    place = await makeFolder();
    before = { mails: smtp.messages.length, posts: receiver.posts.length };
  });
  afterEach(async () => {
    receiver.answers.length = 0;
    await place.remove();
  });

  const run = async (
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
    more: Pick<RunOptions, 'onStart'> = {},
  ) =>
    await flowdrop(args, {
      ...{ cwd: place.path, ...more },
      env: {
        ...service.env,
        FLOWDROP_SMTP_URL: `smtp://127.0.0.1:${smtp.port}?tls=none`,
        ...listSettings(receiver.url),
        ...env,
      },
    });

  return {
    get cwd() {
      return place.path;
    },
    get service() {
      return service;
    },
    get receiver() {
      return receiver;
    },
    /** Since the test began. */
    posts: () => receiver.posts.slice(before.posts),
    mails: () => smtp.messages.slice(before.mails),
    run,
    /** The command must end by `kill`, which something calls meanwhile. */
    async runKilled(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
      const onStart = (started: ChildProcess) => {
        child = started;
      };
      const { code, stderr } = await run(args, env, { onStart });
      expect(code, stderr).toBeNull();
    },
    kill: () => void child?.kill('SIGKILL'),
    /** @param rest of the job file */
    async writeJob(rest: string) {
      const base = 'name: nightly\nsource: {api: historical}\ndrop: {to: drops, dataset: trades}\n';
      await mkdir(join(place.path, 'jobs'), { recursive: true });
      await writeFile(join(place.path, 'jobs', 'nightly.yaml'), `${base}${rest}\n`);
    },
  };
}
