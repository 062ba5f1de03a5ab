/** Fetches a date until its proof holds: an export and the repair of a sealed date differ only in how their stage begins. */
import { isFault } from '../core/errors.ts';
import type { DateWork } from './date-source.ts';

/** A source whose counts still move after this many rounds is not settled: the date stays pending. */
const MAX_ROUNDS = 4;

/**
 * @throws Fault of the work when what it fetches never agrees with what the source counts. When too many rows are bad, their
 *   pages are dropped: the next run fetches them again, because the provider may have corrected them.
 */
export async function settle<Proof>(work: DateWork<Proof>): Promise<Proof> {
  try {
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      await work.fetch();
      const proof = await work.prove();
      if (proof !== undefined) return proof;
    }
  } catch (error) {
    if (isFault(error) && error.code === 'BAD_ROWS') await work.stage.forgetBad();
    throw error;
  }
  throw work.explainUnsettled();
}
