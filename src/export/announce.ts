/**
 * The events of a run: what is new in the store is posted at its end, however it ended. Invariant: it never throws, and
 * costs nothing without an address.
 */
import { beginEvents, type EventContext, type EventSummary, type EventTargets, postEvents } from '../alert/events.ts';
import { readFailure } from '../core/failure.ts';
import type { Job } from '../job/job.ts';
import { identifyReport } from '../job/job-report.ts';
import type { Webhook } from '../mail/webhook.ts';
import type { RunEnv } from '../run/run.ts';
import { JobState } from '../state/job-state.ts';
import type { RunResult } from '../state/run-result.ts';
import type { Store } from '../store/store.ts';

const NOTHING: EventSummary = { posted: 0, owed: null };

/** Before anything is sealed or mailed. */
export async function beginAnnouncing(env: RunEnv, job: Job, store?: Store): Promise<void> {
  await withEvents(env, job, store, undefined, async (context) => await beginEvents(context, job));
}

/** At the end of a run, and between runs. Opens its own store: opening the run's may be what failed. */
export async function announce(env: RunEnv, job: Job, result: RunResult | undefined): Promise<EventSummary> {
  if (env.signal.aborted) return NOTHING;
  const post = async (context: EventContext) => await postEvents(context, job, result?.conditions);
  return await withEvents(env, job, undefined, NOTHING, post);
}

/** @param otherwise the answer without an address, or if the events failed */
async function withEvents<T>(
  env: RunEnv,
  job: Job,
  opened: Store | undefined,
  otherwise: T,
  action: (context: EventContext) => Promise<T>,
): Promise<T> {
  let own: Store | undefined;
  try {
    const targets = await openTargets(env, job);
    if (targets.events === undefined && targets.posts.size === 0) return otherwise;
    const log = (await env.openLog()).child({ job: job.name });
    if (opened === undefined) own = await env.openStore(job.drop.to, { objects: job.drop.s3 });
    const store = opened ?? own;
    if (store === undefined) return otherwise;
    const { clock, signal, stateDir } = env;
    const statePath = new JobState(stateDir, job.name).alerts;
    const redact = (text: string) => env.redact(text);
    const [calendar, publicUrl] = [await env.readCalendar(), env.readPublicUrl()];
    return await action({ store, targets, log, clock, signal, statePath, redact, calendar, publicUrl });
  } catch (error) {
    const { code, message } = readFailure(error, (text) => env.redact(text));
    const reason = `${code}: ${message}`;
    (await env.openLog()).error({ event: 'events-failed', job: job.name, reason }, `the events failed: ${reason}`);
    return otherwise;
  } finally {
    await own?.close().catch(() => undefined);
  }
}

/** One receiver for each address, so that what does not answer is tried once. */
async function openTargets(env: RunEnv, { events, reports }: Job): Promise<EventTargets> {
  const shared = await env.openWebhook('event');
  const opened = new Map<string, Webhook | undefined>([['events', shared]]);
  const posts = new Map<string, Webhook>();
  for (const report of reports) {
    const { post } = report;
    if (post === null) continue;
    if (!opened.has(post)) opened.set(post, await env.openWebhook('event', post));
    const target = opened.get(post);
    if (target) posts.set(identifyReport(report), target);
  }
  return { events: events.length > 0 ? shared : undefined, posts };
}
