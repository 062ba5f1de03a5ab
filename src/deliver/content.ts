/**
 * The data of a date's report, fetched to this machine, and the models built from it. Invariant: only sealed objects with
 * the bytes of their manifests are read. Models differ only by watchlist, so each watchlist is computed once.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Job, JobReport } from '../job/job.ts';
import { Ledger } from '../ledger/ledger.ts';
import type { Manifest } from '../ledger/manifest.ts';
import { buildFlowReport } from '../report/flow-report.ts';
import type { FlowReport } from '../report/model.ts';
import { CHAIN_COLUMNS } from '../report/query/exposure-sql.ts';
import { MEAN_SESSIONS, type PastSession } from '../report/query/past-sessions.ts';
import type { DigestPart } from '../report/text/mail-view.ts';
import type { Run } from '../run/run.ts';
import { describeDrop, fetchDrop, fetchSealed } from './local-drop.ts';

export interface ReportContent {
  readonly manifest: Manifest;
  /** The parts of the report for this watchlist; computed once. @throws Fault, EngineFault */
  parts(symbols: readonly string[]): Promise<readonly DigestPart[]>;
}

export function openContent(run: Run, job: Job, report: JobReport, manifest: Manifest): ReportContent {
  const made = new Map<string, Promise<readonly DigestPart[]>>();
  let files: Promise<readonly PartFiles[]> | undefined;
  return {
    manifest,
    async parts(symbols) {
      files ??= fetchParts(run, job, report, manifest);
      const key = JSON.stringify(symbols);
      const parts = made.get(key) ?? buildParts(run, job, await files, symbols);
      made.set(key, parts);
      return await parts;
    },
  };
}

/** The models of the sealed parts. */
export function listReports(parts: readonly DigestPart[]): readonly FlowReport[] {
  return parts.flatMap((part) => ('report' in part ? [part.report] : []));
}

/** Removes the files that were fetched only for reports. */
export async function discardContent(run: Pick<Run, 'state'>): Promise<void> {
  await rm(folderOf(run), { recursive: true, force: true });
}

type PartFiles =
  | { readonly title: string; readonly pending: string }
  | {
      readonly title: string;
      readonly manifest: Manifest;
      readonly path: string;
      readonly before: readonly PastSession[];
      /** Sessions before the date that the ledger knows, sealed or not. */
      readonly known: readonly string[];
      readonly marketStructure: BesideFile | null;
      readonly chain: BesideFile | null;
      readonly keepsExpiring: boolean;
    };

/** Fetches the files of the report. @throws Fault `DROP_DAMAGED`; StoreFault */
export async function fetchParts(
  run: Run,
  job: Job,
  report: JobReport,
  manifest: Manifest,
): Promise<readonly PartFiles[]> {
  const { date } = manifest;
  const { marketStructure: structure, chain: chains, keepsExpiring } = report;
  const structures = await fetchBeside(run, structure === null ? null : { dataset: structure, isNamed: true }, date);
  const chain = await fetchBeside(run, chains, date);
  const datasets = report.template === 'digest' ? report.datasets : [manifest.dataset];
  const parts: PartFiles[] = [];
  for (const dataset of datasets) {
    const isOwn = dataset === job.drop.dataset;
    const sealed = isOwn ? manifest : await new Ledger(run.ledger.store, dataset).manifest(date);
    if (sealed === undefined) {
      parts.push({ title: dataset, pending: date });
      continue;
    }
    const path = isOwn ? run.state.drop(date) : localPath(run, dataset, date);
    await fetchDrop(run, sealed, path);
    const before = await fetchSummaries(run, dataset, date);
    const { entries } = await new Ledger(run.ledger.store, dataset).conditions();
    const known = [...entries.values()].filter((other) => other.date < date && other.condition !== 'empty');
    const beside = { marketStructure: structures, chain, keepsExpiring };
    parts.push({ title: dataset, manifest: sealed, path, before, known: known.map((other) => other.date), ...beside });
  }
  return parts;
}

/**
 * Whether a digest has to wait: another of its datasets may still be sealed for this date. A dataset that is known to
 * be missing, empty or expired never will be, so the digest goes out and says so.
 */
