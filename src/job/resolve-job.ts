/** Resolves the parsed job file to the job: fills in defaults and looks up columns in the contract. Pure. */
import { join } from 'node:path';
import { TRADE_COLUMNS, type TradeColumn } from '../api-contract/trade.ts';
import { GRAIN_SECONDS } from '../calendar/window.ts';
import { isFault } from '../core/errors.ts';
import { findNearest } from '../core/nearest.ts';
import { SUMMARIZED_COLUMNS } from '../report/records.ts';
import { isS3Location, mayHoldSecret, parseLocation } from '../store/object-key.ts';
import { formatReportIdentity, type Job, type JobCheck, type JobColumn, type JobSource, ResolveFault } from './job.ts';
import { type JobFile, SETTLE_SECONDS } from './shape.ts';
import { SNAPSHOT_COLUMNS, SNAPSHOT_SORT } from './snapshot-columns.ts';

/** Column that holds the date. */
const DATE_COLUMN = 'date';
const TABLE_NAME = /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)?$/;

/** Where a job is usually aggregated, and how its rows are sorted. */
const USUAL = { table: 'RawOptionTrades', timeColumn: 'time', sort: ['symbol', 'time', 'id'] } as const;

/** Columns that the ledger itself needs in a job of single trades: identity and time. */
const REQUIRED_COLUMNS = ['id', 'date', 'time'] as const;

/** @param folder that paths are relative to @throws ResolveFault with the key path that cannot be resolved */
export function resolveJob(file: string, folder: string, written: JobFile): Job {
  const { partition: _, settle, audit, ...rest } = written;
  const { drop, schedule, reports } = written;
  const asked = resolveSource(written.source);
  const sort = drop.sort ?? defaultSort(asked);
  const source = withNulls(asked, sort);
  const names = source.columns.map((column) => column.name);
  assertOnce(sort, 'drop.sort');
  sort.forEach((name, index) => {
    const what = `"${name}" is not a column of this job${suggestName(name, names)}; its columns are ${names.join(', ')}`;
    if (!names.includes(name)) refuse(`drop.sort.${index}`, what);
  });
  assertLocation(drop.to, folder);
  const onlyS3 = 'is only allowed with `to: s3://...`; a directory has';
  if (drop.s3 !== undefined && !isS3Location(drop.to)) refuse('drop.s3', `${onlyS3} none of these settings`);
  reports.forEach(({ linkSeconds }, index) => {
    if (linkSeconds !== null && !isS3Location(drop.to)) refuse(`reports.${index}.link`, `${onlyS3} no links`);
  });
  if (source.kind === 'snapshots' && reports.length > 0)
    refuse('reports', `a job with \`api: ${source.api}\` has no trades, so it has no report`);
  assertReports(reports);
  if (schedule?.stageSeconds && source.kind !== 'rows')
    refuse(
      'schedule.stage',
      'is only allowed for single trades of `api: historical` or `api: portal`, without `grain`',
    );
  if (schedule?.stageSeconds && schedule.distributed)
    refuse('schedule.stage', 'is not allowed with `distributed: true`: what is staged is on one machine');
  if (drop.catalog !== undefined && drop.table === null)
    refuse('drop.catalog', 'is only allowed with `table: iceberg`');
  // Only rows that the API counts can be compared.
  const isAudited = source.kind === 'rows' || source.kind === 'aggregate';
  if (!isAudited && audit !== undefined && audit !== 'off')
    refuse('audit', `is only allowed with \`api: historical\` or \`api: portal\`, not with \`${source.api}\``);
  const beside = (path: string | null) => path && join(folder, path);
  return {
    ...rest,
    file,
    source,
    drop: {
      ...drop,
      catalog: drop.catalog === undefined ? null : { ...drop.catalog, table: drop.catalog.table ?? drop.dataset },
      sort,
      s3: drop.s3 ?? {},
    },
    checks: written.checks.map((check, index) => assertColumns(check, index, names)),
    audit: audit ?? (isAudited ? 'repair' : 'off'),
    settleSeconds: settle?.seconds ?? (isAudited ? SETTLE_SECONDS.audited : SETTLE_SECONDS.unaudited),
    settleUntil: settle?.until ?? 'close',
    reports: reports.map((report) => ({
      ...report,
      look: { ...report.look, logo: beside(report.look.logo), templates: beside(report.look.templates) },
    })),
  };
}

