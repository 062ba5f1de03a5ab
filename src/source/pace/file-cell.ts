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
  return {
    async update(change) {
      for (let attempt = 1; attempt <= MAX_TRIES; attempt += 1) {
        try {
          if (!isPrepared) {
            await makeFolder(folder).catch((cause: unknown) => {
              throw toFault(folder, cause);
            });
            removeAbandoned(folder, clock.now());
          }
          isPrepared = true;
          const number = Math.max(0, ...listNumbers(folder));
          const current = number === 0 ? UNUSED : parseState(readFileSync(pathOf(folder, number), 'utf8'));
          const { state, result } = change(current, clock.now());
          if (isSame(state, current) || writeState(folder, number + 1, state)) return result;
        } catch (cause) {
          // A state that was listed may be gone, and an operator may remove the folder of a running process.
          isPrepared = false;
          if (!hasErrorCode(cause, 'ENOENT')) throw toFault(folder, cause);
        }
      }
      throw new Fault('PACE_CONTENDED', `too many processes write the request budget in ${folder} at once`, {
        hint: 'Start fewer processes that use this key.',
      });
    },
    async close() {},
  };
}

/** For errors of the file system; any other error is a defect and stays as it is. */
function toFault(folder: string, cause: unknown): unknown {
  if (!(cause instanceof Error && 'syscall' in cause)) return cause;
  return new Fault('PACE_UNWRITABLE', `the request budget cannot be kept in ${folder}`, {
    cause,
    hint: 'Set FLOWDROP_STATE_DIR to a writable folder on a local disk; processes with the same key share it.',
  });
}

/** Most updates change nothing. */
function isSame(a: PaceState, b: PaceState | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function listNumbers(folder: string): readonly number[] {
  return readdirSync(folder).map((name) => Number(STATE_NAME.exec(name)?.[1] ?? 0));
}

/** @returns whether the written state became the current one */
function writeState(folder: string, number: number, state: PaceState): boolean {
  const temporary = join(folder, `${randomBytes(6).toString('hex')}.tmp`);
  try {
    writeFileSync(temporary, `${JSON.stringify(state)}\n`, { flag: 'wx' });
    linkSync(temporary, pathOf(folder, number));
  } catch (error) {
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
