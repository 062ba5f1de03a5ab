/** What befalls daemons that share a schedule, and at which tick. Pure. */
import { formatWallDate } from '../../src/calendar/wall-clock.ts';

const KILLS = ['killed-in-run', 'killed-idle', 'killed-sealed', 'killed-without-run'] as const;
const STOPS = ['stopped-in-run', 'stopped-idle'] as const;
const OUTAGES = ['redis-killed', 'redis-killed-in-run', 'redis-away', 'api-held'] as const;

/**
 * `killed-in-run`: daemon and run, before anything of the day is sealed. `killed-sealed`: both, when the day is sealed and
 * its report is not mailed. `killed-without-run`: the daemon alone, while its run goes on. `redis-away`: when the tick falls
 * due, until each daemon has said so. `api-held`: the API says nothing for longer than a lease, so the run takes longer.
 */
export type Hit = (typeof KILLS)[number] | (typeof STOPS)[number] | (typeof OUTAGES)[number];

export interface HitPlan {
  readonly ticks: number;
  readonly kills: number;
  readonly stops: number;
  readonly outages: number;
  /** Every so many ticks, from the first on, a run has a day to seal. */
  readonly everyNth: number;
}

/** @returns index of a tick to what befalls it @throws RangeError when there are more than places */
export function planHits({ ticks, kills, stops, outages, everyNth }: HitPlan): ReadonlyMap<number, Hit> {
  const all = [...repeatTo(kills, KILLS), ...repeatTo(stops, STOPS), ...repeatTo(outages, OUTAGES)];
  const hits = new Map<number, Hit>();
  for (const isInRun of [true, false]) {
    const chosen = all.filter((hit) => isHitInRun(hit) === isInRun);
    // The first tick is that of the start.
    const places = Array.from({ length: ticks }, (_, at) => at).slice(1);
    const free = places.filter((at) => (at % everyNth === 0) === isInRun);
    if (chosen.length > free.length)
      throw new RangeError(`${chosen.length} hits ${isInRun ? 'in a run' : 'between runs'}, and ${free.length} places`);
    for (const [index, hit] of chosen.entries()) {
      hits.set(free[Math.floor(((index + 0.5) * free.length) / chosen.length)] ?? 0, hit);
    }
  }
  return hits;
}

export function isHitInRun(hit: Hit): boolean {
  switch (hit) {
    case 'killed-in-run':
    case 'killed-sealed':
    case 'killed-without-run':
    case 'stopped-in-run':
    case 'redis-killed-in-run':
    case 'api-held':
      return true;
    case 'killed-idle':
    case 'stopped-idle':
    case 'redis-killed':
    case 'redis-away':
      return false;
    default:
      return hit satisfies never;
  }
}

/** When a tick was due, by the exchange's clock. */
export function formatTick(dueAtMs: number): string {
  const time = new Date(dueAtMs).toLocaleTimeString('en-GB', { timeZone: 'America/New_York' });
  return `${formatWallDate(dueAtMs)} ${time.slice(0, 5)}`;
}

function repeatTo<T>(count: number, values: readonly T[]): readonly T[] {
  return Array.from({ length: count }, (_, at) => values[at % values.length]).flatMap((value) => value ?? []);
}