/** @param path keys and places in lists, joined by dots */
function refuse(path: string, message: string, isSecret = false): never {
  const keys = path.split('.').map((key) => (/^\d+$/.test(key) ? Number(key) : key));
  throw new ResolveFault(keys, message, isSecret);
}

/** An address that no store opens is a fault of the file, not of the first run. */
function assertLocation(to: string, folder: string): void {
  try {
    parseLocation(to, folder);
  } catch (error) {
    if (!isFault(error)) throw error;
    const message = `${error.message.replace(/^drop\.to: /, '')}; allowed: s3://bucket/prefix or a directory`;
    refuse('drop.to', message, mayHoldSecret(to));
  }
}

function assertReports(reports: JobFile['reports']): void {
  const identities = reports.map(formatReportIdentity);
  reports.forEach(({ attach, datasets, to, look }, index) => {
    const addresses = to.map(({ address }) => address.toLowerCase());
    for (const [key, names] of Object.entries({ attach, datasets, to: addresses, sections: look.sections ?? [] }))
      assertOnce(names, `reports.${index}.${key}`);
    const first = identities.indexOf(identities[index] ?? '');
    if (first < index)
      refuse(
        `reports.${index}`,
        `has the same template and symbols as reports.${first}, so the two cannot be distinguished; give one of them a \`name\`, or put all recipients into one`,
      );
  });
}

/** Allows nulls in most columns; snapshot columns already declare which may be null. */
function withNulls(source: JobSource, sort: readonly string[]): JobSource {
  if (source.kind === 'snapshots') return source;
  const keys = source.kind === 'aggregate' ? [source.timeColumn, ...source.keyColumns] : [];
  return { ...source, columns: allowNulls(source.columns, [...sort, ...keys]) };
}

function resolveSource(written: JobFile['source']): JobSource {
  const { api, key = null, table = USUAL.table, where = '', sql, grain, split = [] } = written;
  if (api === 'clickhouse') return resolveServerSource(written);
  if (api === 'chain' || api === 'market-structure') {
    const { symbols = [] } = written;
    assertOnce(symbols, 'source.symbols');
    return { kind: 'snapshots', api, key, symbols, columns: SNAPSHOT_COLUMNS[api] };
  }
  const base = { api, key, table };
  const trades = { kind: 'rows', ...base, grainSeconds: 1, timeColumn: 'time', keyColumns: ['id'] } as const;
  if (sql === undefined) {
    return { ...trades, columns: resolveRowColumns(written.columns), where: where.trim(), sql: '' };
  }
  if (grain === undefined) {
    return { ...trades, columns: resolveRowSqlColumns(written), where: '', sql: sql.trim() };
  }
  const timeColumn = written.time ?? USUAL.timeColumn;
  return {
    kind: 'aggregate',
    ...base,
    columns: resolveAggregateColumns(written, timeColumn),
    sql: sql.trim(),
    grainSeconds: GRAIN_SECONDS[grain],
    timeColumn,
    groupKeys: [timeColumn, ...split],
    keyColumns: split.filter((name) => findTradeColumn(name) !== undefined),
  };
}

/**
 * The columns are those in `columns`; if absent, those in `types`; if both are absent, the trade record's.
 * @throws ResolveFault
 */
function resolveServerSource(written: JobFile['source']): JobSource {
  const { table = '', types = {} } = written;
  if (!TABLE_NAME.test(table))
    refuse('source.table', `"${table}" is not the name of a table; it looks like database.table`);
  const typed = Object.keys(types);
  const names = written.columns ?? (typed.length > 0 ? typed : TRADE_COLUMNS.map(({ name }) => name));
  const path = `source.${written.columns ? 'columns' : 'types'}`;
  assertOnce(names, path);
  if (!names.includes(DATE_COLUMN)) refuse(path, `"${DATE_COLUMN}" is missing: it says which drop a row belongs to`);
  const stray = typed.find((name) => !names.includes(name));
  if (stray !== undefined) refuse(`source.types.${stray}`, 'has a type here, but is not in `columns`');
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
  if (type === undefined)
    return refuse('source.columns', `"${name}" is not a column of the trade record: give its type under \`types\``);
  if (name === DATE_COLUMN && type !== 'date')
    refuse(`source.types.${name}`, `is ${type}; it must be date, because it names the drop`);
  return known && known.type === type
    ? known
    : { ...customColumn(name, type), nullable: name !== DATE_COLUMN, oftenNull: name !== DATE_COLUMN };
}

