/**
 * Around the commands that work unattended: however one ends, the operators of its job are told what they must know. It has
 * a store and a mailer of its own, because what failed may have been the opening of the run's. Invariant: the command's
 * exit code and failure are what they would be without it.
 */

import type { AlertSummary } from '../../alert/alerts.ts';
import { isAlertWorthy, type RunFailure, type RunOutcome, type WatchedCommand } from '../../alert/run-facts.ts';
import { isFault } from '../../core/errors.ts';
import type { Job } from '../../job/job.ts';
import type { ActionResult } from '../command.ts';
import type { CliContext } from '../context.ts';
import { describeFailure } from '../terminal/failure.ts';

/** What a command has come to so far. */
export type NoteOutcome = (part: Pick<RunOutcome, 'result' | 'deliveries'>) => void;

/** @param action notes what it reaches, so that a failure after that does not take it back */
export async function withAlerts(
  cli: CliContext,
  job: Job,
  command: { readonly name: WatchedCommand; readonly withReports: boolean },
  action: (note: NoteOutcome) => ActionResult,
): ActionResult {
  let outcome: RunOutcome = { command: command.name, withReports: command.withReports };
  let code: Awaited<ActionResult>;
  try {
    code = await action((part) => {
      outcome = { ...outcome, ...part };
    });
  } catch (error) {
    if (isAlertWorthy(error)) await tellOperators(cli, job, { ...outcome, failure: describeRunFailure(error) });
    throw error;
  }
  await tellOperators(cli, job, outcome);
  return code;
}

function describeRunFailure(error: unknown): RunFailure {
  const { code, message, hint } = describeFailure(error).json.error;
  return { code, message, ...(hint ? { hint } : {}), isUsage: isFault(error) && error.kind === 'usage' };
}

const NOBODY: AlertSummary = { told: [], untold: [], unread: null, isWhole: true };

/** Never throws: see `sendAlerts`. */
export async function tellOperators(cli: CliContext, job: Job, outcome: RunOutcome): Promise<AlertSummary> {
  const { compose, signal } = cli;
  // Whoever stopped it knows, and what it had not come to yet is no news.
  if (signal.aborted) return NOBODY;
  const log = (await compose.openLog()).child({ job: job.name });
  let isHindered = false;
  const attempt = async <T>(what: string, open: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await open();
    } catch (error) {
      isHindered = true;
      const reason = compose.redact(describeFailure(error).text);
      log.error({ event: 'alerts-hindered', what, reason }, `the alerts go on without the ${what}: ${reason}`);
      return undefined;
    }
  };
  const webhook = job.alerts.webhook ? await attempt('webhook', () => compose.openWebhook()) : undefined;
  const { listTargets, sendAlerts } = await import('../../alert/alerts.ts');
  if (listTargets(job, webhook !== undefined).length === 0) return { ...NOBODY, isWhole: !isHindered };
  const { stateOf } = await import('../../state/paths.ts');
  const calendar = await attempt('calendar', () => compose.readCalendar());
  const store = await attempt('store', () => compose.openStore(job.drop.to, { objects: job.drop.s3 }));
  try {
    const summary = await sendAlerts(
      {
        ...{ store, webhook, log, signal, calendar },
        run: compose.runId,
        openMailer: () => compose.openMailer(),
        mailFrom: compose.mailFrom,
        clock: compose.clock,
        redact: (text) => compose.redact(text),
        templatesDir: compose.templatesDir,
        statePath: stateOf(compose.stateDir, job.name).alerts,
      },
      job,
      outcome,
    );
    return { ...summary, isWhole: summary.isWhole && !isHindered };
  } finally {
    await attempt('store', async () => await store?.close());
  }
}
