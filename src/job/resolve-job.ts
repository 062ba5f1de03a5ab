/** Resolves the parsed job file to the job: fills in defaults and looks up columns in the contract. Pure. */

import { TRADE_COLUMNS } from '../api-contract/trade.ts';
import { GRAIN_SECONDS } from '../calendar/window.ts';
import { isFault } from '../core/errors.ts';
import { findNearest } from '../core/nearest.ts';
import { SUMMARIZED_COLUMNS } from '../report/records.ts';
import { isS3Location, mayHoldSecret, parseLocation } from '../store/location.ts';
import type { ObjectOptions } from '../store/store.ts';
import { DROP_DEFAULTS } from './drop-shape.ts';
import {
  type AuditRule,
  EVENT_TYPES,
  type Job,
  type JobCatalog,
  type JobCheck,
  type JobColumn,
  type JobSchedule,
  type JobSource,
  type SnapshotApi,
  type SnapshotSource,
  type SqlApi,
  type SqlSource,
} from './job.ts';
import { resolveReports } from './job-report.ts';
import { parseDurationSeconds } from './plain-shape.ts';
import { ResolveFault } from './resolve-fault.ts';
import { resolveServerSource } from './server-source.ts';
import { JOB_DEFAULTS, type JobFile } from './shape.ts';
import { SNAPSHOT_COLUMNS, SNAPSHOT_SORT } from './snapshot-columns.ts';
import { allowNulls, assertOnce, customColumn, findTradeColumn, toJobColumn } from './trade-columns.ts';

/** Columns that the ledger itself needs in a job of single trades: identity and time. */
const REQUIRED_COLUMNS = ['id', 'date', 'time'] as const;

/** @param folder that paths are relative to @throws ResolveFault with the key path that cannot be resolved */
export function resolveJob(file: string, folder: string, written: JobFile): Job {
  const asked = resolveSource(written.source);
  const sort = written.drop.sort ?? defaultSort(asked);
  const source = withNulls(asked, sort);
  const names = source.columns.map((column) => column.name);
  assertOnce(sort, ['drop', 'sort']);
  sort.forEach((name, index) => {
    if (!names.includes(name)) {
      throw new ResolveFault(
        ['drop', 'sort', index],
        `"${name}" is not a column of this job${suggestName(name, names)}; its columns are ${names.join(', ')}`,
      );
    }
  });
  assertLocation(written.drop.to, folder);
  if (written.drop.s3 !== undefined && !isS3Location(written.drop.to)) {
    throw new ResolveFault(
      ['drop', 's3'],
      'is only allowed with `to: s3://...`; a directory has none of these settings',
    );
  }
  (written.reports ?? []).forEach((report, index) => {
    if (report.link === undefined || isS3Location(written.drop.to)) return;
    throw new ResolveFault(['reports', index, 'link'], 'is only allowed with `to: s3://...`; a directory has no links');
  });
  assertReportable(source, written.reports);
  return {
    name: written.name,
    file,
    source,
    drop: {
      to: written.drop.to,
      dataset: written.drop.dataset,
      table: written.drop.table ?? null,
      catalog: resolveCatalog(written.drop),
      sort,
      compression: written.drop.compression ?? DROP_DEFAULTS.compression,
      s3: resolveObjectOptions(written.drop.s3),
    },
    rows: {
      onBad: written.rows?.on_bad ?? JOB_DEFAULTS.onBad,
      maxBad: written.rows?.max ?? JOB_DEFAULTS.maxBad,
    },
    checks: (written.checks ?? []).map((check, index) => resolveCheck(check, index, names)),
    audit: resolveAudit(source, written.audit),
    settleSeconds: parseDurationSeconds(written.settle ?? defaultSettle(source)),
    schedule: written.schedule && resolveSchedule(source, written.schedule),
    reports: resolveReports(written.reports ?? [], folder),
    alerts: { to: written.alerts?.to ?? [], webhook: written.alerts?.webhook ?? true },
    events: [...new Set(written.events ?? EVENT_TYPES)],
  };
}

/** An address that no store opens is a fault of the file, not of the first run. */
function assertLocation(to: string, folder: string): void {
  try {
    parseLocation(to, folder);
  } catch (error) {
    if (!isFault(error)) throw error;
    const message = `${error.message.replace(/^drop\.to: /, '')}; allowed: s3://bucket/prefix or a directory`;
    throw new ResolveFault(['drop', 'to'], message, mayHoldSecret(to));
  }
}

