/** Seals a staged date: write the Parquet file and its footer, read it back, check it, summarize it, publish, drop the stage. */
import { rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { makeFolder } from '../core/atomic-file.ts';
import { Fault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { sideBySide } from '../core/side-by-side.ts';
import type { Engine } from '../engine/engine.ts';
import { parquetFile, quoteIdentifier } from '../engine/literal.ts';
import type { Job } from '../job/job.ts';
import { COUNTS_FILENAME, SUMMARY_FILENAME } from '../ledger/layout.ts';
import { assignFieldIds } from '../ledger/ledger.ts';
import { type CheckResult, describeCheck, type Manifest, type ManifestDraft } from '../ledger/manifest.ts';
import { publishDrop } from '../ledger/publish.ts';
import type { CountTotals, DayCounts } from '../plan/counts.ts';
import type { ExportRun } from '../run/run.ts';
import { writeCounts } from '../seal/counts-file.ts';
import { type DropColumn, listDropColumns } from '../seal/drop-columns.ts';
import { writeFooter } from '../seal/footer.ts';
import type { FileFacts } from '../seal/parquet-reader.ts';
import { assertChecks, runChecks } from '../seal/run-checks.ts';
import { hasSummary, writeSummary } from '../seal/summary.ts';
import { verifyParquet } from '../seal/verify-file.ts';
import type { Quarantine } from '../stage/quarantine.ts';
import type { Stage } from '../stage/stage.ts';
import type { DropChanges } from '../state/date-records.ts';
import { assertFewBadRows, describeQuarantine, joinReasons } from './bad-rows.ts';
import { compareWithBaseline } from './baseline-sessions.ts';
import { describeJob, draftManifest } from './draft.ts';
import { type DraftFile, sealedCopy } from './draft-file.ts';
import { holdSealed } from './hold.ts';
import { findNewNulls } from './new-nulls.ts';
import { compareWithSealed } from './restate.ts';

/** `source`: where the rows came from. */
type SealingRun = Pick<ExportRun, 'engine' | 'ledger' | 'log' | 'calendar' | 'version' | 'signal' | 'acceptedBy'> & {
  readonly source: Pick<ExportRun['source'], 'url'>;
};

/** Complete rows: a stage, or its stand-in when rows are streamed. */
export type SealedRows = Pick<
  Stage,
  | 'date'
  | 'extraFields'
  | 'totals'
  | 'countRepeats'
  | 'countReplaced'
  | 'pages'
  | 'quarantine'
  | 'writeQuarantine'
  | 'forgetBad'
  | 'discard'
>;

export interface SealInput {
  readonly file: DraftFile;
  /** The query sent to the source, with `{window}` in place of the window. */
  readonly query: string;
  /** Windows for which the source has no rows. */
  readonly missing?: NonNullable<Manifest['missing']>;
  /** Oldest visible instant on the exchange's clock; empty where there is none. */
  readonly lookbackEdge: string;
  /** The source's last counts; without them only a degraded date is sealed. */
  readonly counted: CountTotals | undefined;
  /** What the recount proved; absent without one. */
  readonly recount?: Manifest['recount'];
  /** The counts that the recount proved: sealed beside the drop, for audits. */
  readonly counts?: DayCounts | undefined;
  /** Of a restatement by an audit. */
  readonly audit?: AuditedRows | undefined;
  readonly requests: number;
  readonly startedAtMs: number;
  readonly sealedAtMs: number;
  readonly rowLimit: number;
  /** Replace a sealed revision if the rows differ. Default: false, a sealed date is kept. */
  readonly restate?: boolean;
  /** Seal as `degraded`, for this reason; without a recount, whatever the source counted. */
  readonly degradedReason?: string | undefined;
  /** What is odd about the date although it has what the source has. */
  readonly doubts?: readonly CheckResult[] | undefined;
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

export interface SealResult {
  readonly manifest: Manifest;
  /** `sealed-elsewhere`: another worker's manifest was first. `unchanged`: the sealed revision has these rows already. */
  readonly status: 'sealed' | 'sealed-elsewhere' | 'unchanged';
  /** Of a restatement: what changed; `null` when the replaced object could not be read. */
  readonly changes?: DropChanges | null;
  /** Why the date is held: the source's rows are not believed, and the sealed ones stay. */
  readonly doubt?: string | undefined;
}

const NOTHING = Promise.resolve();

/** @throws Fault `SEAL_UNVERIFIED`, `SEAL_INCOMPLETE`, `CHECK_FAILED`, StoreFault, EngineFault; the stage is kept */
export async function sealDate(deps: SealingRun, job: Job, stage: SealedRows, input: SealInput): Promise<SealResult> {
  const { ledger, signal } = deps;
  const { path } = input.file;
  const summaryPath = `${path}.summary`;
  const countsPath = `${path}.counts`;
  const quarantinePath = `${path}.quarantine`;
  await makeFolder(dirname(path));
  try {
    const { draft, checks } = await writeDrop(deps, job, stage, input, summaryPath);
    reportWarnings(deps.log, draft.date, checks);
    assertChecks(job, draft.date, checks);
    const summary = draft.summary === null ? undefined : summaryPath;
    const quarantine = draft.quarantine === undefined ? undefined : quarantinePath;
    if (quarantine !== undefined) await stage.writeQuarantine(quarantine);
    if (input.counts !== undefined) await writeCounts(deps.engine, countsPath, input.counts);
    const counts = input.counts && countsPath;
    const sealed = input.restate ? await ledger.validManifest(draft.date) : undefined;
    const comparison = sealed && (await compareWithSealed(deps, job, sealed, draft, path, input.audit?.kept ?? 0));
    const doubt = deps.acceptedBy === undefined ? comparison?.doubt : undefined;
    const held = sealed && doubt && comparison?.changes && (await hold(deps, job, sealed, doubt, input));
    if (sealed && (held || (comparison?.unchanged && doubt === undefined))) {
      await stage.discard();
      await rm(path, { force: true });
      return held || { manifest: sealed, status: 'unchanged' };
    }
    const changed = comparison?.changes && describeOrigin(deps, input, comparison.changes, comparison.doubt);
    const { manifest, won } = await publishDrop(
      ledger,
      { drop: path, summary, counts, quarantine },
      { ...asDoubtful(draft, doubt), ...(comparison ? { changes: changed ?? null } : {}) },
      { supersedes: sealed, signal },
    );
    reportQuarantine(deps.log, manifest);
    await stage.discard();
    if (!won) await rm(path, { force: true });
    const changes = won && comparison ? { changes: changed ?? null } : {};
    return { manifest, status: won ? 'sealed' : 'sealed-elsewhere', ...changes };
  } finally {
    await rm(sealedCopy(path), { force: true });
    await rm(summaryPath, { force: true });
    await rm(countsPath, { force: true });
    await rm(quarantinePath, { force: true });
  }
}

/** Holds the date with its sealed rows; `undefined` if these cannot be had. */
async function hold(deps: SealingRun, job: Job, sealed: Manifest, doubt: string, input: SealInput) {
  const { date } = sealed;
  const isAudit = input.audit !== undefined;
  const reason = `${doubt}. If its rows are right: flowdrop backfill ${job.name} --from ${date} --to ${date} --accept-change`;
  deps.log.warn({ event: 'change-doubted', date, reason }, `${date}: the source's rows are not taken over: ${reason}`);
  return await holdSealed(deps, sealed, {
    path: input.file.path,
    doubt: reason,
    sealedAtMs: input.sealedAtMs,
    isAudit,
  });
}

/** Rows in place of sealed ones that are lost, if they are doubtful. */
function asDoubtful(draft: ManifestDraft, doubt: string | undefined): ManifestDraft {
  if (doubt === undefined) return draft;
  return { ...draft, condition: 'degraded', degraded_reason: joinReasons(draft.degraded_reason, doubt) };
}

/** The changes with who found or accepted them. */
function describeOrigin(
  { acceptedBy: by }: SealingRun,
  { audit }: SealInput,
  changes: DropChanges,
  doubt: string | undefined,
): DropChanges {
  if (by !== undefined) return { ...changes, accepted: doubt === undefined ? { by } : { by, doubt } };
  return audit === undefined ? changes : { ...changes, found_by: 'audit' };
}

/** The columns of the file. @param sealedNulls of rows that come from a sealed drop */
export async function listStagedColumns(
  job: Job,
  stage: Pick<SealedRows, 'extraFields' | 'quarantine'>,
  sealedNulls: Manifest['nulls'] = [],
): Promise<readonly DropColumn[]> {
  const { nulls } = await stage.quarantine();
  const withNulls = [...nulls, ...sealedNulls].map(({ column }) => column);
  return listDropColumns(job.source.columns, await stage.extraFields(), withNulls);
}

interface WrittenDrop {
  readonly draft: ManifestDraft;
  readonly checks: readonly CheckResult[];
}

/** Writes file and summary, reads the file back and checks it. Nothing is published yet. */
async function writeDrop(
  deps: SealingRun,
  job: Job,
  stage: SealedRows,
  input: SealInput,
  summaryPath: string,
): Promise<WrittenDrop> {
  const { engine, source } = deps;
  const { counted, degradedReason } = input;
  const { path } = input.file;
  const totals = await stage.totals();
  const quarantine = await stage.quarantine();
  await assertFewBadRows(job, stage, counted?.rows ?? totals.rows + quarantine.rows, quarantine);
  const columns = await listStagedColumns(job, stage, input.audit?.sealed.nulls);
  const duplicates = totals.ids < totals.rows ? await stage.countReplaced() : 0;
  const shared = totals.rows - totals.ids - duplicates;
  if (shared > 0) {
    const what = `${shared} rows share an id with another trade, or have none; all of them are kept`;
    deps.log.warn({ event: 'ids-shared', date: stage.date, rows: shared }, `${stage.date}: ${what}`);
  }
  const windows = await stage.pages();
  const step = createSteps(deps.log, stage.date);
  const expected = await input.file.write(columns, duplicates);
  step('write');
  const keyValues = {
    'flowdrop.job': job.name,
    'flowdrop.job_definition': describeJob(job),
    'flowdrop.dataset': job.drop.dataset,
    'flowdrop.date': stage.date,
    'flowdrop.query': input.query,
  };
  const names = columns.map(({ name }) => name);
  const fieldIds = await assignFieldIds(deps.ledger, names);
  await writeFooter(path, { columns, fieldIds, sort: job.drop.sort, keyValues });
  step('footer');
  const asksRepeats = duplicates > 0 && job.checks.some(({ check }) => check === 'unique-id');
  const repeats = asksRepeats ? await stage.countRepeats('version') : 0;
  const withSummary = hasSummary(job, columns);
  const computeOnFile = async () => {
    const onFile = job.checks.filter((check) => check.check !== 'baseline');
    const checks = await runChecks(engine, parquetFile(path), onFile, stage.date, repeats);
    return { checks, times: await readTimeRange(engine, path, columns) };
  };
  const verifying = verifyParquet(engine, path, columns, expected);
  const computing = sideBySide(computeOnFile(), withSummary ? writeSummary(engine, path, summaryPath) : NOTHING);
  const [file, [{ checks, times }]] = await sideBySide(verifying, computing);
  step('verify');
  if (degradedReason === undefined || input.recount !== undefined) {
    const rows = file.rows - (input.audit?.kept ?? 0);
    assertCounted(job, stage.date, { rows, leftOut: quarantine.rows + duplicates }, counted);
  }
  const shape = { date: stage.date, rows: file.rows, statistics: file.statistics };
  const compared = withSummary ? await compareWithBaseline(deps, job, shape, summaryPath) : [];
  const oddities = input.audit ? addSealed(quarantine, input.audit.sealed, file) : quarantine;
  const reported = compared.flatMap(({ findings = [] }) => findings.map(({ column }) => column));
  const newNulls = await findNewNulls(deps, job, { ...shape, nulls: oddities.nulls }, reported);
  const draft = draftManifest(job, {
    date: stage.date,
    columns,
    file,
    degradedReason: joinReasons(degradedReason, describeQuarantine(quarantine, totals.rows)),
    quarantine: oddities,
    sourceRows: counted?.rows ?? null,
    recount: input.recount,
    duplicates: duplicates + (input.audit?.duplicates ?? 0),
    kept: input.audit?.kept || undefined,
    ids: shared > 0 ? totals.ids : undefined,
    times,
    checks: [...checks, ...compared, ...newNulls, ...(input.doubts ?? [])],
    summary: withSummary ? SUMMARY_FILENAME : null,
    counts: input.counts && COUNTS_FILENAME,
    query: input.query,
    sourceUrl: source.url,
    lookbackEdge: input.lookbackEdge,
    windows,
    missing: input.missing ?? [],
    requests: input.requests,
    startedAtMs: input.startedAtMs,
    sealedAtMs: input.sealedAtMs,
    rowLimit: input.rowLimit,
    version: deps.version,
  });
  return { draft, checks: draft.checks };
}

/** Also of the rows that came from the sealed drop: nulls as the file has them, converted values as many as were counted. */
function addSealed(
  staged: Quarantine,
  { nulls = [], rewritten = [] }: AuditedRows['sealed'],
  { rows, statistics }: FileFacts,
): Quarantine {
  const nullsIn = (name: string) => statistics.find(({ column }) => column === name)?.nulls ?? 0;
  const all = [...nulls, ...staged.nulls];
  const unread = addRows(
    all.filter(({ reason }) => reason !== undefined),
    ({ column }) => nullsIn(column),
  );
  const sent = [...new Set(all.filter(({ reason }) => reason === undefined).map(({ column }) => column))].map(
    (column) => {
      const others = unread.filter((one) => one.column === column).reduce((sum, one) => sum + one.rows, 0);
      return { column, rows: nullsIn(column) - others };
    },
  );
  return {
    ...staged,
    nulls: [...sent, ...unread].filter((one) => one.rows > 0),
    rewritten: addRows([...rewritten, ...staged.rewritten], () => rows),
  };
}

/** Adds up what has the same other members. @param most rows that there can be */
function addRows<One extends { readonly rows: number }>(list: readonly One[], most: (one: One) => number): One[] {
  const sums = new Map<string, One>();
  for (const one of list) {
    const key = Object.entries({ ...one, rows: 0 })
      .sort()
      .join();
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

function reportWarnings(log: Log, date: string, checks: readonly CheckResult[]): void {
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
  job: Job,
  date: string,
  { rows, leftOut }: { readonly rows: number; readonly leftOut: number },
  counted: CountTotals | undefined,
): void {
  const isWithin = counted && (job.source.kind !== 'rows' || (counted.ids <= rows + leftOut && rows <= counted.rows));
  if (isWithin && rows + leftOut > 0) return;
  const found = counted ? `the source counted ${counted.rows} with ${counted.ids} ids` : 'the source was not counted';
  throw new Fault('SEAL_INCOMPLETE', `${date}: the file has ${rows} rows, ${found}`, {
    hint: 'Nothing was published; the staged rows are kept. Run again.',
  });
}

async function readTimeRange(engine: Engine, path: string, columns: readonly DropColumn[]) {
  const time = columns.find((column) => column.type === 'wall');
  if (!time) return { min_time: null, max_time: null };
  const name = quoteIdentifier(time.name);
  const [range] = await engine.rows<{ n: number; first: string; last: string }>(
    `SELECT count() AS n, substring(toString(min(${name})), 1, 19) AS first, substring(toString(max(${name})), 1, 19) AS last FROM ${parquetFile(path)}`,
  );
  return range && Number(range.n) > 0
    ? { min_time: range.first, max_time: range.last }
    : { min_time: null, max_time: null };
}
