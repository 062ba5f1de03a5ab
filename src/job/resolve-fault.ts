/** The fault for rules that the job file's shape cannot express, with the key path that breaks the rule. */
import { Fault } from '../core/errors.ts';

/** A broken rule at a key path of the file. */
export class ResolveFault extends Fault {
  override readonly name = 'ResolveFault';
  readonly path: readonly (string | number)[];

  /** Whether the value at the path may be a secret, which no message shows. */
  readonly isSecret: boolean;

  constructor(path: readonly (string | number)[], message: string, isSecret = false) {
    super('JOB_INVALID', message, { kind: 'usage' });
    this.path = path;
    this.isSecret = isSecret;
  }
}
