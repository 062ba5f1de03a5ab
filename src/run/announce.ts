/**
 * The events of a run: what is new in the store is posted at its end, however it ended. Invariant: it never throws, and
 * costs nothing without an address.
 */
import { beginEvents, type EventContext, postEvents } from '../alert/events.ts';
import { readFailure } from '../core/failure.ts';
import type { Job } from '../job/job.ts';
import { JobState } from '../state/job-state.ts';
import type { RunResult } from '../state/run-result.ts';
import type { Store } from '../store/store.ts';
import type { Openers } from './openers.ts';

type EventDeps = Pick<
  Openers,
  'clock' | 'stateDir' | 'redact' | 'openLog' | 'openStore' | 'openWebhook' | 'readCalendar'
> & { readonly signal: AbortSignal };

/** Before the run seals anything. */
export async function beginAnnouncing(deps: EventDeps, job: Job, store: Store): Promise<void> {
  await withEvents(deps, job, store, async (context) => await beginEvents(context, job));
}

/** At the end of a run, and between runs. Opens its own store: opening the run's may be what failed. */
export async function announce(deps: EventDeps, job: Job, result: RunResult | undefined): Promise<void> {
  if (deps.signal.aborted) return;
  await withEvents(deps, job, undefined, async (context) => await postEvents(context, job, result?.conditions));
}

async function withEvents(
  deps: EventDeps,
  job: Job,
  opened: Store | undefined,
  action: (context: EventContext) => Promise<void>,
): Promise<void> {
  let own: Store | undefined;
  try {
    const webhook = await deps.openWebhook('event');
    if (webhook === undefined || job.events.length === 0) return;
    const log = (await deps.openLog()).child({ job: job.name });
    if (opened === undefined) own = await deps.openStore(job.drop.to, { objects: job.drop.s3 });
    const store = opened ?? own;
    if (store === undefined) return;
    const { clock, signal, stateDir } = deps;
    const statePath = new JobState(stateDir, job.name).alerts;
    const redact = (text: string) => deps.redact(text);
    await action({ store, webhook, log, clock, signal, statePath, redact, calendar: await deps.readCalendar() });
  } catch (error) {
    const { code, message } = readFailure(error, (text) => deps.redact(text));
    const reason = `${code}: ${message}`;
    (await deps.openLog()).error({ event: 'events-failed', job: job.name, reason }, `the events failed: ${reason}`);
  } finally {
    await own?.close().catch(() => undefined);
  }
}
