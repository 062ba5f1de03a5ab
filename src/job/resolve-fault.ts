/** The fault for rules that the job file's shape cannot express, with the key path that breaks the rule. */
import { Fault } from '../core/errors.ts';

/** A broken rule at a key path of the file. */
export class ResolveFault extends Fault {
  override readonly name = 'ResolveFault';
  readonly path: readonly (string | number)[];

  constructor(path: readonly (string | number)[], message: string) {
    super('JOB_INVALID', message, { kind: 'usage' });
    this.path = path;
  }
}
