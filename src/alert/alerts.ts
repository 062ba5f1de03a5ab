/**
 * Alerts at the end of a run: causes found -> remembered in the store -> sent by mail and webhook, once. The due alerts
 * are written before they are sent, and each target is recorded after it was notified. So a killed process repeats at
 * most one message, under the same id. Invariant: it never throws; an alert that cannot be delivered does not fail the
 * run: it is logged, and the next run sends it. With no cause found and none open, it costs one read of the store.
 */
import { createHash } from 'node:crypto';
import type { CalendarOverride } from '../calendar/session.ts';
import type { Clock } from '../core/clock.ts';
import { describeError, Fault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Job } from '../job/job.ts';
import type { Mailer } from '../mail/mailer.ts';
import { parseAddress } from '../mail/message.ts';
import type { Webhook } from '../mail/webhook.ts';
import { expires } from '../plan/lookback.ts';
import { type Alert, type AlertNotice, renderAlertMail } from '../report/alert-mail.ts';
import type { Store } from '../store/store.ts';
import { openAlertMemory } from './alert-memory.ts';
import { describeCause, SEVERITY_OF } from './alert-text.ts';
import { listCauses } from './causes.ts';
import { readKnownConditions } from './known-conditions.ts';
import { type AlertState, closeDone, type DueAlerts, listDue, noteCauses, noteSent } from './open-causes.ts';
import type { RunFacts, RunOutcome } from './run-facts.ts';
import { buildAlertPayload } from './webhook-payload.ts';

export interface AlertContext {
  /** `undefined` if the store could not be opened: then the local file remembers. */
  readonly store: Store | undefined;
  /** Opened only when there is something to mail. */
  readonly openMailer: () => Promise<Mailer>;
  /** `undefined` without a webhook address. */
  readonly webhook: Webhook | undefined;
  readonly mailFrom: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly redact: (text: string) => string;
  readonly templatesDir: string;
  /** Id of the run that sends the alerts; if absent, they name no run. */
  readonly run?: string;
  /** Calendar overrides; absent: none. */
  readonly calendar?: CalendarOverride | undefined;
  /** Local file that is used while the store cannot be written. */
  readonly statePath: string;
  readonly signal?: AbortSignal | undefined;
}

/** Name of the webhook among the targets; the others are mail addresses. */
const WEBHOOK_TARGET = 'webhook';

/** Targets of a job's alerts: mail addresses in lower case, and the webhook. Empty: no alerts. */
export function listTargets(job: Job, hasWebhook: boolean): readonly string[] {
  const addresses = job.alerts.to.map((address) => address.toLowerCase());
  return [...new Set(addresses), ...(hasWebhook && job.alerts.webhook ? [WEBHOOK_TARGET] : [])];
}

/** Targets that were notified now, and those that could not be. */
export interface AlertSummary {
  /** `file`: the mail was written to the outbox, because no SMTP server is set; nobody has received it yet. */
  readonly sent: readonly (DueAlerts & { readonly target: string; readonly file?: string | undefined })[];
  readonly unsent: readonly { readonly target: string; readonly reason: string }[];
  /** Why the conditions of the dates could not be read from an opened store; else null. If set, gaps are unknown. */
  readonly unread: string | null;
  /** Whether everything about the job could be read and every target was notified. */
  readonly isWhole: boolean;
}

/** Sends the operators of a job the alerts for this outcome. Never throws. */
export async function sendAlerts(context: AlertContext, job: Job, outcome: RunOutcome): Promise<AlertSummary> {
  const { log } = context;
  const sent: AlertSummary['sent'][number][] = [];
  const unsent: AlertSummary['unsent'][number][] = [];
  let unread: string | null = null;
  let isWhole = false;
  try {
    const targets = listTargets(job, context.webhook !== undefined);
    if (targets.length > 0) unread = await tellAll(context, job, outcome, targets, { sent, unsent });
    isWhole = unsent.length === 0 && unread === null;
  } catch (error) {
    // The caller must get the run's own result; the next run finds the same causes and sends them.
    const reason = context.redact(describeError(error));
    log.error({ event: 'alerts-failed', reason }, `the alerts failed: ${reason}`);
  }
  return { sent, unsent, unread, isWhole };
}

