/**
 * The data of a date's report, fetched to this machine. Invariant: only sealed objects with the bytes of their manifests
 * are read.
 */
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { hashFile, makeFolder } from '../core/atomic-file.ts';
import { Fault } from '../core/errors.ts';
import type { Job, JobReport } from '../job/job.ts';
import { dropKeyOf } from '../ledger/layout.ts';
import { Ledger } from '../ledger/ledger.ts';
import { listDoubts, type Manifest } from '../ledger/manifest.ts';
import type { FlowOptions } from '../report/flow-report.ts';
import type { FlowReport, SealedDrop } from '../report/model.ts';
import { CHAIN_COLUMNS } from '../report/query/exposure-sql.ts';
import { MEAN_SESSIONS, type PastSession } from '../report/query/past-sessions.ts';
import type { DigestPart } from '../report/text/mail-view.ts';
import type { Run } from '../run/run.ts';

/** A part of a report with what is beside its drop; for a dataset that is not sealed, the date that it waits for. */
type PartFiles =
  | { readonly title: string; readonly pending: string }
  | ({ readonly title: string; readonly drop: SealedDrop } & Omit<FlowOptions, 'symbols' | 'now' | 'job' | 'signal'>);

/** The models of the sealed parts. */
export function listReports(parts: readonly DigestPart[]): readonly FlowReport[] {
  return parts.flatMap((part) => ('report' in part ? [part.report] : []));
}

/** Removes the files that were fetched only for reports. */
export async function discardContent({ state }: Run): Promise<void> {
  await rm(join(state.drops, 'report'), { recursive: true, force: true });
}

/** Fetches the files of the report. @throws Fault `DROP_RESTATING`, `DROP_DAMAGED`; StoreFault */
export async function fetchParts(
  run: Run,
  job: Job,
  report: JobReport,
  manifest: Manifest,
): Promise<readonly PartFiles[]> {
  const { store } = run.ledger;
  const { date } = manifest;
  const { marketStructure: structure, chain: chains, keepsExpiring } = report;
  const structures = await fetchBeside(run, structure === null ? null : { dataset: structure, isNamed: true }, date);
  const chain = await fetchBeside(run, chains, date);
  const datasets = report.template === 'digest' ? report.datasets : [manifest.dataset];
  const parts: PartFiles[] = [];
  for (const title of datasets) {
    const isOwn = title === job.drop.dataset;
    const ledger = new Ledger(store, title);
    const sealed = isOwn ? manifest : await ledger.manifest(date);
    if (sealed === undefined) {
      parts.push({ title, pending: date });
      continue;
    }
    const drop = await fetchDrop(run, sealed, isOwn ? run.state.drop(date) : localPath(run, title, date));
    const before = await fetchSummaries(run, ledger, date);
    const { entries } = await ledger.conditions();
    // Sealed or not.
    const known = [...entries.values()].filter((other) => other.date < date && other.condition !== 'empty');
    const dates = known.map((other) => other.date);
    parts.push({ title, drop, before, known: dates, marketStructure: structures, chain, keepsExpiring });
  }
  return parts;
}

/**
 * Whether a digest has to wait: another of its datasets may still be sealed for this date. A dataset that is known to
 * be missing, empty or expired never will be, so the digest goes out and says so.
 */
export async function isWaiting(
  { ledger: { store } }: Run,
  job: Job,
  report: JobReport,
  date: string,
): Promise<boolean> {
  if (report.template !== 'digest') return false;
  for (const dataset of report.datasets) {
    const ledger = new Ledger(store, dataset);
    if (dataset === job.drop.dataset || (await ledger.manifest(date)) !== undefined) continue;
    const condition = (await ledger.conditions()).entries.get(date)?.condition;
    if (condition !== 'missing' && condition !== 'empty' && condition !== 'expired') return true;
  }
  return false;
}

