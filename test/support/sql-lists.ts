/**
 * The two lists of SQL, and the trades that they speak of: attacks, each with its refusal, and analysts' queries. The
 * service is asked them in `test/service/lists.test.ts`, the archive in `test/archive/differential.slow.test.ts`.
 */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

export interface Repeat {
  readonly prefix: string;
  readonly unit: string;
  readonly times: number;
  readonly suffix: string;
}
export interface Refusal {
  readonly code?: string;
  readonly reason?: string;
}
export interface AttackGroup extends Refusal {
  readonly group: string;
  readonly queries: readonly (string | (Refusal & { readonly sql?: string; readonly repeat?: Repeat }))[];
}
export interface QueryGroup {
  readonly group: string;
  readonly queries: readonly (string | Query)[];
}
export interface Query {
  readonly sql: string;
  /** Number of rows, `some` for at least one (the default), `any` for none or more. */
  readonly rows?: number | 'some' | 'any';
  /** Another query whose rows are the same. */
  readonly same_as?: string;
  /** The rows themselves. */
  readonly data?: readonly unknown[];
}
export interface Attack {
  readonly sql: string;
  readonly code: string;
  readonly reason: string | undefined;
}

/** Shapes are checked by the tests that use them. */
export const ATTACK_GROUPS = readList<AttackGroup>('attacks.yaml');
export const QUERY_GROUPS = readList<QueryGroup>('queries.yaml');

/** The texts of a group of attacks; `{canary_file}` and `{canary_folder}` stand for paths yet to be filled in. */
export function listAttacks(group: AttackGroup): readonly Attack[] {
  return group.queries.map((entry) => {
    const attack = typeof entry === 'string' ? { sql: entry } : entry;
    const { repeat } = attack;
    const sql = repeat ? `${repeat.prefix}${repeat.unit.repeat(repeat.times)}${repeat.suffix}` : (attack.sql ?? '');
    const { code = 'INVALID_SQL', reason } = attack.code === undefined ? group : attack;
    return { sql, code, reason };
  });
}

/** The forty trades of the symbol SEEN. */
export function createSeenTrades() {
  const two = (value: number) => String(value).padStart(2, '0');
  return Array.from({ length: 40 }, (_, k) => ({
    id: `seen-${two(k)}`,
    time: `2026-11-1${k % 2 ? 7 : 8} ${two(10 + (k % 5))}:${two(k)}:00`,
    symbol: 'SEEN',
    size: k + 1,
    price: 1 + k / 4,
    put_call: k % 4 === 0 ? 'PUT' : 'CALL',
    side: k % 3 === 0 ? 'BID' : 'ASK',
  }));
}

function readList<Group>(name: string): readonly Group[] {
  return parse(readFileSync(new URL(`../service/${name}`, import.meta.url), 'utf8')) as Group[]; // See above.
}
