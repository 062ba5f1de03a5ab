/** Columns of jobs by name: those of the trade record as the contract describes them, and those that a job file types. Pure. */
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

/** Without these a row is nobody's, or of no place in time. */
const IDENTITY: readonly string[] = ['id', 'symbol', 'date', 'time'];

/**
 * The columns with their nulls allowed: all may be null but those that say which row it is, where it is sorted, and in
 * which partition it is. What the contract lets be null may be null anywhere.
 * @param keys sort columns and keys of groups
 */
export function allowNulls(columns: readonly JobColumn[], keys: readonly string[]): readonly JobColumn[] {
  const fixed = new Set([...IDENTITY, ...keys]);
  return columns.map((column) => ({ ...column, nullable: column.nullable || !fixed.has(column.name) }));
}

/** @param path of the list in the job file @throws ResolveFault */
export function assertOnce(names: readonly string[], path: readonly (string | number)[]): void {
  names.forEach((name, index) => {
    if (names.indexOf(name) < index) throw new ResolveFault([...path, index], `"${name}" comes twice`);
  });
}