/** The drop of another dataset for this date. A missing one is logged if the job names the dataset. */
async function fetchBeside(
  run: Run,
  wanted: { readonly dataset: string; readonly isNamed: boolean } | null,
  date: string,
): Promise<{ readonly path: string; readonly location: string; readonly isDegraded: boolean } | null> {
  if (wanted === null) return null;
  const { dataset, isNamed } = wanted;
  const manifest = await new Ledger(run.ledger.store, dataset).manifest(date);
  // A dataset that only has the default name may be anything.
  const isFit = isNamed || CHAIN_COLUMNS.every((name) => manifest?.schema.some((column) => column.name === name));
  if (manifest !== undefined && isFit) {
    const { path, location, condition } = await fetchDrop(run, manifest, localPath(run, dataset, date));
    return { path, location, isDegraded: condition === 'degraded' };
  }
  // The report does without, because its readers would not miss the other dataset. But the operator asked for it.
  if (isNamed) leaveOut(run, dataset, date, `the drop of ${dataset} is not sealed`);
  return null;
}

/**
 * Summaries of the sessions before, newest first. Leaves out an earlier day that cannot be read; the report itself does not
 * depend on earlier days.
 */
async function fetchSummaries(run: Run, ledger: Ledger, date: string): Promise<readonly PastSession[]> {
  const { dataset } = ledger;
  const earlier = (await ledger.dates()).filter((other) => other < date).slice(-MEAN_SESSIONS);
  const found: PastSession[] = [];
  for (const other of earlier.reverse()) {
    const manifest = await ledger.validManifest(other, ({ message }) => leaveOut(run, dataset, other, message));
    const file = manifest?.files.find(({ filename }) => filename === manifest.summary);
    // Drops with their own columns have none.
    if (manifest === undefined || file === undefined) continue;
    const path = localPath(run, dataset, `${other}-summary`);
    await makeFolder(dirname(path));
    if (await ledger.fetchFile(other, file, path, run.signal))
      found.push({ date: other, path, isDegraded: manifest.condition === 'degraded' });
    else leaveOut(run, dataset, other, 'the summary does not match its manifest');
  }
  return found;
}

function leaveOut({ log }: Run, dataset: string, date: string, reason: string): void {
  log.warn({ event: 'comparison-left-out', dataset, date, reason }, `${date} is not compared: ${reason}`);
}

/** Brings the drop's file to `path`, unless it is there already, as after a run. */
async function fetchDrop({ ledger: { store }, signal }: Run, manifest: Manifest, path: string): Promise<SealedDrop> {
  const { dataset, date, files, job_id: job } = manifest;
  const [file] = files;
  const ledger = new Ledger(store, dataset);
  const drop = describeDrop(store.url, manifest, path);
  const kept = await hashFile(path).catch(() => undefined);
  if (kept === drop.sha256) return drop;
  await makeFolder(dirname(path));
  if (await ledger.fetchFile(date, file, path, signal)) return drop;
  const next = await ledger.successor(manifest);
  if (next) {
    throw new Fault('DROP_RESTATING', `${date} is being replaced by revision ${next.revision}`, {
      hint: `Try again in a minute. If nothing changes, the run that began it has died: \`flowdrop run ${job}\` finishes it.`,
    });
  }
  throw new Fault('DROP_DAMAGED', `${drop.location} does not match its manifest`, {
    hint: `Run \`flowdrop verify ${job} --date ${date}\`. No report is made from it.`,
  });
}

function describeDrop(storeUrl: string, manifest: Manifest, path: string): SealedDrop {
  const { dataset, date, revision, condition, filter, rows, ids, sealed_at, degraded_reason } = manifest;
  return {
    dataset,
    date,
    revision,
    condition,
    degraded_reason,
    doubts: listDoubts(manifest),
    filter,
    rows,
    ids,
    min_time: manifest.min_time,
    max_time: manifest.max_time,
    sealed_at,
    sha256: manifest.files[0].hash.replace('sha256:', ''),
    location: `${storeUrl}/${dropKeyOf(manifest)}`,
    path,
  };
}

function localPath({ state }: Run, dataset: string, name: string): string {
  return join(state.drops, 'report', `${dataset}-${name}.parquet`);
}
