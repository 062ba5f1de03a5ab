/**
 * The memory and open files that this process may use. Invariant: in a container, this is the container's limit, not
 * the machine's. The needs of a run were measured, see "What a machine needs" in `docs/operations.md`.
 */
import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { constrainedMemory } from 'node:process';
import { Fault } from './errors.ts';
import { formatBytes } from './units.ts';

/** Memory for Node with its libraries, pages in flight and report charts: not the engine's. */
const OUTSIDE_ENGINE_BYTES = 400_000_000;
/** Upper bound on any machine: other programs run there too. */
const ENGINE_SHARE = 0.9;
/**
 * For an engine in its own process. The rest is for its parent; if the system kills the engine process, no run dies.
 */
const WORKER_SHARE = 0.8;
/** With less the engine cannot stage the smallest session. Least process memory: this plus `OUTSIDE_ENGINE_BYTES`. */
const LEAST_ENGINE_BYTES = 150_000_000;
/** A run had up to 200 files open at once: libraries while loading, the engine's threads and parts, connections. */
export const NEEDED_FILES = 256;

/** Total memory that this process may use. */
export function readMemoryBytes(): number {
  return Math.min(totalmem(), constrainedMemory() || totalmem());
}

/**
 * Share of that memory for the embedded engine. A statement that needs more fails; without a limit the system would
 * kill the process.
 * @throws Fault `MEMORY_TOO_SMALL`
 */
export function planEngineMemory(memoryBytes: number): number {
  const engineBytes = Math.floor(Math.min(memoryBytes * ENGINE_SHARE, memoryBytes - OUTSIDE_ENGINE_BYTES));
  if (engineBytes >= LEAST_ENGINE_BYTES) return engineBytes;
  const least = formatBytes(OUTSIDE_ENGINE_BYTES + LEAST_ENGINE_BYTES);
  throw new Fault(
    'MEMORY_TOO_SMALL',
    `this process may use ${formatBytes(memoryBytes)} of memory; it needs at least ${least}`,
    {
      hint: 'Give the machine or its container more: 1 GB is enough for a million rows (docs/operations.md).',
    },
  );
}

/** Memory for an engine process of `query` and `serve`. */
export function planWorkerMemory(memoryBytes: number): number {
  return Math.floor(memoryBytes * WORKER_SHARE);
}

/** Files that this process may have open at once; `undefined` where the system has or reports no limit. */
export function readFileLimit(): number | undefined {
  try {
    // Node has already raised the soft limit to the hard limit.
    const [, soft = ''] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return soft === '' ? undefined : Number(soft);
  } catch {
    // The file exists only on Linux.
    return undefined;
  }
}

/** @throws Fault `FILES_TOO_FEW` */
export function assertEnoughFiles(limit: number | undefined): void {
  if (limit === undefined || limit >= NEEDED_FILES) return;
  throw new Fault('FILES_TOO_FEW', `this process may open ${limit} files; it needs at least ${NEEDED_FILES}`, {
    hint: RAISE_FILES_HINT,
  });
}

export const RAISE_FILES_HINT =
  'Raise the limit: `ulimit -n 1024` in the shell, LimitNOFILE=1024 in a systemd unit, `ulimits: {nofile: 1024}` in compose.';
