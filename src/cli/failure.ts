/** A failure as a person or a program reads it: one block on stderr, or one JSON document on stdout. Pure. */
import { describeError, EXIT_CODES, isFault } from '../core/errors.ts';

export interface FailureReport {
  readonly exitCode: number;
  readonly text: string;
  readonly json: { readonly error: { readonly code: string; readonly message: string; readonly hint?: string } };
}

/** @param debug adds the stack */
export function describeFailure(error: unknown, debug: boolean): FailureReport {
  const fault = isFault(error) ? error : undefined;
  const code = fault?.code ?? 'UNEXPECTED';
  const message = fault ? fault.message : describeError(error);
  const hint = fault ? fault.hint : 'This is a fault of flowdrop itself; run again with --debug and report it.';
  const stack = debug && error instanceof Error && error.stack ? `\n${error.stack}` : '';
  return {
    exitCode: EXIT_CODES[fault?.kind ?? 'failed'],
    text: `flowdrop: ${code}: ${message}\n${hint ? `  -> ${hint}\n` : ''}${stack}`,
    json: { error: { code, message, ...(hint ? { hint } : {}) } },
  };
}
