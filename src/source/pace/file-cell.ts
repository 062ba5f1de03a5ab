/**
 * The state of a budget in a folder that all processes of the machine share. Each state is a file named by its number.
 * The next state is written to a temporary file and hard-linked to the next number, which only one process can do.
 * Invariant: there is no lock, so a process may be killed at any point; a reader sees only whole states. Nothing is
 * synced: a state that a power cut makes unreadable costs one interval.
 */
import { randomBytes } from 'node:crypto';
import { linkSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hasErrorCode, makeFolder } from '../../core/atomic-file.ts';
import type { Clock } from '../../core/clock.ts';
import { Fault } from '../../core/errors.ts';
import { type PaceCell, type PaceState, parseState, UNUSED } from './reservations.ts';

const STATE_NAME = /^(\d{1,15})\.json$/;
/**
 * States to keep. A process that slept between reading and linking could otherwise link to a number that was taken and
 * removed meanwhile. It finds its number far behind, and knows that its state never counted.
 */
const KEEP = 16;
/** To mistake a valid state for a stale one, others would have to write this many states between two system calls. */
const FAR_BEHIND = KEEP / 2;
/** A try fails only if another process succeeded, so this many failures in a row are not normal contention. */
const MAX_TRIES = 1_000;
/** A temporary file this old was left by a killed process. */
const ABANDONED_MS = 60_000;

/** Touches no file before the first use. `update` throws Fault `PACE_UNWRITABLE`, `PACE_CONTENDED`. */
export function createFileCell(folder: string, clock: Clock): PaceCell {
  let isPrepared = false;
  const guard = async <T>(action: () => Promise<T>): Promise<T> => {
    try {
      return await action();
    } catch (cause) {
      // Any other error is a defect.
      if (!(cause instanceof Error && 'syscall' in cause)) throw cause;
      throw new Fault('PACE_UNWRITABLE', `the request budget cannot be kept in ${folder}`, {
        cause,
        hint: 'Set FLOWDROP_STATE_DIR to a writable folder on a local disk; processes with the same key share it.',
      });
    }
  };
  const prepare = async () => {
    if (isPrepared) return;
    await makeFolder(folder);
    removeAbandoned(folder, clock.now());
    isPrepared = true;
  };
  return {
    async update(change) {
      return await guard(async () => {
        for (let attempt = 1; attempt <= MAX_TRIES; attempt += 1) {
          await prepare();
          const number = findNewest(folder);
          const current = number === 0 ? UNUSED : readState(folder, number);
          if (current === 'gone') continue;
          const { state, result } = change(current, clock.now());
          if (isSame(state, current)) return result;
          const written = writeState(folder, number + 1, state);
          if (written === true) return result;
          if (written === 'gone') isPrepared = false;
        }
        throw new Fault('PACE_CONTENDED', `too many processes write the request budget in ${folder} at once`, {
          hint: 'Start fewer processes that use this key.',
        });
      });
    },
    async close() {},
  };
}

/** Most updates change nothing. */
function isSame(a: PaceState, b: PaceState | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** Number of the newest state; 0 if there is none. */
function findNewest(folder: string): number {
  return listNumbers(folder).reduce((newest, number) => Math.max(newest, number), 0);
}

function listNumbers(folder: string): readonly number[] {
  try {
    return readdirSync(folder).map((name) => Number(STATE_NAME.exec(name)?.[1] ?? 0));
  } catch (error) {
    // The operator may remove the folder under a running process.
    if (hasErrorCode(error, 'ENOENT')) return [];
    throw error;
  }
}

/** @returns `undefined` if the file is not a valid state, `gone` if it was removed after it was listed */
function readState(folder: string, number: number): PaceState | 'gone' | undefined {
  try {
    return parseState(readFileSync(pathOf(folder, number), 'utf8'));
  } catch (error) {
    if (hasErrorCode(error, 'ENOENT')) return 'gone';
    throw error;
  }
}

/** @returns whether the written state became the current one; `gone` if the folder has just been removed */
function writeState(folder: string, number: number, state: PaceState): boolean | 'gone' {
  const temporary = join(folder, `${randomBytes(6).toString('hex')}.tmp`);
  try {
    writeFileSync(temporary, `${JSON.stringify(state)}\n`, { flag: 'wx' });
    linkSync(temporary, pathOf(folder, number));
  } catch (error) {
    if (hasErrorCode(error, 'ENOENT')) return 'gone';
    // Another process was faster.
    if (!hasErrorCode(error, 'EEXIST')) throw error;
    return false;
  } finally {
    rmSync(temporary, { force: true });
  }
  const numbers = listNumbers(folder).filter((other) => other > 0);
  const counts = Math.max(number, ...numbers) - number < FAR_BEHIND;
  if (!counts) rmSync(pathOf(folder, number), { force: true });
  for (const old of numbers) if (old <= number - KEEP) rmSync(pathOf(folder, old), { force: true });
  return counts;
}

function removeAbandoned(folder: string, nowMs: number): void {
  for (const name of readdirSync(folder)) {
    if (!name.endsWith('.tmp')) continue;
    const age = nowMs - (statSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs ?? nowMs);
    if (age > ABANDONED_MS) rmSync(join(folder, name), { force: true });
  }
}

function pathOf(folder: string, number: number): string {
  return join(folder, `${number}.json`);
}