/** The required columns and those in `types`. A type in `types` overrides the trade record's type. */
function resolveRowSqlColumns(written: JobFile['source']): readonly JobColumn[] {
  const typed = Object.entries(written.types ?? {});
  const names = typed.map(([name]) => name);
  const required = REQUIRED_COLUMNS.filter((name) => !names.includes(name));
  return [
    ...required.flatMap((name) => findTradeColumn(name) ?? []),
    ...typed.map(([name, type]) => ({ ...(findTradeColumn(name) ?? customColumn(name, type)), type })),
  ];
}

function resolveRowColumns(names: readonly string[] | undefined): readonly JobColumn[] {
  if (names === undefined) return TRADE_COLUMNS.map(toJobColumn);
  assertOnce(names, 'source.columns');
  // Misspelled names are reported first: one may be the required column that is missing.
  const columns = names.map((name, index) => {
    const allowed = TRADE_COLUMNS.map((known) => known.name);
    const what = `"${name}" is not a column of the trade record${suggestName(name, allowed)}; allowed are ${allowed.join(', ')}`;
    return findTradeColumn(name) ?? refuse(`source.columns.${index}`, what);
  });
  const missing = REQUIRED_COLUMNS.find((name) => !names.includes(name));
  if (missing === undefined) return columns;
  return refuse(
    'source.columns',
    `"${missing}" is missing: every job of single trades needs ${REQUIRED_COLUMNS.join(', ')}`,
  );
}

function suggestName(name: string, allowed: readonly string[]): string {
  const near = findNearest(name, allowed);
  return near === undefined ? '' : ` (did you mean "${near}"?)`;
}

/** Columns of aggregating SQL: the time column, the split keys and those in `types`. Without a known type: text. */
function resolveAggregateColumns(written: JobFile['source'], timeColumn: string): readonly JobColumn[] {
  const typed = Object.entries(written.types ?? {});
  const names = [...new Set([timeColumn, ...(written.split ?? []), ...typed.map(([name]) => name)])];
  return names.map((name) => {
    const declared = typed.find(([key]) => key === name)?.[1];
    // The date of a trade is a date; any other time of groups has hours.
    if (name === timeColumn && declared === undefined) return customColumn(name, name === 'date' ? 'date' : 'wall');
    if (declared !== undefined) return customColumn(name, declared);
    return findTradeColumn(name) ?? customColumn(name, 'string');
  });
}

function defaultSort(source: JobSource): readonly string[] {
  if (source.kind === 'snapshots') return SNAPSHOT_SORT[source.api];
  const names = source.columns.map((column) => column.name);
  const usual = USUAL.sort.filter((name) => names.includes(name));
  // A server's table may have none of them, but it must have `date`.
  if (source.kind === 'table' && usual.length === 0) return ['date'];
  if (source.kind !== 'aggregate') return usual;
  return [...usual.filter((name) => name !== source.timeColumn), source.timeColumn];
}

/** Columns that a check needs, besides those it names. */
const NEEDED: Readonly<Record<JobCheck['check'], readonly string[]>> = {
  'min-rows': [],
  'max-nulls': [],
  premium: ['premium', 'price', 'size'],
  'unique-id': ['id'],
  dates: ['date'],
  // What a summary needs, which is what days are compared by.
  baseline: SUMMARIZED_COLUMNS,
};

/** @param columns of the drop @throws ResolveFault if the check needs a column that the job does not export */
function assertColumns(check: JobCheck, index: number, columns: readonly string[]): JobCheck {
  const [key, needed] = check.check === 'max-nulls' ? ['column', [check.column]] : ['check', NEEDED[check.check]];
  const name = needed.find((one) => !columns.includes(one));
  if (name === undefined) return check;
  const what = `needs the column "${name}", which this job does not export; its columns are ${columns.join(', ')}`;
  return refuse(`checks.${index}.${key}`, what);
}

function findTradeColumn(name: string): JobColumn | undefined {
  const column = TRADE_COLUMNS.find((known) => known.name === name);
  return column && toJobColumn(column);
}

export function toJobColumn({ name, drop, nullable, lowCardinality, words, description }: TradeColumn): JobColumn {
  return { name, type: drop, nullable, oftenNull: nullable, lowCardinality, words, description };
}

function customColumn(name: string, type: JobColumn['type']): JobColumn {
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
function assertOnce(names: readonly string[], path: string): void {
  const repeated = names.findIndex((name, index) => names.indexOf(name) < index);
  if (repeated >= 0) refuse(`${path}.${repeated}`, `"${names[repeated]}" is listed twice`);
}
