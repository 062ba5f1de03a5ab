/**
 * Tells that something in a folder has changed, once it is quiet again. File systems over a network tell nothing: whoever
 * needs to know looks from time to time all the same.
 */
import { watch } from 'node:fs';
import type { Clock } from '../core/clock.ts';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';

/** An editor writes, renames and writes again within less. */
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
  // Not `AbortSignal.any` at every change: a signal that lives long keeps a reference to all that were made of it.
  signal.addEventListener('abort', () => pending?.abort(), { once: true });
  const onFault = (error: unknown) =>
    log.warn(
      { event: 'watch-failed', folder, reason: describeError(error) },
      `${folder} is looked at every minute only`,
    );
  try {
    const watcher = watch(folder, { signal, persistent: false }, note);
    watcher.on('error', onFault);
  } catch (error) {
    onFault(error);
  }
}
