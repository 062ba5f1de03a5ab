/** Errors of the object store: which operation on which object failed, and what the operator can do. */
import { describeError, Fault } from '../core/errors.ts';

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
