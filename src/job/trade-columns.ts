/** Columns of jobs by name: the trade record's, as the contract describes them, and those typed in a job file. Pure. */
import { TRADE_COLUMNS, type TradeColumn } from '../api-contract/trade.ts';
import type { JobColumn } from './job.ts';
import { ResolveFault } from './resolve-fault.ts';

export function findTradeColumn(name: string): JobColumn | undefined {
  const column = TRADE_COLUMNS.find((known) => known.name === name);
  return column && toJobColumn(column);
}

export function toJobColumn({ name, drop, nullable, lowCardinality, words, description }: TradeColumn): JobColumn {
  return { name, type: drop, nullable, oftenNull: nullable, lowCardinality, words, description };
}

export function customColumn(name: string, type: JobColumn['type']): JobColumn {
  return { name, type, nullable: false, oftenNull: false, lowCardinality: false, description: '' };
}

/** Without these, a row has no identity or no time. */
const IDENTITY: readonly string[] = ['id', 'symbol', 'date', 'time'];

/**
 * Marks which columns may be null: all except those that identify, sort and partition rows. A column that may be null
 * by the contract stays nullable even then.
 * @param keys sort columns and keys of groups
 */
export function allowNulls(columns: readonly JobColumn[], keys: readonly string[]): readonly JobColumn[] {
  const fixed = new Set([...IDENTITY, ...keys]);
  return columns.map((column) => ({ ...column, nullable: column.nullable || !fixed.has(column.name) }));
}

/** @param path of the list in the job file @throws ResolveFault */
export function assertOnce(names: readonly string[], path: readonly (string | number)[]): void {
  const seen = new Set<string>();
  names.forEach((name, index) => {
    if (seen.has(name)) throw new ResolveFault([...path, index], `"${name}" is listed twice`);
    seen.add(name);
  });
}
