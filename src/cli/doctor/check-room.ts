/**
 * Doctor's check of disks: whether a night of the jobs fits on each disk that it writes to. What a night needs follows
 * from the newest drops; before the first one it is a guess.
 */
import { stat, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { formatBytes } from '../../core/units.ts';
import type { Job } from '../../job/job.ts';
import { Ledger } from '../../ledger/ledger.ts';
import type { Store } from '../../store/store.ts';
import { type Finding, fail, ok, warn } from './finding.ts';

/** What a night of one job writes, in bytes. */
export interface NightNeed {
  readonly drop: number;
  /** Staged rows and the file that is made of them. */
  readonly state: number;
  /** Whether nothing is sealed yet. */
  readonly isGuess: boolean;
}

/** A folder that a night writes to. */
export interface WrittenPlace {
  readonly what: string;
  readonly path: string;
  readonly bytes: number;
}

/** A full session of 7 million trades, measured; the sums and snapshots of other jobs are far smaller. */
const GUESSED_DROP_BYTES = 650_000_000;
const GUESSED_OTHER_BYTES = 100_000_000;
/** A staged row takes about eight times what it takes in the drop: 5 GB for a full session. */
const STAGE_FACTOR = 8;
/** The largest of these is expected. */
const DATES_LOOKED_AT = 20;
/** Mails with their attachments. */
export const OUTBOX_NIGHT_BYTES = 20_000_000;

/** @param store absent: a guess @throws StoreFault */
export async function estimateNight({ source, drop }: Job, store?: Store): Promise<NightNeed> {
  const entries = store && (await new Ledger(store, drop.dataset).conditions()).entries;
  const newest = [...(entries?.values() ?? [])].slice(-DATES_LOOKED_AT);
  const sizes = newest.flatMap(({ size }) => (size ? [size] : []));
  const isStaged = source.kind === 'rows' || source.kind === 'aggregate';
  const guess = source.kind === 'rows' || source.kind === 'table' ? GUESSED_DROP_BYTES : GUESSED_OTHER_BYTES;
  const bytes = sizes.length > 0 ? Math.max(...sizes) : guess;
  return { drop: bytes, state: bytes * (isStaged ? STAGE_FACTOR + 1 : 1), isGuess: sizes.length === 0 };
}

/** One finding a disk: what is free there, and what a night needs. @param isGuess whether a need is only a guess */
export async function checkRoom(places: readonly WrittenPlace[], isGuess: boolean): Promise<readonly Finding[]> {
  const disks = new Map<number, WrittenPlace[]>();
  for (const place of places) {
    const { dev } = await stat(await findExisting(place.path));
    disks.set(dev, [...(disks.get(dev) ?? []), place]);
  }
  return await Promise.all([...disks.values()].map((shared) => describeDisk(shared, isGuess)));
}

async function describeDisk(places: readonly WrittenPlace[], isGuess: boolean): Promise<Finding> {
  const { bavail, bsize } = await statfs(await findExisting(places[0]?.path ?? '.'));
  const [free, needed] = [bavail * bsize, places.reduce((sum, { bytes }) => sum + bytes, 0)];
  const names = [...new Set(places.map(({ what, path }) => `${what} ${path}`))].join(', ');
  const need = `a night needs about ${formatBytes(needed)}${isGuess ? ', if its sessions are full' : ''}`;
  const seen = `${formatBytes(free)} free for ${names}; ${need}`;
  if (free >= needed) return ok('disk', seen);
  const next = `Free ${formatBytes(needed - free)} on this disk, or use another one: \`drop.to\` of the job, FLOWDROP_STATE_DIR, FLOWDROP_OUTBOX_DIR.`;
  // A guess may be ten times too high: small sessions need little.
  return (isGuess && free >= needed / 10 ? warn : fail)('disk', seen, next);
}

/** The nearest folder above that exists: a run creates the others. */
async function findExisting(path: string): Promise<string> {
  for (let place = path; ; place = dirname(place)) {
    if (place === dirname(place) || (await stat(place).catch(() => undefined)) !== undefined) return place;
  }
}
