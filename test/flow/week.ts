/**
 * Days of the exchange's calendar as a daemon lives through them under a moved clock, from tick to tick. The service is up
 * around the ticks of sessions only: whatever asks it at another time fails, and is seen in the log.
 */
import { expect, vi } from 'vitest';
import { isSession } from '../../src/calendar/session.ts';
import { addDays, parseWallClock } from '../../src/calendar/wall-clock.ts';
import { type DaemonProcess, type LogLine, startDaemon } from '../support/daemon.ts';
import { startService } from '../support/flowdrop.ts';
import type { MovedClock } from '../support/moved-clock.ts';

export interface WeekPlan {
  readonly from: string;
  readonly to: string;
  /** Hour and minute of the ticks in New York, of each day. */
  readonly tickOf: (date: string) => readonly [hour: number, minute: number];
  /** Days on which the machine sleeps; when it wakes on the next one, the newest missed tick is due at once. */
  readonly asleep: readonly string[];
  /** Days on which the API is away. */
  readonly outage: readonly string[];
  /** Day on which daemon and run are killed in the middle of the run. */
  readonly killed: string;
}

export interface WeekParts {
  readonly cwd: string;
  readonly clock: MovedClock;
  /** The service's, with every session in it. */
  readonly dataDir: string;
  readonly port: number;
  readonly env: Readonly<Record<string, string>>;
  /** Writes the job file with this tick. */
  readonly schedule: (hour: number, minute: number) => Promise<void>;
  readonly listSealed: () => Promise<readonly string[]>;
}

export interface Visit {
  readonly date: string;
  /** What came of the tick, or of the try again: an outcome of a run, or `no-session`. */
  readonly outcomes: readonly string[];
  readonly reasons: readonly string[];
  /** When the first of its runs was started, by the moved clock. */
  readonly startedAt: string | undefined;
}

export interface Week {
  readonly visits: readonly Visit[];
  /** Every daemon that there was. */
  readonly daemons: readonly DaemonProcess[];
  /** Dates that were sealed when daemon and run were killed. */
  readonly sealedAtKill: readonly string[];
}

/** Before a tick, so that the daemon's own timer for it runs out. */
const LEAD_MS = 1_500;
/** The first daemon starts, and the machine wakes, so long after a tick that must be caught up. */
const LATE_MS = 60_000;
/** Every tick ends in one of them. */
const ENDS = ['finished', 'no-session'];

/** Starts a daemon, and leaves none behind. The clock must show a time before the first tick. */
export async function liveThrough(plan: WeekPlan, parts: WeekParts): Promise<Week> {
  const { clock, dataDir, port } = parts;
  const daemons: DaemonProcess[] = [];
  const visits: Visit[] = [];
  let sealedAtKill: readonly string[] = [];
  const start = async (): Promise<DaemonProcess> => {
    const started = await startDaemon(parts.cwd, { ...clock.env, ...parts.env });
    daemons.push(started);
    return started;
  };
  let [hour, minute] = plan.tickOf(plan.from);
  await parts.schedule(hour, minute);
  let daemon: DaemonProcess | undefined;

  const visit = async (date: string, ms: number, isUp: boolean, isKilled = false) => {
    await daemon?.untilIdle();
    const from = ['--data-dir', dataDir, '--as-of', new Date(ms).toISOString(), '--port', String(port)];
    const service = isUp ? await startService(from) : undefined;
    try {
      await clock.moveTo(ms, daemon?.pid);
      let seen = daemon?.lines.length ?? 0;
      const ends = daemon?.of(...ENDS).length ?? 0;
      if (service && daemon && isKilled) {
        // The first answer is to the question how much there is: nothing of the day can be sealed yet.
        await vi.waitFor(() => expect(service.requests.length).toBeGreaterThan(0), { timeout: 60_000, interval: 2 });
        await daemon.kill();
        sealedAtKill = await parts.listSealed();
        daemon = undefined;
        seen = 0;
      }
      const before = daemon;
      daemon ??= await start();
      await daemon.until(before ? ends + 1 : 1, ...ENDS);
      // Its status is read after each run.
      await daemon.untilIdle();
      visits.push(describeVisit(date, daemon.lines.slice(seen)));
    } finally {
      await service?.stop();
    }
  };

  try {
    for (let date = plan.from; date <= plan.to; date = addDays(date, 1)) {
      if (plan.asleep.includes(date)) continue;
      const isWaking = plan.asleep.includes(addDays(date, -1));
      const isDue = isSession(date) || isWaking;
      const isUp = isDue && !plan.outage.includes(date);
      const retryAt = findRetry(daemon);
      if (retryAt !== undefined) await visit(date, retryAt + LEAD_MS, isUp);
      const tick = plan.tickOf(date);
      if (tick[0] !== hour || tick[1] !== minute) {
        [hour, minute] = tick;
        const scheduled = daemon?.of('scheduled').length ?? 0;
        await parts.schedule(hour, minute);
        await daemon?.until(scheduled + 1, 'scheduled');
      }
      const tickMs = parseWallClock(date, hour * 3600 + minute * 60);
      await visit(date, daemon && !isWaking ? tickMs - LEAD_MS : tickMs + LATE_MS, isUp, date === plan.killed);
    }
  } finally {
    await daemon?.stop();
  }
  return { visits, daemons, sealedAtKill };
}

function describeVisit(date: string, lines: readonly LogLine[]): Visit {
  const started = lines.filter(({ event }) => event === 'started');
  const ended = lines.filter(({ event }) => ENDS.includes(String(event)));
  return {
    date,
    reasons: started.map(({ reason }) => String(reason)),
    outcomes: ended.map(({ event, outcome }) => String(outcome ?? event)),
    startedAt: started[0] && String(started[0]['time']),
  };
}

/** When it tries again what failed last, milliseconds; `undefined` when nothing did. */
function findRetry(daemon: DaemonProcess | undefined): number | undefined {
  const last = daemon?.of(...ENDS, 'retry-planned').at(-1);
  return last?.['event'] === 'retry-planned' ? Date.parse(String(last['at'])) : undefined;
}
