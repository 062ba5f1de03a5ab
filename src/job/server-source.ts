/** Resolves the source of a job that reads a ClickHouse server's table: its columns and their types. Pure. */
import { TRADE_COLUMNS } from '../api-contract/trade.ts';
import type { JobColumn, ServerSource } from './job.ts';
import { ResolveFault } from './resolve-fault.ts';
import type { JobFile } from './shape.ts';
import { assertOnce, customColumn, findTradeColumn } from './trade-columns.ts';

/** Column that holds the date. */
const DATE_COLUMN = 'date';
const TABLE_NAME = /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)?$/;

/**
 * The columns are those in `columns`; if absent, those in `types`; if both are absent, the trade record's.
 * @throws ResolveFault
 */
export function resolveServerSource(written: JobFile['source']): ServerSource {
  const { table = '', types = {} } = written;
  if (!TABLE_NAME.test(table)) {
    throw new ResolveFault(['source', 'table'], `"${table}" is not the name of a table; it looks like database.table`);
  }
  const typed = Object.keys(types);
  const names = written.columns ?? (typed.length > 0 ? typed : TRADE_COLUMNS.map(({ name }) => name));
  const path = ['source', written.columns ? 'columns' : 'types'];
  assertOnce(names, path);
  if (!names.includes(DATE_COLUMN)) {
    throw new ResolveFault(path, `"${DATE_COLUMN}" is missing: it says which drop a row belongs to`);
  }
  const stray = typed.find((name) => !names.includes(name));
  if (stray !== undefined) {
    throw new ResolveFault(['source', 'types', stray], 'has a type here, but is not in `columns`');
  }
  return {
    kind: 'table',
    api: 'clickhouse',
    table,
    columns: names.map((name) => resolveColumn(name, types)),
    where: written.where?.trim() ?? '',
  };
}

/** A column that the contract does not define with this type may be null, unless it is the date. */
function resolveColumn(name: string, types: NonNullable<JobFile['source']['types']>): JobColumn {
  const known = findTradeColumn(name);
  const type = types[name] ?? known?.type;
  if (type === undefined) {
    const at = ['source', 'columns'];
    throw new ResolveFault(at, `"${name}" is not a column of the trade record: give its type under \`types\``);
  }
  if (name === DATE_COLUMN && type !== 'date') {
    throw new ResolveFault(['source', 'types', name], `is ${type}; it must be date, because it names the drop`);
  }
  return known && known.type === type
    ? known
    : { ...customColumn(name, type), nullable: name !== DATE_COLUMN, oftenNull: name !== DATE_COLUMN };
}