/** Allows nulls in most columns; snapshot columns already declare which may be null. */
function withNulls(source: JobSource, sort: readonly string[]): JobSource {
  if (source.kind === 'snapshots') return source;
  const keys = source.kind === 'aggregate' ? [source.timeColumn, ...source.splitColumns] : [];
  return { ...source, columns: allowNulls(source.columns, [...sort, ...keys]) };
}

/** Only rows that the API counts can be compared. */
function resolveAudit({ kind, api }: JobSource, written: JobFile['audit']): AuditRule {
  if (kind === 'rows' || kind === 'aggregate') return written ?? JOB_DEFAULTS.audit;
  if (written === undefined || written === 'off') return 'off';
  throw new ResolveFault(['audit'], `is only allowed with \`api: historical\` or \`api: portal\`, not with \`${api}\``);
}

/** A date of the API's trades can be sealed early, because audits repair it. */
function defaultSettle({ kind }: JobSource): string {
  return kind === 'rows' || kind === 'aggregate' ? JOB_DEFAULTS.settle : JOB_DEFAULTS.settleUnaudited;
}

function resolveSchedule(source: JobSource, written: NonNullable<JobFile['schedule']>): JobSchedule {
  if (written.stage !== undefined && source.kind !== 'rows') {
    const reason = 'is only allowed for single trades of `api: historical` or `api: portal`, without `grain`';
    throw new ResolveFault(['schedule', 'stage'], reason);
  }
  if (written.stage !== undefined && written.distributed) {
    throw new ResolveFault(
      ['schedule', 'stage'],
      'is not allowed with `distributed: true`: what is staged is on one machine',
    );
  }
  const retry = written.retry ?? JOB_DEFAULTS.retry;
  const timeout = written.timeout ?? JOB_DEFAULTS.timeout;
  return {
    cron: written.cron,
    timezone: written.timezone ?? JOB_DEFAULTS.timezone,
    retrySeconds: retry === 'off' ? null : parseDurationSeconds(retry),
    timeoutSeconds: timeout === 'off' ? null : parseDurationSeconds(timeout),
    stageSeconds: written.stage === undefined ? null : parseDurationSeconds(written.stage),
    distributed: written.distributed ?? false,
  };
}

/** Reports are built from single trades, and snapshots have none. */
function assertReportable(source: JobSource, reports: JobFile['reports']): void {
  if (source.kind !== 'snapshots' || reports === undefined || reports.length === 0) return;
  throw new ResolveFault(['reports'], `a job with \`api: ${source.api}\` has no trades, so it has no report`);
}

/** Catalogs and clients agree on these; a job rarely needs others. */
const CATALOG_DEFAULTS = { namespace: 'flowdrop', scope: 'catalog' } as const;

function resolveCatalog({ catalog, table, dataset }: JobFile['drop']): JobCatalog | null {
  if (catalog === undefined) return null;
  if (table === undefined) throw new ResolveFault(['drop', 'catalog'], 'is only allowed with `table: iceberg`');
  return {
    uri: catalog.uri,
    warehouse: catalog.warehouse ?? null,
    namespace: catalog.namespace ?? CATALOG_DEFAULTS.namespace,
    table: catalog.table ?? dataset,
    oauthUri: catalog.oauth_uri ?? null,
    scope: catalog.scope ?? CATALOG_DEFAULTS.scope,
  };
}

function resolveObjectOptions(written: JobFile['drop']['s3']): ObjectOptions {
  const { kms_key: kmsKey, storage_class: storageClass, encryption, tags, acl } = written ?? {};
  return { encryption, kmsKey, storageClass, tags, acl };
}

function resolveSource(written: JobFile['source']): JobSource {
  switch (written.api) {
    case 'historical':
    case 'portal':
      return resolveSqlSource(written, written.api);
    case 'chain':
    case 'market-structure':
      return resolveSnapshotSource(written, written.api);
    case 'clickhouse':
      return resolveServerSource(written);
    default:
      return written.api satisfies never;
  }
}

