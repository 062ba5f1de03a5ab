/** Columns of jobs by name: those of the trade record as the contract describes them, and those that a job file types. Pure. */
import { TRADE_COLUMNS, type TradeColumn } from '../wire/trade.ts';
import type { JobColumn } from './job.ts';
import { ResolveFault } from './resolve-fault.ts';

export function findTradeColumn(name: string): JobColumn | undefined {
  const column = TRADE_COLUMNS.find((known) => known.name === name);
  return column && toJobColumn(column);
}

export function toJobColumn({ name, drop, nullable, lowCardinality, description }: TradeColumn): JobColumn {
  return { name, type: drop, nullable, lowCardinality, description };
}

export function customColumn(name: string, type: JobColumn['type']): JobColumn {
  return { name, type, nullable: false, lowCardinality: false, description: '' };
}

/** @param path of the list in the job file @throws ResolveFault */
export function assertOnce(names: readonly string[], path: readonly (string | number)[]): void {
  names.forEach((name, index) => {
    if (names.indexOf(name) < index) throw new ResolveFault([...path, index], `"${name}" comes twice`);
  });
}
