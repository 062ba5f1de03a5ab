/**
 * The two lists of SQL, and the trades that they speak of: attacks, each with its refusal, and analysts' queries. The
 * service is asked them in `test/service/lists.test.ts`, the archive in `test/archive/differential.slow.test.ts`.
 */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

/** A text, or a prefix, a unit, how often it stands there, and a suffix. */
type AttackText = string | readonly [prefix: string, unit: string, times: number, suffix?: string];
export interface AttackGroup {
  readonly group: string;
  /** The code or reason of those that have none of their own. Default: INVALID_SQL. */
  readonly refusal?: string;
  /** With the code or reason before it, where it is not that of the group. */
  readonly queries: readonly (AttackText | Readonly<Record<string, AttackText>>)[];
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

/** Refusals that are codes; all others are reasons of a query that cannot be analyzed, or that reads too much. */
const CODES: readonly string[] = ['INVALID_REQUEST', 'INVALID_SQL'];

/** Shapes are checked by the tests that use them. */
export const ATTACK_GROUPS = readList<AttackGroup>('attacks.yaml');
export const QUERY_GROUPS = readList<{ group: string; queries: QueryEntry[] }>('queries.yaml').map(
  ({ group, queries }): QueryGroup => ({ group, queries: queries.map(readQuery) }),
);

/** The texts of a group of attacks; `{canary_file}` and `{canary_folder}` stand for paths yet to be filled in. */
export function listAttacks({ refusal: common = 'INVALID_SQL', queries }: AttackGroup): readonly Attack[] {
  return queries.map((entry) => {
    const isOwn = typeof entry === 'object' && !Array.isArray(entry);
    const [refusal = common, text = ''] = isOwn ? (Object.entries(entry)[0] ?? []) : [common, entry as AttackText];
    const sql = typeof text === 'string' ? text : `${text[0]}${text[1].repeat(text[2])}${text[3] ?? ''}`;
    if (CODES.includes(refusal)) return { sql, code: refusal, reason: undefined };
    return { sql, code: refusal === 'SCAN_LIMIT_EXCEEDED' ? 'QUERY_TOO_BROAD' : 'INVALID_QUERY', reason: refusal };
  });
}

/** As the file has it: with the number of rows before the text, `5 rows: SELECT ...`, or with more members. */
type QueryEntry = string | Query | Readonly<Record<string, string>>;

function readQuery(entry: QueryEntry): string | Query {
  if (typeof entry === 'string' || isQuery(entry)) return entry;
  const [[rows = '', sql = ''] = []] = Object.entries(entry);
  return { sql, rows: rows === 'any rows' ? 'any' : Number.parseInt(rows, 10) };
}

function isQuery(entry: Query | Readonly<Record<string, string>>): entry is Query {
  return 'sql' in entry;
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
