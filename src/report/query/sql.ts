/**
 * Queries of the report, one file of the folder `sql` each: what it computes with is what a reader gets, in SQL that ClickHouse
 * and DuckDB run. In a file, `{{name}}` stands for a value of that name, or for the text of the file of that name; lines that
 * are comments are left out. Invariant: a name that is neither is an error.
 */
import { readFileSync } from 'node:fs';
import { MOVE, SHARES_PER_CONTRACT } from '../../exposure/gamma-exposure.ts';
import { IS_CALL, IS_PUT, ROOT, STRIKE } from '../records.ts';

/** Beside `src` and `dist`. */
const FOLDER = new URL('../../../sql/', import.meta.url);

export type SqlValues = Readonly<Record<string, string | number>>;

/** The columns of `states` that identify a series. */
export const STATE_KEY = 'symbol, contract_root, put_call, strike_price, expiration_date';

/** What means the same in every file. */
const COMMON: SqlValues = {
  isCall: IS_CALL,
  isPut: IS_PUT,
  root: ROOT,
  strike: STRIKE,
  stateKey: STATE_KEY,
  sharesPerContract: SHARES_PER_CONTRACT,
  /** Gamma in dollars per 1% move, beside the square of the spot. */
  gexFactor: SHARES_PER_CONTRACT * MOVE,
};

const texts = new Map<string, string>();

/** @param values SQL, or a number */
export function fillSql(file: string, values: SqlValues = {}): string {
  const all = { ...COMMON, ...values };
  return readText(file).replace(/\{\{([\w-]+)\}\}/g, (_, name: string) => String(all[name] ?? fillSql(name, values)));
}

function readText(file: string): string {
  const known = texts.get(file);
  if (known !== undefined) return known;
  const text = readFileSync(new URL(`${file}.sql`, FOLDER), 'utf8')
    .replace(/^--.*\n/gm, '')
    .trim();
  texts.set(file, text);
  return text;
}
