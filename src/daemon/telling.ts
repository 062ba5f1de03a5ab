/**
 * What the operators of jobs must be told that no run tells: a run that could not tell it itself, a job file that is
 * broken, gaps between runs. Each is told by a child. Invariant: a death or a broken file stays owed, and is tried again,
 * until it got through or is over; who was told of what is the child's to remember, so that nobody is told twice. An
 * untold death outlives this process; a file that is broken is found again anyway, and gaps are looked for every hour.
 */
import type { Clock } from '../core/clock.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Chores } from './chores.ts';
import type { JobRecord } from './job-record.ts';
import type { Untold } from './unfinished.ts';

export type OwedCause = 'died' | 'broken';

export interface TellingDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly chores: Pick<Chores, 'sendAlert'>;
  /** How a run ended of which nobody has been told yet, by job. */
  readonly untold: Untold;
  readonly hasAlerts: (job: JobRecord['filed']['job']) => boolean;
  readonly recordOf: (job: string) => JobRecord | undefined;
  readonly isStopping: () => boolean;
}

export interface Telling {
  /** A broken file may be said again and again while it is so; it is told once. */
  owe(job: string, cause: OwedCause, text: string): void;
  /** It is over: if it has not got through, it is not tried again. Without effect where nothing is owed. */
  drop(job: string, cause: OwedCause): void;
  lookForGaps(job: string): void;
  /** Tries again what is due. To be called every few seconds. */
  retry(): void;
  /** What a daemon before this one could not tell. Never rejects. */
  recall(job: string): Promise<void>;
}

interface Owed {
  readonly job: string;
  readonly cause: OwedCause;
  text: string;
  state: 'waiting' | 'sending' | 'told';
  triedAtMs: number;
  waitMs: number;
}

/** Doubled after each try; an hour is how often gaps are told too. */
const FIRST_WAIT_MS = 60_000;
const MAX_WAIT_MS = 3_600_000;

export function createTelling(deps: TellingDeps): Telling {
  const { clock, log, untold } = deps;
  const owed = new Map<string, Owed>();
  const keyOf = (job: string, cause: OwedCause) => `${cause} ${job}`;
  /** One after another: what is forgotten must not be written after that. */
  let lastNote: Promise<void> = Promise.resolve();
  const inTurn = (action: () => Promise<void>) => {
    lastNote = lastNote.then(action);
  };

  /** @returns whether everybody was told. Never rejects */
  const tell = async (job: string, what: string, args: readonly string[]): Promise<boolean> => {
    const record = deps.recordOf(job);
    if (!record || deps.isStopping()) return false;
    // That nothing is about to expire is told to nobody, every hour.
    log[what === 'gaps' ? 'debug' : 'info']({ event: 'telling', job, what }, `${job}: telling its operators`);
    try {
      await deps.chores.sendAlert(record.filed.path, args);
      return true;
    } catch (error) {
      const reason = describeError(error);
      if (!deps.isStopping()) log.error({ event: 'alert-failed', job, what, reason }, `${job}: ${reason}`);
      return false;
    }
  };
  const send = async (debt: Owed): Promise<void> => {
    const { job, cause, text } = debt;
    debt.state = 'sending';
    const hasGotThrough = await tell(job, cause, [`--${cause}`, text]);
    debt.state = hasGotThrough ? 'told' : 'waiting';
    debt.triedAtMs = clock.now();
    if (!hasGotThrough) debt.waitMs = Math.min(MAX_WAIT_MS, Math.max(FIRST_WAIT_MS, debt.waitMs * 2));
    // The next death is told anew, unless the child remembers this one; a file is broken until it is mended.
    else if (cause === 'died' && owed.get(keyOf(job, cause)) === debt) drop(job, cause);
  };
  const add = (job: string, cause: OwedCause, text: string) => {
    const debt: Owed = { job, cause, text, state: 'waiting', triedAtMs: clock.now(), waitMs: 0 };
    owed.set(keyOf(job, cause), debt);
    void send(debt);
  };
  function drop(job: string, cause: OwedCause): void {
    if (owed.delete(keyOf(job, cause)) && cause === 'died') inTurn(() => untold.forget(job));
  }
  const hasAddressee = (job: string) => {
    const record = deps.recordOf(job);
    return record !== undefined && deps.hasAlerts(record.filed.job);
  };
  return {
    drop,
    owe(job, cause, text) {
      if (deps.isStopping() || !hasAddressee(job)) return;
      const known = owed.get(keyOf(job, cause));
      if (cause === 'died') inTurn(() => untold.note(job, text));
      if (known) known.text = text;
      else add(job, cause, text);
    },
    lookForGaps(job) {
      if (hasAddressee(job)) void tell(job, 'gaps', []);
    },
    retry() {
      for (const debt of owed.values()) {
        // Its own time, not a date: a clock that was set back must not put it off.
        if (debt.state === 'waiting' && Math.abs(clock.now() - debt.triedAtMs) >= debt.waitMs) void send(debt);
      }
    },
    async recall(job) {
      const text = await untold.read(job);
      if (text !== undefined && !owed.has(keyOf(job, 'died')) && hasAddressee(job)) add(job, 'died', text);
    },
  };
}