/** @returns why the conditions of the dates are unknown, else null */
async function tellAll(
  context: AlertContext,
  job: Job,
  outcome: RunOutcome,
  targets: readonly string[],
  summary: { readonly sent: AlertSummary['sent'][number][]; readonly unsent: AlertSummary['unsent'][number][] },
): Promise<string | null> {
  const { log, clock } = context;
  const memory = await openAlertMemory({ store: context.store, path: context.statePath, log }, job.name);
  const { facts, unread } = await readFacts(context, job, outcome);
  const { redact } = context;
  const subject = { job: job.name, dataset: job.drop.dataset, isExpiring: facts.isExpiring, redact };
  const causes = listCauses(facts);
  let state = await memory.update((before) =>
    noteCauses(before, causes, facts, (cause) => describeCause(cause, subject)),
  );
  const channel = openChannel(context, job);
  try {
    for (const target of targets) {
      if (countDue(listDue(state, target)) === 0) continue;
      // Sending takes time, and this process may have slept: another worker may have notified this target.
      state = await memory.read();
      const due = listDue(state, target);
      if (countDue(due) === 0) continue;
      let file: string | undefined;
      try {
        file = await channel.tell(target, buildNotice(context, job, state, due), identify(job, target, state, due));
      } catch (error) {
        const reason = redact(describeError(error));
        log.error({ event: 'alert-unsent', target, reason }, `alert not sent to ${target}: ${reason}`);
        summary.unsent.push({ target, reason });
        continue;
      }
      log.info(
        { event: 'alert-sent', target, alerts: due.alerts, recovered: due.recovered, file },
        file === undefined ? `alert sent to ${target}` : `alert for ${target} written to the outbox: ${file}`,
      );
      summary.sent.push({ target, ...due, file });
      state = await memory.update((now) => noteSent(now, target, due, clock.now()));
    }
  } finally {
    await channel.close();
  }
  // Of most runs it changes nothing.
  if (JSON.stringify(closeDone(state, targets)) !== JSON.stringify(state))
    await memory.update((now) => closeDone(now, targets));
  return unread === undefined ? null : redact(unread);
}

function countDue({ alerts, recovered }: DueAlerts): number {
  return alerts.length + recovered.length;
}

/** Mail and webhook; the mailer is opened when it is needed. */
function openChannel(context: AlertContext, job: Job) {
  let mailer: Mailer | undefined;
  return {
    /** @returns the file, if the mail was written to the outbox @throws Fault if the target was not notified */
    async tell(target: string, notice: AlertNotice, id: string): Promise<string | undefined> {
      if (target === WEBHOOK_TARGET) {
        await context.webhook?.post(buildAlertPayload(notice, id), context.signal);
        return undefined;
      }
      const rendered = await renderAlertMail(notice, context.templatesDir);
      mailer ??= await context.openMailer();
      const outcome = await mailer.send({
        ...{ ...rendered, from: context.mailFrom, to: target, images: [], attachments: [], listUnsubscribe: null },
        messageId: `${job.name}.alert.${id}@${parseAddress('from', context.mailFrom).address.split('@').at(-1)}`,
        date: new Date(context.clock.now()),
      });
      if (outcome.status === 'sent') return outcome.file;
      throw new Fault('ALERT_REFUSED', `mail: ${target} was refused: ${outcome.detail}`, {
        hint: `Correct \`alerts.to\` in ${job.file}; the next run sends the alert again.`,
      });
    },
    async close(): Promise<void> {
      await mailer?.close();
    },
  };
}

function buildNotice(context: AlertContext, job: Job, state: AlertState, due: DueAlerts): AlertNotice {
  const pick = (ids: readonly string[]) => ids.flatMap((id) => toAlert(state, id));
  const { dataset, to } = job.drop;
  return {
    ...{ job: job.name, dataset, place: `${context.store?.url ?? to}/${dataset}`, run: context.run },
    at: new Date(context.clock.now()).toISOString(),
    alerts: pick(due.alerts),
    recovered: pick(due.recovered),
  };
}

function toAlert(state: AlertState, id: string): readonly Alert[] {
  const entry = state.alerts[id];
  if (!entry) return [];
  const { kind, date, code, title, what, next, first_seen: since } = entry;
  return [{ id, kind, severity: SEVERITY_OF[kind], date, code, title, what, next, since }];
}

/** The same id for the same news to the same target: a mail program or webhook receiver can drop a repetition. */
function identify(job: Job, target: string, state: AlertState, due: DueAlerts): string {
  const since = (ids: readonly string[]) => ids.map((id) => [id, state.alerts[id]?.first_seen]).sort();
  const text = JSON.stringify([job.name, target, since(due.alerts), since(due.recovered)]);
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}

/** Leaves out what the store cannot provide: a run that fails because of the store must still send its alerts. */
async function readFacts(
  context: AlertContext,
  job: Job,
  outcome: RunOutcome,
): Promise<{ readonly facts: RunFacts; readonly unread: string | undefined }> {
  const { result } = outcome;
  const nowMs = result ? Date.parse(result.server_time) : context.clock.now();
  const shared = {
    ...outcome,
    job: job.name,
    nowMs,
    isExpiring: expires(job.source),
    hasReports: job.reports.length > 0,
  };
  if (result) {
    const { conditions, accepted } = result;
    return { facts: { ...shared, conditions, accepted: new Set(accepted) }, unread: undefined };
  }
  const { conditions, accepted, unread } = await readKnownConditions(context, job, nowMs);
  return { facts: { ...shared, conditions: Object.fromEntries(conditions), accepted }, unread };
}
