/**
 * The last step of a run, however it ended: causes found -> kept in the outbox -> sent to the job's operators by mail and
 * webhook, once. It opens its own store and mailer, because opening the run's may be what failed. Invariant: it never
 * throws, so it does not change how the run ends; an alert that cannot be delivered is logged, and the next run sends it.
 * With no cause found and none open, it costs one read of the store.
 */
import { createHash } from 'node:crypto';
import { describeError, Fault, isFault } from '../core/errors.ts';
import { readFailure } from '../core/failure.ts';
import type { Job } from '../job/job.ts';
import { Ledger } from '../ledger/ledger.ts';
import type { Mailer, MailMessage } from '../mail/mailer.ts';
import { parseAddress } from '../mail/message.ts';
import type { RunEnv } from '../run/run.ts';
import { openJobState } from '../state/job-state.ts';
import { describeCause, type RunEnd, type RunFacts } from './cause-table.ts';
import { listCauses } from './causes.ts';
import { readKnownConditions } from './known-conditions.ts';
import { buildNotice, type Notice, renderNotice } from './notice.ts';
import { closeDone, type DueAlerts, listDue, noteCauses, noteSent, Outbox, type OutboxState } from './outbox.ts';

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

/** Name of the webhook among the targets; the others are mail addresses. */
const WEBHOOK_TARGET = 'webhook';

/** Never throws. */
export async function alertOperators(env: RunEnv, job: Job, outcome: RunEnd): Promise<AlertSummary> {
  const sent: AlertSummary['sent'][number][] = [];
  const unsent: AlertSummary['unsent'][number][] = [];
  let [unread, isWhole]: [string | null, boolean] = [null, true];
  // The person who stopped the run knows, and unfinished work is no news.
  if (env.signal.aborted || isNoNews(outcome.error)) return { sent, unsent, unread, isWhole };
  const log = (await env.openLog()).child({ job: job.name });
  const redact = (text: string) => env.redact(text);
  const attempt = async <T>(what: string, open: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await open();
    } catch (error) {
      isWhole = false;
      const { code, message } = readFailure(error, redact);
      const reason = `${code}: ${message}`;
      log.error({ event: 'alerts-hindered', what, reason }, `alerts continue without the ${what}: ${reason}`);
      return undefined;
    }
  };
  const webhook = job.alerts.webhook ? await attempt('webhook', () => env.openWebhook('alert')) : undefined;
  const targets = [...new Set(job.alerts.to.map((address) => address.toLowerCase()))];
  if (webhook) targets.push(WEBHOOK_TARGET);
  if (targets.length === 0) return { sent, unsent, unread, isWhole };
  const calendar = await attempt('calendar', () => env.readCalendar());
  const store = await attempt('store', () => env.openStore(job.drop.to, { objects: job.drop.s3 }));
  let mailer: Mailer | undefined;
  try {
    const outbox = await Outbox.open(store, job.name, openJobState(env.stateDir, job.name).alerts, log);
    const { result } = outcome;
    const nowMs = result ? Date.parse(result.server_time) : env.clock.now();
    // A run that fails because of the store must still send its alerts.
    const ledger = store && new Ledger(store, job.drop.dataset);
    const known = result ?? (await readKnownConditions(ledger, log, job, nowMs, calendar));
    if ('unread' in known && known.unread !== null) unread = redact(known.unread);
    const { conditions, accepted } = known;
    const facts: RunFacts = { ...outcome, job, nowMs, conditions, accepted: new Set(accepted) };
    const causes = listCauses(facts);
    let state = await outbox.update((before) =>
      closeDone(
        noteCauses(before, causes, facts, (cause) => describeCause(cause, job, redact)),
        targets,
      ),
    );
    for (const target of targets) {
      if (!listDue(state, target)) continue;
      // Sending takes time, and this process may have slept: another worker may have notified this target.
      state = await outbox.read();
      const due = listDue(state, target);
      if (!due) continue;
      const { alerts: entries } = state;
      const pick = (ids: readonly string[]) =>
        ids.flatMap((id) => {
          const entry = entries[id];
          return entry ? [{ ...entry, id, since: entry.first_seen }] : [];
        });
      const { dataset, to } = job.drop;
      const about = { job: job.name, dataset, place: `${store?.url ?? to}/${dataset}`, run: env.runId };
      const at = new Date(env.clock.now()).toISOString();
      const id = identify(job, target, state, due);
      const notice = buildNotice({ ...about, id, at }, pick(due.alerts), pick(due.recovered));
      let file: string | undefined;
      try {
        if (target === WEBHOOK_TARGET) await webhook?.post(notice, env.signal);
        else {
          const mail = await buildMail(env, target, notice);
          mailer ??= await env.openMailer();
          file = await sendMail(mailer, mail, job);
        }
      } catch (error) {
        const reason = redact(describeError(error));
        log.error({ event: 'alert-unsent', target, reason }, `alert not sent to ${target}: ${reason}`);
        unsent.push({ target, reason });
        continue;
      }
      const { alerts, recovered } = due;
      log.info(
        { event: 'alert-sent', target, alerts, recovered, file },
        file === undefined ? `alert sent to ${target}` : `alert for ${target} written to the outbox: ${file}`,
      );
      sent.push({ target, alerts, recovered, file });
      state = await outbox.update((now) => closeDone(noteSent(now, target, due, env.clock.now()), targets));
    }
  } catch (error) {
    // The caller must get the run's own result; the next run finds the same causes and sends them.
    isWhole = false;
    const reason = redact(describeError(error));
    log.error({ event: 'alerts-failed', reason }, `the alerts failed: ${reason}`);
  } finally {
    await attempt('mailer', async () => await mailer?.close());
    await attempt('store', async () => await store?.close());
  }
  return { sent, unsent, unread, isWhole: isWhole && unsent.length === 0 && unread === null };
}

/** A run that was stopped, or that found another one active, is no reason for an alert. */
function isNoNews(error: unknown): boolean {
  return isFault(error) && (error.kind === 'interrupted' || error.kind === 'active');
}

async function buildMail(env: RunEnv, to: string, notice: Notice): Promise<MailMessage> {
  const { mailFrom: from, templatesDir } = env;
  const domain = parseAddress('from', from).address.split('@').at(-1);
  return {
    ...(await renderNotice(notice, templatesDir)),
    ...{ from, to, images: [], attachments: [], listUnsubscribe: null },
    ...{ messageId: `${notice.job}.alert.${notice.id}@${domain}`, date: new Date(notice.at) },
  };
}

/** @returns the file, if the mail was written to the outbox @throws Fault if the target was not notified */
async function sendMail(mailer: Mailer, mail: MailMessage, { file }: Job): Promise<string | undefined> {
  const outcome = await mailer.send(mail);
  if (outcome.status === 'sent') return outcome.file;
  throw new Fault('ALERT_REFUSED', `mail: ${mail.to} was refused: ${outcome.detail}`, {
    hint: `Correct \`alerts.to\` in ${file}; the next run sends the alert again.`,
  });
}

/** The same id for the same news to the same target: a mail program or webhook receiver can drop a repetition. */
function identify(job: Job, target: string, state: OutboxState, due: DueAlerts): string {
  const since = (ids: readonly string[]) => ids.map((id) => [id, state.alerts[id]?.first_seen]).sort();
  const text = JSON.stringify([job.name, target, since(due.alerts), since(due.recovered)]);
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}
