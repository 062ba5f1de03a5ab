/**
 * What a recount proves of a date: that the source has as many rows as are staged, that they have the same ids, or that
 * they have the same values too. Which columns are hashed for it. Pure.
 */

import { TRADE_COLUMNS } from '../api-contract/trade.ts';
import type { HashedColumn } from '../engine/row-hash.ts';
import type { SqlSource } from '../job/job.ts';

/** The strongest first. */
export const PROOFS = ['ids and values', 'ids', 'counts'] as const;

export type Proof = (typeof PROOFS)[number];

/**
 * What a report identifies and sums trades by. The other columns of the trade record are left out, because hashing all of
 * them takes more than twice as long; a row that is corrected in one of them shows in its update mark.
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

/** The weaker of two. */
export function weakerProof(a: Proof, b: Proof): Proof {
  return PROOFS.indexOf(a) > PROOFS.indexOf(b) ? a : b;
}

/** The next weaker one; `undefined` when there is none. */
export function nextProof(proof: Proof): Proof | undefined {
  return PROOFS[PROOFS.indexOf(proof) + 1];
}

/** What is hashed beside the ids; `undefined` when nothing is hashed at all. */
export function listHashedColumns(source: SqlSource, proof: Proof): readonly HashedColumn[] | undefined {
  if (proof === 'counts') return undefined;
  return proof === 'ids' ? [] : listValueColumns(source);
}

/** Of aggregating jobs the rows of the table are hashed, by the columns that their SQL names. */
function listValueColumns(source: SqlSource): readonly HashedColumn[] {
  if (source.kind === 'rows') {
    const isOwn = (name: string) => !TRADE_COLUMNS.some((column) => column.name === name);
    return source.columns.filter(({ name }) => REPORTED.has(name) || isOwn(name));
  }
  const words = new Set(source.sql.match(/\w+/g));
  const named = TRADE_COLUMNS.filter(({ name }) => words.has(name) && name !== 'id' && name !== 'updated_timestamp');
  return named.map(({ name, drop }) => ({ name, type: drop }));
}
