/** From the job file's shape to the resolved job: defaults filled in, columns looked up in the contract. Pure. */
import { Fault } from '../core/errors.ts';
import { TRADE_COLUMNS, type TradeColumn } from '../wire/trade.ts';
import type { Job, JobColumn, JobSource } from './job.ts';
import { JOB_DEFAULTS, type JobFile } from './shape.ts';

const GRAIN_SECONDS = { minute: 60, hour: 3600, day: 86_400 } as const;

/** Columns that the ledger itself needs in a job of single trades: identity and place in time. */
const REQUIRED_COLUMNS = ['id', 'date', 'time'] as const;

/** A rule that the shape alone cannot hold, at a key path of the file. */
export class ResolveFault extends Fault {
  override readonly name = 'ResolveFault';
  readonly path: readonly (string | number)[];

  constructor(path: readonly (string | number)[], message: string) {
    super('JOB_INVALID', message, { kind: 'usage' });
    this.path = path;
  }
}

/** @throws ResolveFault naming the key path that cannot be resolved */
export function resolveJob(file: string, written: JobFile): Job {
  const source = resolveSource(written.source);
  const sort = written.drop.sort ?? defaultSort(source);
  const names = source.columns.map((column) => column.name);
  assertOnce(sort, ['drop', 'sort']);
  sort.forEach((name, index) => {
    if (!names.includes(name)) {
      throw new ResolveFault(
        ['drop', 'sort', index],
        `"${name}" is not a column of this job; its columns are ${names.join(', ')}`,
      );
    }
  });
  return {
    name: written.name,
    file,
    source,
    drop: { to: written.drop.to, dataset: written.drop.dataset, sort },
    schedule: written.schedule && {
      cron: written.schedule.cron,
      timezone: written.schedule.timezone ?? JOB_DEFAULTS.timezone,
    },
    reports: (written.reports ?? []).map((report) => ({ ...report, symbols: report.symbols ?? [] })),
    alerts: written.alerts ?? { to: [] },
  };
}

function resolveSource(written: JobFile['source']): JobSource {
  const base = { api: written.api, table: written.table ?? JOB_DEFAULTS.table };
  if (written.sql === undefined || written.grain === undefined) {
    const columns = resolveRowColumns(written.columns);
    return { kind: 'rows', ...base, columns, where: written.where ?? JOB_DEFAULTS.where };
  }
  const timeColumn = written.time ?? JOB_DEFAULTS.timeColumn;
  assertLossless(written.sql, [timeColumn, ...(written.split ?? [])]);
  return {
    kind: 'aggregate',
    ...base,
    columns: resolveAggregateColumns(written, timeColumn),
    sql: written.sql.trim().replace(/;$/, ''),
    grainSeconds: GRAIN_SECONDS[written.grain],
    timeColumn,
  };
}

function resolveRowColumns(names: readonly string[] | undefined): readonly JobColumn[] {
  if (names === undefined) return TRADE_COLUMNS.map(toJobColumn);
  for (const name of REQUIRED_COLUMNS) {
    if (!names.includes(name)) {
      throw new ResolveFault(
        ['source', 'columns'],
        `"${name}" is missing: every job of single trades needs ${REQUIRED_COLUMNS.join(', ')}`,
      );
    }
  }
  assertOnce(names, ['source', 'columns']);
  return names.map((name, index) => {
    const column = findTradeColumn(name);
    if (column) return column;
    const allowed = TRADE_COLUMNS.map((known) => known.name).join(', ');
    throw new ResolveFault(
      ['source', 'columns', index],
      `"${name}" is not a column of the trade record; allowed are ${allowed}`,
    );
  });
}

function assertOnce(names: readonly string[], path: readonly string[]): void {
  names.forEach((name, index) => {
    if (names.indexOf(name) < index) throw new ResolveFault([...path, index], `"${name}" comes twice`);
  });
}

/** Columns of aggregating SQL: those the file types, the time column, and the split keys; others come as text. */
function resolveAggregateColumns(written: JobFile['source'], timeColumn: string): readonly JobColumn[] {
  const typed = Object.entries(written.types ?? {});
  const names = [...new Set([timeColumn, ...(written.split ?? []), ...typed.map(([name]) => name)])];
  return names.map((name) => {
    const declared = typed.find(([key]) => key === name)?.[1];
    if (name === timeColumn && declared === undefined) return customColumn(name, 'wall');
    if (declared !== undefined) return customColumn(name, declared);
    return findTradeColumn(name) ?? customColumn(name, 'string');
  });
}

/** A split between windows is lossless only when every split key is a key of the GROUP BY. */
function assertLossless(sql: string, keys: readonly string[]): void {
  const groupBy = /\bgroup\s+by\b(?<keys>[\s\S]*?)(?:\bhaving\b|\border\s+by\b|\blimit\b|$)/i.exec(sql)?.groups?.[
    'keys'
  ];
  if (groupBy === undefined) {
    throw new ResolveFault(['source', 'sql'], 'has no GROUP BY: SQL with a `grain` must group by it');
  }
  for (const key of keys) {
    if (!new RegExp(`\\b${key}\\b`, 'i').test(groupBy)) {
      throw new ResolveFault(
        ['source', 'sql'],
        `does not group by "${key}", so a group could be torn apart between two windows`,
      );
    }
  }
}

function defaultSort(source: JobSource): readonly string[] {
  const names = source.columns.map((column) => column.name);
  const usual = JOB_DEFAULTS.sort.filter((name) => names.includes(name));
  if (source.kind === 'rows') return usual;
  return [...usual.filter((name) => name !== source.timeColumn), source.timeColumn];
}

function findTradeColumn(name: string): JobColumn | undefined {
  const column = TRADE_COLUMNS.find((known) => known.name === name);
  return column && toJobColumn(column);
}

function toJobColumn({ name, drop, nullable, lowCardinality, description }: TradeColumn): JobColumn {
  return { name, type: drop, nullable, lowCardinality, description };
}

function customColumn(name: string, type: JobColumn['type']): JobColumn {
  return { name, type, nullable: false, lowCardinality: false, description: '' };
}
