/** A finding of `doctor`: one line of its table. A check throws only if the operator stops it. */
import { describeError, isFault } from '../../core/errors.ts';

export interface Finding {
  /** What was checked. */
  readonly check: string;
  /** `warn`: it works, but needs attention; `fail`: a run would fail. */
  readonly status: 'ok' | 'warn' | 'fail';
  /** What was seen, without secrets. */
  readonly seen: string;
  /** What to do; only if the status is not `ok`. */
  readonly next?: string | undefined;
}

export function ok(check: string, seen: string): Finding {
  return { check, status: 'ok', seen };
}

export function warn(check: string, seen: string, next: string | undefined): Finding {
  return { check, status: 'warn', seen, next };
}

export function fail(check: string, seen: string, next: string | undefined): Finding {
  return { check, status: 'fail', seen, next };
}

/** The finding that an error is. @throws Fault of kind `interrupted` */
export function blame(check: string, error: unknown): Finding {
  if (isFault(error) && error.kind === 'interrupted') throw error;
  return fail(check, describeError(error), isFault(error) ? error.hint : undefined);
}

/**
 * Turns any error of `act` into a finding. A text that it returns is what was seen where all is well.
 * @throws Fault of kind `interrupted`
 */
export async function tryCheck(
  check: string,
  act: () => Promise<readonly Finding[] | string | undefined>,
): Promise<readonly Finding[]> {
  try {
    const found = await act();
    return typeof found === 'string' ? [ok(check, found)] : (found ?? []);
  } catch (error) {
    return [blame(check, error)];
  }
}
