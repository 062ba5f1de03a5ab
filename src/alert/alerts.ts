/**
 * The last step of a run, however it ended: causes found -> kept in the outbox -> sent to the job's operators by mail and
 * webhook, once. It opens its own store and mailer, because opening the run's may be what failed. Invariant: it never
 * throws, so it does not change how the run ends; an alert that cannot be delivered is logged, and the next run sends it.
 * With no cause found and none open, it costs one read of the store. A cause keeps its id while it lasts, even if its
 * message changes; `cause-table.ts` has the kinds.
 *
 * Conditions of the dates when no run could report any: from the last run's record, the sealed dates and the calendar,
 * brought up to now. Even if the API does not answer for days, dates about to expire must be reported. Invariant: it
 * sends no request to a source, and reports no gap that it could not check.
 */
import { createHash } from 'node:crypto';
import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import type { CalendarOverride } from '../calendar/session.ts';
import { addDays } from '../calendar/wall-clock.ts';
import { describeError, Fault, isFault } from '../core/errors.ts';
import { readFailure } from '../core/failure.ts';
import type { Log } from '../core/log.ts';
import { capitalize } from '../core/units.ts';
import { describeLate, findLate } from '../deliver/late.ts';
import type { Job } from '../job/job.ts';
import { Ledger } from '../ledger/ledger.ts';
import { type Mailer, parseAddress } from '../mail/message.ts';
import { deriveConditions, isSealed, type SealedCondition } from '../plan/conditions.ts';
import { computeLookback, expires, expiresAt, GAP_WARNING_MS, lookbackOf } from '../plan/dates.ts';
import type { RunEnv } from '../run/run.ts';
import { API_DOWN_CODES } from '../source/source.ts';
import { openJobState } from '../state/job-state.ts';
import { RunHistory } from '../state/run-history.ts';
import { isInVain, type RunResult } from '../state/run-result.ts';
import { type Cause, type CauseKind, DROP_DAMAGED, describeCause, type RunEnd, type RunFacts } from './cause-table.ts';
import { buildNotice, type Notice, renderNotice } from './notice.ts';
import { type DueAlerts, forgetDone, listDue, noteCauses, noteSent, type OutboxState, openOutbox } from './outbox.ts';

/** Name of the webhook among the targets; the others are mail addresses. */
const WEBHOOK_TARGET = 'webhook';

/**
 * Never throws.
 * @returns the targets that were notified now, and those that could not be. `file`: the mail was written to a
 * folder. `unread`: why the conditions of the dates could not be read from an opened store; then gaps
 * are unknown. `isWhole`: everything about the job could be read, and every target was notified
 */
