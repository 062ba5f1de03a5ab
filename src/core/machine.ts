/**
 * What the system lets this process have: memory and open files. Invariant: of a container that is what the container may
 * have, not what the machine under it has. What a run needs of either was measured, see "What a machine needs" in
 * `docs/operations.md`.
 */
import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { constrainedMemory } from 'node:process';
import { Fault } from './errors.ts';
import { formatBytes } from './units.ts';

/** Node with its libraries, pages in flight and what a report draws: not the engine's. */
const OUTSIDE_ENGINE_BYTES = 400_000_000;
/** However large the machine is: others live on it. */
const ENGINE_SHARE = 0.9;
/** Of an engine in a process of its own: the rest is for whoever started it, and the system that kills it kills no run. */
const WORKER_SHARE = 0.8;
/** Below it the engine cannot stage the smallest session; with the rest it is the least memory that is tried. */
const LEAST_ENGINE_BYTES = 150_000_000;
/** A run had up to 200 open at the same time: libraries while they load, the engine's threads and parts, connections. */
export const NEEDED_FILES = 256;

/** Memory that this process may use, all in all. */
export function readMemoryBytes(): number {
  return Math.min(totalmem(), constrainedMemory() || totalmem());
}

/**
 * What of it the embedded engine may use. Beyond it a statement fails; without a limit the system would kill the process.
 * @throws Fault `MEMORY_TOO_SMALL`
 */
export function planEngineMemory(memoryBytes: number): number {
  const engineBytes = Math.floor(Math.min(memoryBytes * ENGINE_SHARE, memoryBytes - OUTSIDE_ENGINE_BYTES));
  if (engineBytes >= LEAST_ENGINE_BYTES) return engineBytes;
  const least = formatBytes(OUTSIDE_ENGINE_BYTES + LEAST_ENGINE_BYTES);
  throw new Fault('MEMORY_TOO_SMALL', `this process may use ${formatBytes(memoryBytes)} of memory, ${least} at least`, {
    hint: 'Give the machine or its container more: 1 GB is enough for a million rows (docs/operations.md).',
  });
}

/** What an engine process of `query` and `serve` may use. */
export function planWorkerMemory(memoryBytes: number): number {
  return Math.floor(memoryBytes * WORKER_SHARE);
}

/** Files that this process may have open at once; `undefined` where the system has no such limit, or does not tell. */
export function readFileLimit(): number | undefined {
  try {
    // Node has raised the soft limit to the hard one by now.
    const [, soft = ''] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return soft === '' ? undefined : Number(soft);
  } catch {
    // Only Linux has the file.
    return undefined;
  }
}

/** @throws Fault `FILES_TOO_FEW` */
export function assertEnoughFiles(limit: number | undefined): void {
  if (limit === undefined || limit >= NEEDED_FILES) return;
  throw new Fault('FILES_TOO_FEW', `this process may open ${limit} files, ${NEEDED_FILES} at least are needed`, {
    hint: RAISE_FILES_HINT,
  });
}

export const RAISE_FILES_HINT =
  'Raise the limit: `ulimit -n 1024` in the shell, LimitNOFILE=1024 in a systemd unit, `ulimits: {nofile: 1024}` in compose.';
