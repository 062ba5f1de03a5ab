/** Errors of the object store: which operation on which object failed, and what the operator can do. */
import { assertNotAborted, describeError, Fault } from '../core/errors.ts';
import { formatBytes } from '../core/units.ts';
import { MAX_GET_BYTES } from './store.ts';

export class StoreFault extends Fault {
  override readonly name = 'StoreFault';

  /** @param operation verb of the contract, e.g. `put` @param target the store's URL and the key */
  constructor(operation: string, target: string, cause: unknown, hint?: string) {
    super('STORE_FAILED', `store: ${operation} ${target} failed: ${describeError(cause)}`, {
      cause,
      hint,
    });
  }
}

/** @param message what the store did with a conditional write */
export function createUnfit(message: string): Fault {
  return new Fault('STORE_UNFIT', message, {
    hint: 'This store ignores If-None-Match: two workers could seal one date. Use one that supports it.',
  });
}

/** @throws Fault `OBJECT_TOO_LARGE` for an object that is too large to read into memory */
export function assertSmall(target: string, sizeBytes: number): void {
  if (sizeBytes <= MAX_GET_BYTES) return;
  const came = `${target} has ${formatBytes(sizeBytes)}; at most ${formatBytes(MAX_GET_BYTES)} are read into memory`;
  throw new Fault('OBJECT_TOO_LARGE', `store: ${came}`, {
    hint: 'flowdrop writes no file this large under this name: another program wrote it. Move it away.',
  });
}

/** Explains a foreign error: its cause without secrets, and what the operator can do. */
export interface Explanation {
  readonly cause: unknown;
  readonly hint: string | undefined;
}

/** Runs one operation; every failure leaves as a `Fault`. @throws StoreFault, or the interruption if aborted */
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
