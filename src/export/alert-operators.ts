/**
 * The last step of a run, however it ended: sends the alerts to the job's operators. It opens its own store and mailer,
 * because opening the run's may be what failed. Invariant: it never throws, so it does not change how the run ends.
 */
import { type AlertSummary, listTargets, sendAlerts } from '../alert/alerts.ts';
import type { RunOutcome } from '../alert/run-facts.ts';
import { readFailure } from '../core/failure.ts';
import type { Job } from '../job/job.ts';
import type { RunEnv } from '../run/run.ts';
import { JobState } from '../state/job-state.ts';

const NOBODY: AlertSummary = { sent: [], unsent: [], unread: null, isWhole: true };

/** Never throws: see `sendAlerts`. */
export async function alertOperators(env: RunEnv, job: Job, outcome: RunOutcome): Promise<AlertSummary> {
  const { signal } = env;
  // The person who stopped the run knows, and unfinished work is no news.
  if (signal.aborted) return NOBODY;
  const log = (await env.openLog()).child({ job: job.name });
  let isHindered = false;
  const formatFailure = (error: unknown) => {
    const { code, message } = readFailure(error, (text) => env.redact(text));
    return `${code}: ${message}`;
  };
  const attempt = async <T>(what: string, open: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await open();
    } catch (error) {
      isHindered = true;
      const reason = formatFailure(error);
      log.error({ event: 'alerts-hindered', what, reason }, `alerts continue without the ${what}: ${reason}`);
      return undefined;
    }
  };
  const webhook = job.alerts.webhook ? await attempt('webhook', () => env.openWebhook('alert')) : undefined;
  if (listTargets(job, webhook !== undefined).length === 0) return { ...NOBODY, isWhole: !isHindered };
  const calendar = await attempt('calendar', () => env.readCalendar());
  const store = await attempt('store', () => env.openStore(job.drop.to, { objects: job.drop.s3 }));
  try {
    const summary = await sendAlerts(
      {
        ...{ store, webhook, log, signal, calendar },
        run: env.runId,
        openMailer: () => env.openMailer(),
        mailFrom: env.mailFrom,
        clock: env.clock,
        redact: (text) => env.redact(text),
        templatesDir: env.templatesDir,
        statePath: new JobState(env.stateDir, job.name).alerts,
      },
      job,
      outcome,
    );
    return { ...summary, isWhole: summary.isWhole && !isHindered };
  } finally {
    await attempt('store', async () => await store?.close());
  }
}
