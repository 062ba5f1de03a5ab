/**
 * Calls back after a folder changed and is quiet again. Network file systems report no changes, so callers must also
 * check periodically.
 */
import { watch } from 'node:fs';
import type { Clock } from '../core/clock.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';

/** An editor's write, rename and second write happen within this time. */
const QUIET_MS = 500;

export function watchFolder(
  folder: string,
  onChange: () => void,
  { clock, log, signal }: { readonly clock: Clock; readonly log: Log; readonly signal: AbortSignal },
): void {
  let pending: AbortController | undefined;
  const note = () => {
    pending?.abort();
    const quiet = new AbortController();
    pending = quiet;
    clock.sleep(QUIET_MS, quiet.signal).then(onChange, () => undefined); // Another change, or the stop.
  };
  // Not `AbortSignal.any` at every change: a long-lived signal keeps a reference to each signal derived from it.
  signal.addEventListener('abort', () => pending?.abort(), { once: true });
  const onFault = (error: unknown) =>
    log.warn(
      { event: 'watch-failed', folder, reason: describeError(error) },
      `changes in ${folder} are found only once a minute`,
    );
  try {
    const watcher = watch(folder, { signal, persistent: false }, note);
    watcher.on('error', onFault);
  } catch (error) {
    onFault(error);
  }
}