export async function alertOperators(env: RunEnv, job: Job, outcome: RunEnd) {
  const sent: (DueAlerts & { readonly target: string; readonly file?: string | undefined })[] = [];
  const unsent: { readonly target: string; readonly reason: string }[] = [];
  let [unread, isWhole]: [string | null, boolean] = [null, true];
  const { error: ended } = outcome;
  // The person who stopped the run knows, and one that found another active is no news.
  const isNoNews = isFault(ended) && (ended.kind === 'interrupted' || ended.kind === 'active');
  if (env.signal.aborted || isNoNews) return { sent, unsent, unread, isWhole };
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
  const delivers = (await attempt('mailer', async () => env.deliversMail())) ?? true;
  const targets = listTargets(job, webhook !== undefined, delivers);
  if (targets.length === 0) return { sent, unsent, unread, isWhole };
  const calendar = await attempt('calendar', () => env.readCalendar());
  const store = await attempt('store', () => env.openStore(job.drop.to, { objects: job.drop.s3 }));
  let mailer: Mailer | undefined;
  try {
    const jobState = openJobState(env.stateDir, job.name);
    const outbox = await openOutbox(store, job.name, jobState.alerts, log);
    const { result } = outcome;
    const nowMs = result ? Date.parse(result.server_time) : env.clock.now();
    // A run that fails because of the store must still send its alerts.
    const ledger = store && new Ledger(store, job.drop.dataset);
    const known = result ? { ...result, unread } : await readKnownConditions(ledger, log, job, nowMs, calendar);
    unread = known.unread && redact(known.unread);
    const { conditions, accepted } = known;
    const isAccepted = new Set(accepted);
    // Without the store: what the last run knew.
    const local = ledger && unread === null ? undefined : await jobState.known.read().catch(() => undefined);
    const dates = Object.entries(local?.conditions ?? conditions).map(([date, condition]) => {
      return { date, condition, accepted: isAccepted.has(date) };
    });
    const history = new RunHistory(env.stateDir, job.name);
    // A run's mails may have taken until after the deadline.
    const lateMs = Math.max(nowMs, env.clock.now());
    const readable = local === undefined ? store : undefined;
    const found = await findLate(job, { store: readable, history, nowMs: lateMs, calendar, dates });
    const late = found ? { date: found.date, said: describeLate(found, job, lateMs) } : undefined;
    const facts: RunFacts = { ...outcome, job, nowMs, conditions, accepted: isAccepted, late };
    const causes = listCauses(facts);
    const describe = (cause: Cause) => describeCause(cause, job, redact);
    let state = await outbox.update((before) => forgetDone(noteCauses(before, causes, facts, describe), targets));
    for (const target of targets) {
      if (!listDue(state, target)) continue;
      // Sending takes time, and this process may have slept: another worker may have notified this target.
      state = await outbox.read();
      const due = listDue(state, target);
      if (!due) continue;
      const { alerts, recovered } = due;
      const { dataset, to } = job.drop;
      const notice = buildNotice(
        {
          ...{ job: job.name, dataset, place: `${store?.url ?? to}/${dataset}`, run: env.runId },
          ...{ id: identify(job, target, state, due), at: new Date(env.clock.now()).toISOString() },
        },
        pickAlerts(state, alerts),
        pickAlerts(state, recovered),
      );
      const address = target.replace(IN_FOLDER, '');
      let file: string | undefined;
      try {
        if (target === WEBHOOK_TARGET) await webhook?.post(notice, env.signal);
        else {
          mailer ??= await env.openMailer();
          file = await mailNotice(env, mailer, address, notice, job);
        }
      } catch (error) {
        const reason = redact(describeError(error));
        log.error({ event: 'alert-unsent', target: address, reason }, `alert not sent to ${address}: ${reason}`);
        unsent.push({ target: address, reason });
        continue;
      }
      if (file === undefined) log.info({ event: 'alert-sent', target, alerts, recovered }, `alert sent to ${target}`);
      else
        log.info(
          { event: 'alert-written', target: address, alerts, recovered, file },
          `alert for ${address} written to a folder: ${file}`,
        );
      sent.push({ target: address, alerts, recovered, file });
      state = await outbox.update((now) => forgetDone(noteSent(now, target, due, env.clock.now()), targets));
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

/** After the address of a recipient who got it only in a folder: the alert is still owed when there is a server. */
const IN_FOLDER = ' (only in a folder)';

/**
 * Who gets the alerts of a job.
 * @param hasWebhook whether there is an address to post them to @param delivers whether mail reaches anybody
 */
export function listTargets({ alerts }: Job, hasWebhook: boolean, delivers: boolean): readonly string[] {
  const addresses = new Set(alerts.to.map((address) => `${address.toLowerCase()}${delivers ? '' : IN_FOLDER}`));
  return alerts.webhook && hasWebhook ? [...addresses, WEBHOOK_TARGET] : [...addresses];
}

/** @returns the file, if the mail was written to a folder @throws Fault if the target was not notified */
async function mailNotice(env: RunEnv, mailer: Mailer, to: string, notice: Notice, { file }: Job) {
  const { mailFrom: from, templatesDir } = env;
  const domain = parseAddress('from', from).address.split('@').at(-1);
  const outcome = await mailer.send({
    ...(await renderNotice(notice, templatesDir)),
    ...{ from, to, images: [], attachments: [], listUnsubscribe: null },
    ...{ messageId: `${notice.job}.alert.${notice.id}@${domain}`, date: new Date(notice.at) },
  });
  if (outcome.status !== 'refused') return outcome.file;
  throw new Fault('ALERT_REFUSED', `mail: ${to} was refused: ${outcome.detail}`, {
    hint: `Correct \`alerts.to\` in ${file}; the next run sends the alert again.`,
  });
}

function pickAlerts({ alerts }: OutboxState, ids: readonly string[]) {
  return Object.entries(alerts).flatMap(([id, entry]) => (ids.includes(id) ? [{ ...entry, id }] : []));
}

/** The same id for the same news to the same target: a mail program or webhook receiver can drop a repetition. */
function identify(job: Job, target: string, state: OutboxState, due: DueAlerts): string {
  const since = (ids: readonly string[]) =>
    pickAlerts(state, ids)
      .map((entry) => [entry.id, entry.first_seen])
      .sort();
  const text = JSON.stringify([job.name, target, since(due.alerts), since(due.recovered)]);
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}

const KEY_REFUSED_CODES: ReadonlySet<string> = new Set(['UNAUTHORIZED', 'SUBSCRIPTION_REQUIRED']);

/** Not an API error: the API answers, but has no data for anything that the job names. */
const NOTHING_FOUND = {
  code: 'NOTHING_FOUND',
  said: 'The source has no rows for this job on any date.',
  hint: 'Check the symbols, the table and the condition in the job file.',
};

/**
 * For how many days a lost date is still reported, in case the run that found the loss was killed before it could send
 * the alert.
 */
const LOSS_DAYS = LOOKBACK_DAYS;

/** Lists each cause once: failures, then dates, then reports. */
export function listCauses(facts: RunFacts): readonly Cause[] {
  const causes = new Map<string, Cause>();
  /** @param about the date, code or recipient concerned */
  const add: AddCause = (kind, about, rest) => {
    const id = [facts.job.name, kind, about].filter(Boolean).join('/');
    causes.set(id, { ...{ date: null, code: null, report: null, said: '', hint: '' }, ...rest, id, kind });
  };
  addFailures(facts, add);
  addDates(facts, (kind, date, rest) => add(kind, date, { date, ...rest }));
  addReports(facts, add);
  return [...causes.values()];
}

type AddCause = (kind: CauseKind, about: string, rest?: Partial<Omit<Cause, 'id' | 'kind'>>) => void;

function addFailures({ command, result, error, died, jobFault }: RunFacts, add: AddCause): void {
  // One cause each, even if it happens several times in a row with different messages.
  if (died !== undefined) add('run-died', '', { said: died });
  if (jobFault !== undefined) add('job-invalid', '', { said: jobFault });
  if (error !== undefined) {
    const { code, message: said, hint = '', kind } = readFailure(error);
    const about = { code, said, hint };
    // The export finished, so a report failed.
    if (result) add('report-failed', code, about);
    else if (KEY_REFUSED_CODES.has(code)) add('key-refused', code, about);
    // The person who typed a manual command sees its usage error; a scheduled run has no reader.
    else if (kind !== 'usage' || command === 'run') add('run-failed', code, about);
  }
  if (result === undefined) return;
  for (const { date, error: failed, doubts = [] } of result.dates) {
    if (doubts.length > 0) add('date-doubtful', date, { date, said: doubts.join('; ') });
    if (!failed) continue;
    const { code, message: said, hint = '' } = failed;
    // An API outage is one cause, whichever date met it.
    if (API_DOWN_CODES.has(code)) add('run-failed', code, { code, said, hint });
    else add('date-failed', `${date}/${code}`, { date, code, said, hint });
  }
  const { held, clocks } = result;
  // Dates held back by a clock conflict share one cause. A date whose session end the source does not show has its own.
  if (clocks.conflict !== null) add('clocks-differ', '', { said: describeClocks(held, clocks.conflict) });
  else for (const { date, reason } of held) add('date-held', date, { date, said: reason });
  if (isInVain(result)) add('run-failed', NOTHING_FOUND.code, NOTHING_FOUND);
}

function addDates({ job, conditions, accepted, result, nowMs, late }: RunFacts, add: AddCause): void {
  const { clipped } = computeLookback(nowMs);
  if (late) add('date-late', late.date, { said: late.said });
  for (const [date, condition] of Object.entries(conditions)) {
    const isGap = result?.gaps.includes(date) || date >= clipped;
    const damage = result?.damaged[date];
    if (damage !== undefined) add('date-degraded', date, { code: DROP_DAMAGED, said: damage });
    if (accepted.has(date)) continue;
    const audit = result?.audits[date];
    if (audit?.result === 'differs') add('date-differs', date, { said: audit.reason ?? '' });
    if (damage === undefined && condition === 'degraded' && isGap)
      add('date-degraded', date, { said: describeLacking(result, date) });
    if (condition === 'missing' && isGap) add('date-missing', date);
    if (condition === 'expired' && (result?.lost.includes(date) || date >= addDays(clipped, -LOSS_DAYS)))
      add('date-expired', date);
    if (condition === 'pending' && expires(job.source) && expiresAt(date) - nowMs < GAP_WARNING_MS)
      add('gap-expires-soon', date);
  }
}

function addReports({ job, conditions, deliveries = [], withReports }: RunFacts, add: AddCause): void {
  for (const { report: template, date, recipients, error, pending } of deliveries) {
    if (error) {
      const { code, message: said, hint = '' } = error;
      add('report-failed', `${template}/${code}`, { date, code, said, hint });
    }
    if (pending) add('report-pending', date, { date });
    for (const { to, outcome, detail: said } of recipients) {
      if (outcome === 'refused' || outcome === 'failed')
        add(`report-${outcome}`, `${template}/${to}`, { date, said, report: { template, to } });
    }
  }
  const newest = Object.keys(conditions).sort().at(-1);
  if (newest && job.reports.length > 0 && withReports && conditions[newest] === 'pending')
    add('report-pending', newest, { date: newest });
}

function describeClocks(held: RunResult['held'], conflict: string): string {
  const dates = held.map(({ date }) => date).join(', ');
  const effect = dates === '' ? 'No date was held back' : `Held back: ${dates}`;
  return `${capitalize(conflict)}. ${effect}.`;
}

/** What the date lacks, if its export recorded that: the manifest's reason, or the windows that the source lacks. */
function describeLacking(result: RunResult | undefined, date: string): string {
  const { missing = [], degraded_reason: reason } = result?.dates.find((one) => one.date === date) ?? {};
  return reason ?? missing.map(({ window, reason: why }) => `${window}: ${why}`).join('; ');
}

/** Never throws. @param ledger `undefined` if the store could not be opened */
export async function readKnownConditions(
  ledger: Ledger | undefined,
  log: Log,
  job: Job,
  nowMs: number,
  calendar: CalendarOverride | undefined,
): Promise<Pick<RunFacts, 'conditions'> & { readonly accepted: readonly string[]; readonly unread: string | null }> {
  if (!ledger) return { conditions: {}, accepted: [], unread: null };
  try {
    const { entries, fault } = await ledger.conditions();
    if (fault !== undefined) throw new Fault('CONDITION_INVALID', `condition.json is invalid: ${fault}`);
    const recorded = new Map([...entries].map(([date, { condition }]) => [date, condition]));
    const sealed = new Map<string, SealedCondition>();
    for (const [date, condition] of recorded) if (isSealed(condition)) sealed.set(date, condition);
    const derive = () => deriveConditions({ sealed, recorded, lookback: lookbackOf(job, nowMs, calendar) });
    // A run that was killed after sealing a date did not record it.
    const dates = [...derive().values()].every(isSealed) ? [] : await ledger.dates();
    for (const date of dates.filter((one) => !sealed.has(one))) {
      const manifest = await ledger.validManifest(date, ({ message: reason }) => {
        log.error({ event: 'manifest-invalid', date, reason }, `${date}: ${reason}`);
      });
      sealed.set(date, manifest?.condition ?? 'degraded');
    }
    const conditions = derive();
    const accepted = await ledger.acceptedGaps(conditions);
    return { conditions: Object.fromEntries(conditions), accepted: [...accepted.keys()], unread: null };
  } catch (error) {
    const reason = describeError(error);
    log.error({ event: 'conditions-unread', reason }, `cannot read the conditions of the dates: ${reason}`);
    return { conditions: {}, accepted: [], unread: reason };
  }
}
