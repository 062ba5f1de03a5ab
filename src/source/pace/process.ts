/** Which process this is, and whether another one on the list still runs: by number and beginning, as numbers come back. */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { pid } from 'node:process';
import { isProcessAlive } from '../../core/liveness.ts';
import type { Waiter } from './state.ts';

export type ProcessIdentity = Pick<Waiter, 'host' | 'pid' | 'process_start'>;

/** What `/proc` cannot tell (not Linux). */
const UNKNOWN_START = '';
/** Place of the start time among the fields after the program's name, which is in parentheses and may hold anything. */
const START_FIELD = 19;

export function identifyProcess(): ProcessIdentity {
  return { host: hostname(), pid, process_start: readStart(pid) };
}

/** Of a process of another host (a container, a shared folder) only its silence tells: it counts as running. */
export function isRunning(me: ProcessIdentity, other: ProcessIdentity): boolean {
  if (other.host !== me.host) return true;
  if (other.pid === me.pid) return other.process_start === me.process_start;
  if (!isProcessAlive(other.pid)) return false;
  const start = readStart(other.pid);
  return start === UNKNOWN_START || other.process_start === UNKNOWN_START || start === other.process_start;
}

function readStart(id: number): string {
  try {
    const stat = readFileSync(`/proc/${id}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[START_FIELD] ?? UNKNOWN_START;
  } catch {
    return UNKNOWN_START;
  }
}