export async function isWaiting(
  { ledger: { store } }: Pick<Run, 'ledger'>,
  job: Job,
  report: JobReport,
  date: string,
): Promise<boolean> {
  if (report.template !== 'digest') return false;
  for (const dataset of report.datasets) {
    if (dataset === job.drop.dataset || (await new Ledger(store, dataset).manifest(date)) !== undefined) continue;
    const { entries } = await new Ledger(store, dataset).conditions();
    const condition = entries.get(date)?.condition;
    if (condition !== 'missing' && condition !== 'empty' && condition !== 'expired') return true;
  }
  return false;
}

async function buildParts(
  run: Run,
  job: Job,
  files: readonly PartFiles[],
  symbols: readonly string[],
): Promise<readonly DigestPart[]> {
  const parts: DigestPart[] = [];
  for (const file of files) {
    if ('pending' in file) {
      parts.push(file);
      continue;
    }
    const { title, manifest, path, before, known, marketStructure, chain, keepsExpiring } = file;
    const report = await buildFlowReport(run.engine, describeDrop(run.ledger.store.url, manifest, path), {
      ...{
        symbols,
        before,
        known,
        marketStructure,
        chain,
        keepsExpiring,
        job: job.name,
        now: new Date(run.clock.now()),
      },
      signal: run.signal,
    });
    parts.push({ title, report });
  }
  return parts;
}

/** A file beside the drop: on this machine, and its store URL. */
interface BesideFile {
  readonly path: string;
  readonly location: string;
  readonly isDegraded: boolean;
}

/** The drop of another dataset for this date. A missing one is logged if the job names the dataset. */
async function fetchBeside(
  run: Run,
  wanted: { readonly dataset: string; readonly isNamed: boolean } | null,
  date: string,
): Promise<BesideFile | null> {
  if (wanted === null) return null;
  const { dataset, isNamed } = wanted;
  const manifest = await new Ledger(run.ledger.store, dataset).manifest(date);
  // A dataset that only has the default name may be anything.
  const isFit = isNamed || CHAIN_COLUMNS.every((name) => manifest?.schema.some((column) => column.name === name));
  if (manifest !== undefined && isFit) {
    const path = localPath(run, manifest.dataset, date);
    await fetchDrop(run, manifest, path);
    const { location, condition } = describeDrop(run.ledger.store.url, manifest, path);
    return { path, location, isDegraded: condition === 'degraded' };
  }
  if (!isNamed) return null;
  // The report does without, because its readers would not miss the other dataset. But the operator asked for it.
  const reason = `the drop of ${dataset} is not sealed`;
  run.log.warn({ event: 'comparison-left-out', dataset, date, reason }, `${date} is not compared: ${reason}`);
  return null;
}

/** Leaves out an earlier day that cannot be read; the report itself does not depend on earlier days. */
async function fetchSummaries(run: Run, dataset: string, date: string): Promise<readonly PastSession[]> {
  const sealed = await new Ledger(run.ledger.store, dataset).dates();
  const earlier = sealed.filter((other) => other < date).slice(-MEAN_SESSIONS);
  const found: PastSession[] = [];
  for (const other of earlier.reverse()) {
    const summary = await fetchSummary(run, dataset, other);
    if (summary !== undefined) found.push({ date: other, ...summary });
  }
  return found;
}

/** `undefined` if there is none to compare with. */
async function fetchSummary(run: Run, dataset: string, date: string): Promise<Omit<PastSession, 'date'> | undefined> {
  const leaveOut = (reason: string) => {
    run.log.warn({ event: 'comparison-left-out', dataset, date, reason }, `${date} is not compared: ${reason}`);
    return undefined;
  };
  const manifest = await new Ledger(run.ledger.store, dataset).validManifest(date, ({ message }) => leaveOut(message));
  const file = manifest?.files.find(({ filename }) => filename === manifest.summary);
  // Drops with their own columns have none.
  if (manifest === undefined || file === undefined) return undefined;
  const path = localPath(run, dataset, `${date}-summary`);
  if (!(await fetchSealed(run, manifest, file, path))) return leaveOut('the summary does not match its manifest');
  return { path, isDegraded: manifest.condition === 'degraded' };
}

function folderOf({ state }: Pick<Run, 'state'>): string {
  return join(state.drops, 'report');
}

function localPath(run: Pick<Run, 'state'>, dataset: string, name: string): string {
  return join(folderOf(run), `${dataset}-${name}.parquet`);
}
