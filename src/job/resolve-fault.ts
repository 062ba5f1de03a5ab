/** A rule that the job file's shape alone cannot hold, told with the key path that breaks it. */
import { Fault } from '../core/errors.ts';

/** A rule that the shape alone cannot hold, at a key path of the file. */
export class ResolveFault extends Fault {
  override readonly name = 'ResolveFault';
  readonly path: readonly (string | number)[];

  constructor(path: readonly (string | number)[], message: string) {
    super('JOB_INVALID', message, { kind: 'usage' });
    this.path = path;
  }
}
