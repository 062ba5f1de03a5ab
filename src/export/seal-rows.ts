/**
 * Seals the rows of a date (their source proves them complete, or `run-job.ts` says why they are not): write the
 * Parquet file and its footer, read it back, check it, summarize it, publish it, drop the stage. A restatement that
 * changes nothing publishes nothing, and one that is doubtful publishes the rows of before, held.
 */

import { rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { formatWallClock } from '../calendar/wall-clock.ts';
import { makeFolder } from '../core/atomic-file.ts';
import { Fault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { sideBySide } from '../core/side-by-side.ts';
import { parquetFile } from '../engine/literal.ts';
import { COUNTS_FILENAME, QUARANTINE_FILENAME, SUMMARY_FILENAME } from '../ledger/layout.ts';
import { assignFieldIds } from '../ledger/ledger.ts';
import { describeCheck, hashSchema, MANIFEST_VERSION, type Manifest, type ManifestDraft } from '../ledger/manifest.ts';
import { publishDrop } from '../ledger/publish.ts';
import type { CountTotals } from '../plan/counts.ts';
import { computeLookback, expires } from '../plan/dates.ts';
import type { ExportRun } from '../run/run.ts';
import { writeCounts } from '../seal/counts-file.ts';
import { writeFooter } from '../seal/footer.ts';
import type { FileFacts } from '../seal/parquet-reader.ts';
import { assertChecks, runChecks } from '../seal/run-checks.ts';
import { hasSummary, writeSummary } from '../seal/summary.ts';
import {
  type DropChecksum,
  type DropColumn,
  listDropColumns,
  verifyParquet,
  writeParquet,
} from '../seal/write-parquet.ts';
import { assertFewBadRows, describeQuarantine, joinReasons, type Quarantine } from '../stage/quarantine.ts';
import type { Stage } from '../stage/stage.ts';
import type { CompleteRows, SealedRows, WrittenFile } from './date-source.ts';
import { compareWithBaseline, findNewNulls } from './past-sessions.ts';
import { compareWithSealed, holdSealed, type SealResult, sealedCopy } from './restate.ts';

/** When the export of a date began, and how many requests the run had sent by then. */
export function beginDate({ clocks, source }: Pick<ExportRun, 'clocks' | 'source'>) {
  return { atMs: clocks.now(), requests: source.stats.requests };
}

/** Rows that are sealed now. */
export interface SealableRows extends CompleteRows {
  readonly begun: ReturnType<typeof beginDate>;
  readonly file: WrittenFile;
  /** Of a restatement by an audit. */
  readonly audit?: AuditedRows | undefined;
  /** Replace a sealed revision if the rows differ. Default: false, a sealed date is kept. */
  readonly restate?: boolean;
}

/** How an audit's rows differ from those that an export would have staged. */
interface AuditedRows {
  /** Rows that the source no longer has. */
  readonly kept: number;
  /** Replaced rows at the source that the stage cannot count, because their trades came from the sealed drop. */
  readonly duplicates: number;
  /** Of the sealed drop: columns of its rows that have nulls, and values that were converted. */
  readonly sealed: Pick<Manifest, 'nulls' | 'rewritten'>;
}

const NOTHING = Promise.resolve();

/** @throws Fault `SEAL_UNVERIFIED`, `SEAL_INCOMPLETE`, `CHECK_FAILED`, StoreFault, EngineFault; the stage is kept */
export async function sealRows(run: ExportRun, stage: SealedRows, rows: SealableRows): Promise<SealResult> {
  const { ledger, engine, log, acceptedBy: by, signal } = run;
  const { path } = rows.file;
  const beside = { summary: `${path}.summary`, counts: `${path}.counts`, quarantine: `${path}.quarantine` };
  await makeFolder(dirname(path));
  try {
    const draft = await writeDrop(run, stage, rows, beside.summary);
    reportWarnings(log, draft);
    assertChecks(run.opened.job, draft.date, draft.checks);
    if (draft.quarantine !== undefined) await stage.writeQuarantine(beside.quarantine);
    if (rows.counts !== undefined) await writeCounts(engine, beside.counts, rows.counts);
    const sealed = rows.restate ? await ledger.validManifest(draft.date) : undefined;
    const compared = sealed && (await compareWithSealed(run, sealed, draft, path, rows.audit?.kept ?? 0));
    const doubt = by === undefined ? compared?.doubt : undefined;
    const isAudit = rows.audit !== undefined;
    const held = sealed && doubt && compared?.changes && (await holdSealed(run, sealed, path, doubt, isAudit));
    if (sealed && (held || (compared?.unchanged && doubt === undefined))) {
      await stage.discard();
      await rm(path, { force: true });
      return held || { manifest: sealed, status: 'unchanged' };
    }
    const foundBy = isAudit ? { found_by: 'audit' as const } : {};
    const accepted = { by: by ?? '', ...(compared?.doubt === undefined ? {} : { doubt: compared.doubt }) };
    const origin = by === undefined ? foundBy : { accepted };
    const changes = compared && { changes: compared.changes && { ...compared.changes, ...origin } };
    // Rows in place of sealed ones that are lost are degraded, if they are doubtful.
    const reason = { degraded_reason: joinReasons(draft.degraded_reason, doubt) };
    const { manifest, won } = await publishDrop(
      ledger,
      { drop: path, ...beside },
      { ...draft, ...(doubt === undefined ? {} : { condition: 'degraded', ...reason }), ...changes },
      { supersedes: sealed, signal },
    );
    reportQuarantine(log, manifest);
    await stage.discard();
    if (!won) await rm(path, { force: true });
    return { manifest, status: won ? 'sealed' : 'sealed-elsewhere', ...(won ? changes : {}) };
  } finally {
    for (const one of [sealedCopy(path), ...Object.values(beside)]) await rm(one, { force: true });
  }
}

/** Writes file and summary, reads the file back and checks it. Nothing is published yet. */
async function writeDrop(
  run: ExportRun,
  stage: SealedRows,
  rows: SealableRows,
  summaryPath: string,
): Promise<ManifestDraft> {
  // From now on the source may give rows of this date to another: an audit looks for these in what is sealed later.
  const sealedAt = new Date(run.clocks.now()).toISOString();
  const { engine, source, log, ledger, opened, calendar } = run;
  const { job } = opened;
  const { date } = stage;
  const { query, counted, recount, audit, missing = [], doubts = [], begun } = rows;
  const { path } = rows.file;
  const totals = await stage.totals();
  const quarantine = await stage.quarantine();
  await assertFewBadRows(job, stage, counted?.rows ?? totals.rows + quarantine.rows, quarantine);
  const columns = await listStagedColumns(run, stage, audit?.sealed.nulls);
  const replaced = totals.ids < totals.rows ? await stage.countReplaced() : 0;
  const shared = totals.rows - totals.ids - replaced;
  if (shared > 0) {
    const what = `${shared} rows share an id with another trade, or have none; all of them are kept`;
    log.warn({ event: 'ids-shared', date, rows: shared }, `${date}: ${what}`);
  }
  const windows = await stage.pages();
  const step = createSteps(log, date);
  const expected = await rows.file.write(columns, replaced);
  step('write');
  // The job file's path belongs to one machine, and readers of the data should not see mail addresses.
  const { file: _, reports: __, alerts: ___, ...definition } = job;
  const keyValues = {
    'flowdrop.job': job.name,
    'flowdrop.job_definition': JSON.stringify(definition),
    'flowdrop.dataset': job.drop.dataset,
    'flowdrop.date': date,
    'flowdrop.query': query,
  };
  const names = columns.map(({ name }) => name);
  const fieldIds = await assignFieldIds(ledger, names);
  await writeFooter(path, { columns, fieldIds, sort: job.drop.sort, keyValues });
  step('footer');
  const asksRepeats = replaced > 0 && job.checks.some(({ check }) => check === 'unique-id');
  const repeats = asksRepeats ? await stage.countRepeats('version') : 0;
  const withSummary = hasSummary(job, columns);
  const verifying = verifyParquet(engine, path, columns, expected);
  const checking = runChecks(engine, parquetFile(path), job.checks, date, repeats);
  const computing = sideBySide(
    checking,
    withSummary ? writeSummary(engine, { path, date, calendar }, summaryPath) : NOTHING,
  );
  const [file, [checks]] = await sideBySide(verifying, computing);
  step('verify');
  if (rows.degradedReason === undefined || recount !== undefined) {
    const leftOut = quarantine.rows + replaced;
    assertCounted(run, date, file.rows - (audit?.kept ?? 0), leftOut, counted);
  }
  const shape = { date, rows: file.rows, statistics: file.statistics };
  const compared = withSummary ? await compareWithBaseline(run, shape, summaryPath) : [];
  const { rewritten, nulls } = audit ? addSealed(quarantine, audit.sealed, file) : quarantine;
  const reported = compared.flatMap(({ findings = [] }) => findings.map(({ column }) => column));
  const newNulls = await findNewNulls(run, { ...shape, nulls }, reported);
  const degradedReason = joinReasons(rows.degradedReason, describeQuarantine(quarantine, totals.rows));
  const edgeMs = computeLookback(source.serverNow()).edgeMs;
  return {
    manifest_version: MANIFEST_VERSION,
    job_id: job.name,
    dataset: job.drop.dataset,
    date,
    table: job.drop.table ?? undefined,
    condition: degradedReason === undefined ? 'available' : 'degraded',
    degraded_reason: degradedReason,
    rows: file.rows,
    source_rows: counted?.rows ?? null,
    recount,
    duplicates: replaced + (audit?.duplicates ?? 0),
    ids: shared > 0 ? totals.ids : undefined,
    min_time: file.min_time,
    max_time: file.max_time,
    through: rows.through,
    schema: file.schema,
    schema_hash: hashSchema(file.schema),
    extra_columns: names.slice(job.source.columns.length),
    sort: [...job.drop.sort],
    compression: job.drop.compression,
    row_groups: file.row_groups,
    statistics: file.statistics,
    quarantine: describeBad(quarantine),
    rewritten: rewritten.length > 0 ? rewritten.map((each) => ({ ...each })) : undefined,
    nulls: nulls.length > 0 ? nulls.map((each) => ({ ...each })) : undefined,
    checks: [...checks, ...compared, ...newNulls, ...doubts],
    summary: withSummary ? SUMMARY_FILENAME : null,
    counts: rows.counts && COUNTS_FILENAME,
    kept: audit?.kept || undefined,
    filter: ('where' in job.source && job.source.where) || undefined,
    query: { sql: query, entry_point: job.source.api, url: source.url },
    windows: windows.map((each) => ({ ...each })).sort((a, b) => (a.window < b.window ? -1 : 1)),
    missing: missing.length > 0 ? [...missing] : undefined,
    requests: source.stats.requests - begun.requests,
    started_at: new Date(begun.atMs).toISOString(),
    sealed_at: sealedAt,
    // A source that keeps its dates has no edge.
    lookback_edge: expires(job.source) ? formatWallClock(edgeMs) : '',
    row_limit: rows.rowLimit ?? 0,
    flowdrop_version: run.version,
  };
}

function describeBad({ rows, ids, premium, reasons }: Quarantine): Manifest['quarantine'] {
  if (rows === 0) return undefined;
  const counts = { filename: QUARANTINE_FILENAME, rows, ids, premium: premium?.dollars };
  return { ...counts, reasons: reasons.map((each) => ({ ...each })) };
}

/** Also of the rows that came from the sealed drop: nulls as the file has them, converted values as many as were counted. */
function addSealed(
  staged: Quarantine,
  { nulls = [], rewritten = [] }: AuditedRows['sealed'],
  { rows, statistics }: FileFacts,
): Pick<Quarantine, 'nulls' | 'rewritten'> {
  const nullsIn = (name: string) => statistics.find(({ column }) => column === name)?.nulls ?? 0;
  const all = addRows([...nulls, ...staged.nulls], ({ column }) => nullsIn(column));
  const unread = (name: string) =>
    all.reduce((sum, one) => sum + (one.column === name && one.reason !== undefined ? one.rows : 0), 0);
  const counted = all.map((one) =>
    one.reason === undefined ? { ...one, rows: nullsIn(one.column) - unread(one.column) } : one,
  );
  return {
    nulls: counted.filter((one) => one.rows > 0),
    rewritten: addRows([...rewritten, ...staged.rewritten], () => rows),
  };
}

/** Adds up what has the same column, and reason or form. @param most rows that there can be */
function addRows<One extends { readonly rows: number }>(list: readonly One[], most: (one: One) => number): One[] {
  const sums = new Map<string, One>();
  for (const one of list) {
    const key = JSON.stringify(one, ['column', 'reason', 'form']);
    sums.set(key, { ...one, rows: Math.min(most(one), one.rows + (sums.get(key)?.rows ?? 0)) });
  }
  return [...sums.values()];
}

/** Logs how long each step of a seal took, for whoever asks where the time went. */
function createSteps(log: Log, date: string): (step: string) => void {
  let since = performance.now();
  return (step) => {
    const ms = Math.round(performance.now() - since);
    since = performance.now();
    log.debug({ event: 'seal-step', date, step, ms }, `${date}: ${step} took ${ms} ms`);
  };
}

function reportWarnings(log: Log, { date, checks }: ManifestDraft): void {
  for (const result of checks) {
    if (result.passed || result.on_failure === 'fail') continue;
    const reason = describeCheck(result);
    log.warn({ event: 'check-failed', date, check: result.check, reason }, `${date}: ${reason}`);
  }
}

function reportQuarantine(log: Log, { date, quarantine, degraded_reason: reason = '' }: Manifest): void {
  if (quarantine === undefined) return;
  const { rows, reasons } = quarantine;
  log.warn({ event: 'rows-quarantined', date, rows, reasons }, `${date}: ${reason}`);
}

/**
 * The last check before publishing: the file has what the source counted, and is empty only if the job lets all rows be in
 * quarantine. Each id is present at least once, unless its rows are in quarantine or a version in another cell replaced
 * them, and no row more often than in the source.
 */
function assertCounted(
  { opened }: ExportRun,
  date: string,
  rows: number,
  leftOut: number,
  counted: CountTotals | undefined,
): void {
  const isSingle = opened.job.source.kind === 'rows';
  const isWithin = counted && (!isSingle || (counted.ids <= rows + leftOut && rows <= counted.rows));
  if (isWithin && rows + leftOut > 0) return;
  const found = counted ? `the source counted ${counted.rows} with ${counted.ids} ids` : 'the source was not counted';
  throw new Fault('SEAL_INCOMPLETE', `${date}: the file has ${rows} rows, ${found}`, {
    hint: 'Nothing was published; the staged rows are kept. Run again.',
  });
}

/** The columns of the file. @param sealedNulls of rows that come from a sealed drop */
async function listStagedColumns(
  { opened }: Pick<ExportRun, 'opened'>,
  stage: Pick<Stage, 'extraFields' | 'quarantine'>,
  sealedNulls: Manifest['nulls'] = [],
): Promise<readonly DropColumn[]> {
  const { nulls } = await stage.quarantine();
  const withNulls = [...nulls, ...sealedNulls].map(({ column }) => column);
  return listDropColumns(opened.job.source.columns, await stage.extraFields(), withNulls);
}

/**
 * The file may be written while the source counts the date once more: most recounts agree, and writing takes longer than any
 * other step of a seal. Invariant: `write` returns only a file of the rows as they are staged now. Whoever changes them calls
 * `stop` before, and a recount that does not agree costs nothing but the work.
 */
export function createDropFile(run: ExportRun, stage: Stage) {
  const path = run.state.drop(stage.date);
  let control = new AbortController();
  let written: Promise<{ columns: readonly DropColumn[]; checksum: DropChecksum } | undefined> | undefined;
  const writeNow = async (columns: readonly DropColumn[], duplicates: number, signal?: AbortSignal) =>
    await writeParquet(run.engine, run.opened.job, { table: stage.table, duplicates }, columns, path, signal);
  /** The rows are going to change. */
  const stop = async () => {
    control.abort(new Error('the staged rows change'));
    await written;
    written = undefined;
  };
  return {
    path,
    stop,
    /** All rows are staged. Never throws: a file that cannot be written now is written when the date is sealed. */
    start() {
      if (written !== undefined) return;
      control = new AbortController();
      const { signal } = control;
      const write = async () => {
        await makeFolder(dirname(path));
        const columns = await listStagedColumns(run, stage);
        return { columns, checksum: await writeNow(columns, 0, signal) };
      };
      written = write().catch(() => undefined);
    },
    async write(columns: readonly DropColumn[], duplicates: number) {
      const early = await written;
      written = undefined;
      if (early !== undefined && duplicates === 0 && isDeepStrictEqual(early.columns, columns)) return early.checksum;
      return await writeNow(columns, duplicates);
    },
    async discard() {
      if (written === undefined) return;
      await stop();
      await rm(path, { force: true });
    },
  };
}

export type DropFile = ReturnType<typeof createDropFile>;
