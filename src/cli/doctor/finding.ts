/** A finding of `doctor`: one line of its table. A check throws only if the operator stops it. */
import { describeError, isFault } from '../../core/errors.ts';

/** `warn`: it works, but needs attention; `fail`: a run would fail. */
export type FindingStatus = 'ok' | 'warn' | 'fail';

export interface Finding {
  /** What was checked. */
  readonly check: string;
  readonly status: FindingStatus;
  /** What was seen, without secrets. */
  readonly seen: string;
  /** What to do; only if the status is not `ok`. */
  readonly next?: string | undefined;
}

export function ok(check: string, seen: string): Finding {
  return { check, status: 'ok', seen };
}

/** Turns any error of `act` into a finding. @throws Fault of kind `interrupted` */
export async function tryCheck(check: string, act: () => Promise<readonly Finding[]>): Promise<readonly Finding[]> {
  try {
    return await act();
  } catch (error) {
    if (isFault(error) && error.kind === 'interrupted') throw error;
    return [{ check, status: 'fail', seen: describeError(error), next: isFault(error) ? error.hint : undefined }];
  }
}
