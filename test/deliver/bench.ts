/** What the tests of delivery run on: a real engine, a store in a directory, a real SMTP server, and a clock that jumps. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import PostalMime, { type Email } from 'postal-mime';
import type { SMTPServerOptions } from 'smtp-server';
import { RENEWAL_MS, type Receipt } from '../../src/deliver/receipt.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import type { Job } from '../../src/job/job.ts';
import { parseJob } from '../../src/job/parse.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import { openSmtpMailer } from '../../src/mail/smtp.ts';
import type { Run } from '../../src/run/run.ts';
import { openJobState } from '../../src/state/job-state.ts';
import { RunHistory } from '../../src/state/run-history.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Store } from '../../src/store/store.ts';
import { type SmtpReceiver, startSmtpReceiver } from '../mail/smtp-receiver.ts';
import { createFakeClock, type FakeClock } from '../support/fake-clock.ts';
import { createSilentLog } from '../support/log.ts';
import { makePlainTemplates } from '../support/plain-templates.ts';
import { listKeys, pickNewest, readText } from '../support/store-keys.ts';

export interface DeliveryBench {
  readonly engine: Engine;
  readonly store: Store;
  readonly receiver: SmtpReceiver;
  readonly clock: FakeClock;
  /** For a worker of this name; each has a state directory of its own. Its mails have plain HTML. */
  context(worker?: string): Run;
  /** `to subject` of everything that arrived since the last call. */
  arrived(): Promise<readonly string[]>;
  /** Everything that arrived, in full. */
  mails(): Promise<readonly (Email & { readonly recipient: string })[]>;
  /** What the newest receipt of the date has of each recipient. */
  statuses(date: string): Promise<Readonly<Record<string, string>>>;
  close(): Promise<void>;
}

/** @param tls as the SMTP address has it; the server's certificate is a self-signed one */
export async function openDeliveryBench(
  options: SMTPServerOptions = {},
  tls: 'required' | 'none' = 'none',
  isAnswered?: (to: string) => boolean,
): Promise<DeliveryBench> {
  const folder = await mkdtemp(join(tmpdir(), 'flowdrop-deliver-'));
  const engine = await openEmbeddedEngine();
  const templatesDir = await makePlainTemplates(join(folder, 'templates'));
  const store = await openDirectoryStore(join(folder, 'store'));
  const receiver = await startSmtpReceiver(options, isAnswered);
  const mailer = openSmtpMailer({ url: `smtp://127.0.0.1:${receiver.port}?tls=${tls}`, timeoutMs: 2_000 });
  const clock = createFakeClock({ waiting: [RENEWAL_MS] });
  let seen = 0;
  const mails = async () =>
    await Promise.all(
      receiver.messages.map(async ({ to, source }) => ({ ...(await PostalMime.parse(source)), recipient: to })),
    );
  return {
    engine,
    store,
    receiver,
    clock,
    mails,
    context: (worker = 'worker') => ({
      runId: 'run-1',
      ledger: new Ledger(store, 'trades'),
      engine,
      mailer,
      clock,
      mailFrom: 'flow@example.com',
      log: createSilentLog(),
      redact: (text: string) => text,
      onEvent: () => undefined,
      state: openJobState(join(folder, worker), 'nightly'),
      history: new RunHistory(join(folder, worker), 'nightly'),
      version: '1',
      templatesDir,
      publicUrl: undefined,
    }),
    async arrived() {
      const fresh = (await mails()).slice(seen);
      seen += fresh.length;
      return fresh.map(({ recipient, subject }) => `${recipient} ${subject}`);
    },
    async statuses(date) {
      const keys = pickNewest(await listKeys(store, '_flowdrop/reports/'));
      const receipts = await Promise.all(
        keys.map(async (key) => JSON.parse((await readText(store, key)) ?? '{}') as Receipt),
      );
      const { recipients = {} } = receipts.find((receipt) => receipt.date === date) ?? {};
      return Object.fromEntries(Object.entries(recipients).map(([to, { status }]) => [to, status]));
    },
    async close() {
      await mailer.close();
      await receiver.close();
      await store.close();
      await engine.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** The job `nightly`. @param report lines of its report, as in a job file */
export function createReportJob(report = '', to = 'desk@example.com'): Job {
  const lines = report === '' ? '' : `    ${report.trim().split('\n').join('\n    ')}\n`;
  return parseJob(
    'nightly.yaml',
    `name: nightly
source:
  api: historical
drop:
  to: drops
  dataset: trades
reports:
  - to: [${to}]
${lines.includes('template:') ? '' : '    template: flow\n'}${lines}`,
  );
}