function resolveSnapshotSource(written: JobFile['source'], api: SnapshotApi): SnapshotSource {
  const symbols = written.symbols ?? [];
  assertOnce(symbols, ['source', 'symbols']);
  return { kind: 'snapshots', api, key: written.key ?? null, symbols, columns: SNAPSHOT_COLUMNS[api] };
}

function resolveSqlSource(written: JobFile['source'], api: SqlApi): SqlSource {
  const table = written.table ?? JOB_DEFAULTS.table;
  const base = { api, key: written.key ?? null, table };
  if (written.sql === undefined) {
    const columns = resolveRowColumns(written.columns);
    return { kind: 'rows', ...base, columns, where: written.where?.trim() ?? JOB_DEFAULTS.where, sql: '' };
  }
  const sql = written.sql.trim();
  if (written.grain === undefined) {
    return { kind: 'rows', ...base, columns: resolveRowSqlColumns(written), where: '', sql };
  }
  const timeColumn = written.time ?? JOB_DEFAULTS.timeColumn;
  const split = written.split ?? [];
  return {
    kind: 'aggregate',
    ...base,
    columns: resolveAggregateColumns(written, timeColumn),
    sql,
    grainSeconds: GRAIN_SECONDS[written.grain],
    timeColumn,
    groupKeys: [timeColumn, ...split],
    splitColumns: split.filter((name) => findTradeColumn(name) !== undefined),
  };
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
  assertOnce(names, ['source', 'columns']);
  // Misspelled names are reported first: one may be the required column that is missing.
  const columns = names.map((name, index) => {
    const column = findTradeColumn(name);
    if (column) return column;
    const allowed = TRADE_COLUMNS.map((known) => known.name);
    throw new ResolveFault(
      ['source', 'columns', index],
      `"${name}" is not a column of the trade record${suggestName(name, allowed)}; allowed are ${allowed.join(', ')}`,
    );
  });
  for (const name of REQUIRED_COLUMNS) {
    if (!names.includes(name)) {
      throw new ResolveFault(
        ['source', 'columns'],
        `"${name}" is missing: every job of single trades needs ${REQUIRED_COLUMNS.join(', ')}`,
      );
    }
  }
  return columns;
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
  const usual = JOB_DEFAULTS.sort.filter((name) => names.includes(name));
  // A server's table may have none of them, but it must have `date`.
  if (source.kind === 'table' && usual.length === 0) return ['date'];
  if (source.kind !== 'aggregate') return usual;
  return [...usual.filter((name) => name !== source.timeColumn), source.timeColumn];
}

type WrittenBaseline = Extract<NonNullable<JobFile['checks']>[number], { readonly check: 'baseline' }>;

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
function resolveCheck(
  written: NonNullable<JobFile['checks']>[number],
  index: number,
  columns: readonly string[],
): JobCheck {
  const { on_failure: onFailure = written.check === 'baseline' ? 'warn' : JOB_DEFAULTS.onFailure, ...check } = written;
  const needed = check.check === 'max-nulls' ? [check.column] : NEEDED[check.check];
  for (const name of needed) {
    if (columns.includes(name)) continue;
    throw new ResolveFault(
      ['checks', index, check.check === 'max-nulls' ? 'column' : 'check'],
      `needs the column "${name}", which this job does not export; its columns are ${columns.join(', ')}`,
    );
  }
  if (check.check === 'baseline') return resolveBaseline(check, onFailure);
  if (check.check !== 'premium') return { ...check, onFailure };
  return { check: 'premium', tolerance: check.tolerance ?? JOB_DEFAULTS.premiumTolerance, onFailure };
}

function resolveBaseline(
  { sessions, symbols, total, symbol, early, nulls, new_symbols: newSymbols }: Partial<WrittenBaseline>,
  onFailure: JobCheck['onFailure'],
): JobCheck {
  const defaults = JOB_DEFAULTS.baseline;
  return {
    check: 'baseline',
    onFailure,
    sessions: sessions ?? defaults.sessions,
    symbols: symbols ?? defaults.symbols,
    total: total ?? defaults.total,
    symbol: symbol ?? defaults.symbol,
    earlySeconds: parseDurationSeconds(early ?? defaults.early),
    nulls: nulls ?? defaults.nulls,
    newSymbols: newSymbols ?? defaults.newSymbols,
  };
}
