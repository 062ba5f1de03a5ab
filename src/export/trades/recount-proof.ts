/**
 * How much a recount can prove at this source: ids and values, ids alone, or counts alone. What the source refuses to hash,
 * or writes in another form than it hashes, is remembered with the hashed columns and logged once.
 */
import { isFault } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { SqlJob } from '../../job/job.ts';
import { bestProof, listHashedColumns, nextProof, type Proof, weakerProof } from '../../plan/proof.ts';
import { SourceFault } from '../../source/source.ts';
import type { ApiLimits } from '../../state/limits.ts';

export interface ProofDeps {
  readonly limits: ApiLimits;
  readonly log?: Log | undefined;
}

/** The strongest proof that the source allows, as far as is known. */
export function proofOf({ recountProofs: known }: ApiLimits, { source }: SqlJob): Proof {
  const best = bestProof(source);
  return weakerProof(best, known[keyOf(source)] ?? best);
}

/** Remembers that the source allows no stronger proof. */
export function noteProof({ limits, log }: ProofDeps, job: SqlJob, proof: Proof, reason: string): void {
  if (proofOf(limits, job) === proof) return;
  limits.recountProofs = { ...limits.recountProofs, [keyOf(job.source)]: proof };
  log?.warn(
    { event: 'recount-weaker', proof, reason },
    `the recounts of this source compare ${proof === 'ids' ? 'ids, not values' : 'counts only'}: ${reason}`,
  );
}

/**
 * Asks with the strongest proof; if the source refuses it, with the next weaker one. A malformed answer also falls back, so
 * that the date is counted, but is not remembered.
 * @returns the result of the last `ask`; its hashes show which proof it used
 */
export async function withProof<Answer>(
  deps: ProofDeps,
  job: SqlJob,
  ask: (proof: Proof) => Promise<Answer>,
): Promise<Answer> {
  let reason: string | undefined;
  for (let proof = proofOf(deps.limits, job); ; ) {
    try {
      const answer = await ask(proof);
      if (reason !== undefined) noteProof(deps, job, proof, reason);
      return answer;
    } catch (error) {
      const next = nextProof(proof);
      const isOdd = isFault(error) && error.code === 'ANSWER_MALFORMED';
      if (next === undefined || !(isOdd || isRefusedSql(error))) throw error;
      if (!isOdd) reason ??= error.message;
      proof = next;
    }
  }
}

/** The query itself was refused, not the key or its size. The portal sends no code. */
export function isRefusedSql(error: unknown): error is SourceFault {
  if (!(error instanceof SourceFault) || error.action !== 'stop') return false;
  return error.code.startsWith('INVALID_') || error.code === 'REQUEST_REFUSED';
}

function keyOf(source: SqlJob['source']): string {
  return (listHashedColumns(source, bestProof(source)) ?? []).map(({ name }) => name).join(',');
}
