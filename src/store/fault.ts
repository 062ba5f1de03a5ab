/** Errors of the object store: which operation on which object failed, and what the operator can do. */
import { assertNotAborted, describeError, Fault } from '../core/errors.ts';

export class StoreFault extends Fault {
  override readonly name = 'StoreFault';

  /** @param operation verb of the contract, e.g. `put`; @param target the store's URL and the key */
  constructor(operation: string, target: string, cause: unknown, hint?: string) {
    super('STORE_FAILED', `store: ${operation} ${target} failed: ${describeError(cause)}`, {
      cause,
      ...(hint === undefined ? {} : { hint }),
    });
  }
}

/** What a foreign error means: its cause without anything secret, and what the operator can do. */
export interface Explanation {
  readonly cause: unknown;
  readonly hint: string | undefined;
}

/** Runs one operation; every failure leaves as a `Fault`. @throws StoreFault, or the interruption when aborted */
export async function attempt<T>(
  operation: string,
  target: string,
  signal: AbortSignal | undefined,
  explain: (error: unknown) => Explanation,
  act: () => Promise<T>,
): Promise<T> {
  try {
    return await act();
  } catch (error) {
    assertNotAborted(signal);
    if (error instanceof Fault) throw error;
    const { cause, hint } = explain(error);
    throw new StoreFault(operation, target, cause, hint);
  }
}
