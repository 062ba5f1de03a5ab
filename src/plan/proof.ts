/**
 * The proofs that a recount can give for a date: the source has the same number of rows as the stage, the same ids, or
 * also the same values. Also selects the columns to hash. Pure.
 */

import { TRADE_COLUMNS } from '../api-contract/trade.ts';
import type { HashedColumn } from '../engine/row-hash.ts';
import type { SqlSource } from '../job/job.ts';

/** Strongest first. */
export const PROOFS = ['ids and values', 'ids', 'counts'] as const;

export type Proof = (typeof PROOFS)[number];

/**
 * The columns by which reports identify and sum trades. Other columns of the trade record are not hashed, because
 * hashing all of them takes more than twice as long; a correction in one of them shows in the row's update mark.
 */
const REPORTED: ReadonlySet<string> = new Set([
  'symbol',
  'time',
  'put_call',
  'strike',
  'expiration_date',
  'option_activity_type',
  'oi',
  'size',
  'price',
  'underlying_price',
  'premium',
  'sentiment',
  'delta',
  'gamma',
  'side',
]);

/** The strongest proof that a job's rows allow. */
export function bestProof(source: SqlSource): Proof {
  return listValueColumns(source).length > 0 ? 'ids and values' : 'ids';
}

/** The weaker of two proofs. */
export function weakerProof(a: Proof, b: Proof): Proof {
  return PROOFS.indexOf(a) > PROOFS.indexOf(b) ? a : b;
}

/** The next weaker proof; `undefined` if there is none. */
export function nextProof(proof: Proof): Proof | undefined {
  return PROOFS[PROOFS.indexOf(proof) + 1];
}

/** The columns that are hashed beside the ids; `undefined` if nothing is hashed. */
export function listHashedColumns(source: SqlSource, proof: Proof): readonly HashedColumn[] | undefined {
  if (proof === 'counts') return undefined;
  return proof === 'ids' ? [] : listValueColumns(source);
}

/** For aggregating jobs the rows of the table are hashed, by the columns that the job's SQL names. */
function listValueColumns(source: SqlSource): readonly HashedColumn[] {
  if (source.kind === 'rows') {
    const isOwn = (name: string) => !TRADE_COLUMNS.some((column) => column.name === name);
    return source.columns.filter(({ name }) => REPORTED.has(name) || isOwn(name));
  }
  const words = new Set(source.sql.match(/\w+/g));
  const named = TRADE_COLUMNS.filter(({ name }) => words.has(name) && name !== 'id' && name !== 'updated_timestamp');
  return named.map(({ name, drop }) => ({ name, type: drop }));
}
