/**
 * The data of a date's report, fetched to this machine. Invariant: only sealed objects with the bytes of their manifests
 * are read.
 */
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isSession, listCompared, listRestOfWeek, previousSessions } from '../calendar/session.ts';
import { addDays, mondayOf, weekday } from '../calendar/wall-clock.ts';
import { hashFile, makeFolder } from '../core/atomic-file.ts';
import { describeError, Fault } from '../core/errors.ts';
import { identifyReport, type Job, type JobReport } from '../job/job.ts';
import type { ConditionEntry } from '../ledger/condition-file.ts';
import { dropKeyOf } from '../ledger/layout.ts';
import { Ledger } from '../ledger/ledger.ts';
import { listDoubts, type Manifest } from '../ledger/manifest.ts';
import { type Condition, isGone } from '../plan/conditions.ts';
import { readLevels } from '../report/changes.ts';
import type { FlowOptions } from '../report/flow-report.ts';
import type { SealedDrop } from '../report/model.ts';
import { CHAIN_COLUMNS } from '../report/query/exposure-sql.ts';
import { COMPARED_SESSIONS, type PastSession } from '../report/query/past-sessions.ts';
import { WEEKS_BEFORE, type WeekFile } from '../report/query/week.ts';
import type { Run } from '../run/run.ts';
import { describeAccepted } from '../state/documents.ts';
import { type ReportPlace, readArchivedParts } from './report-copies.ts';

/** What is beside the drop of a part. */
type BesideDrop = Omit<FlowOptions, 'symbols' | 'families' | 'now' | 'job' | 'calendar' | 'signal'>;

/** Removes the files that were fetched only for reports. */
export async function discardContent({ state }: Run): Promise<void> {
  await rm(join(state.drops, 'report'), { recursive: true, force: true });
}

/**
 * Fetches the files of the report.
 * @returns its parts; `pending`: of a dataset that is not sealed, the date that it waits for
 * @throws Fault `DROP_RESTATING`, `DROP_DAMAGED`; StoreFault
 */
export async function fetchParts(run: Run, job: Job, report: JobReport, manifest: Manifest) {
  const { store } = run.ledger;
  const { date, revision } = manifest;
  const { marketStructure: structure, chain: chains } = report;
  const structures = await fetchBeside(run, structure === null ? null : { dataset: structure, isNamed: true }, date);
  const chain = await fetchBeside(run, chains, date);
  const datasets = report.template === 'digest' ? report.datasets : [manifest.dataset];
  const parts: ({ title: string; pending: string } | ({ title: string; drop: SealedDrop } & BesideDrop))[] = [];
  for (const title of datasets) {
    const isOwn = title === job.drop.dataset;
    const ledger = new Ledger(store, title);
    const sealed = isOwn ? manifest : await ledger.manifest(date);
    if (sealed === undefined) {
      parts.push({ title, pending: date });
      continue;
    }
    const drop = await fetchDrop(run, sealed, isOwn ? run.state.drop(date) : localPath(run, title, date));
    // A report of a week is mailed once a week; the one of each day has what it is compared with.
    const daily = report.template === 'weekly' ? job.reports.find(({ template }) => template === 'flow') : undefined;
    const place = { job: job.name, date, report: identifyReport(daily ?? report), revision };
    const before = await fetchSummaries(run, ledger, place);
    const { entries } = await ledger.conditions();
    // Sealed or not.
    const known = [...entries.values()].filter((other) => other.date < date && other.condition !== 'empty');
    const dates = known.map((other) => other.date);
    const week = report.template === 'weekly' ? await fetchWeek(run, ledger, entries, drop) : undefined;
    parts.push({ title, drop, before, known: dates, marketStructure: structures, chain, week });
  }
  return parts;
}

/**
 * Whether a digest has to wait: another of its datasets may still be sealed for this date. A dataset that is known to
 * be missing, empty or expired never will be, so the digest goes out and says so.
 */
export async function isWaiting({ ledger: { store } }: Run, job: Job, report: JobReport, date: string) {
  if (report.template !== 'digest') return false;
  for (const dataset of report.datasets) {
    const ledger = new Ledger(store, dataset);
    if (dataset === job.drop.dataset || (await ledger.manifest(date)) !== undefined) continue;
    if (!isGone((await ledger.conditions()).entries.get(date)?.condition)) return true;
  }
  return false;
}

/** The drop of another dataset for this date. A missing one is logged if the job names the dataset. */
async function fetchBeside(
  run: Run,
  wanted: { readonly dataset: string; readonly isNamed: boolean } | null,
  date: string,
): Promise<NonNullable<BesideDrop['chain']> | null> {
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
 * Summaries of the sessions before that are compared, and of the dates since the session before, which have the evening,
 * newest first, each with what is compared of the report that was mailed of it. Leaves out what cannot be read: the report itself
 * does not depend on earlier days.
 */
async function fetchSummaries(run: Run, ledger: Ledger, place: ReportPlace): Promise<readonly PastSession[]> {
  const { dataset } = ledger;
  const { date } = place;
  const { calendar } = run;
  const [previous = date] = previousSessions(addDays(date, -1), 1, calendar);
  const earlier = (await ledger.dates()).filter((other) => other < date);
  const compared = listCompared(date, earlier, calendar).slice(-COMPARED_SESSIONS);
  const found: PastSession[] = [];
  for (const other of earlier.filter((one) => one >= previous || compared.includes(one)).reverse()) {
    const manifest = await ledger.validManifest(other, ({ message }) => leaveOut(run, dataset, other, message));
    const summary = manifest && (await fetchSummary(run, ledger, manifest));
    if (!summary) continue;
    const mailed = await readMailed(run, dataset, { ...place, date: other, revision: manifest.revision });
    found.push({ ...summary, ...mailed });
  }
  return found;
}

/** Null where the drop has none, as one with its own columns, or one that is not its manifest's. */
async function fetchSummary(run: Run, ledger: Ledger, manifest: Manifest): Promise<PastSession | null> {
  const { dataset, date, condition, files, summary } = manifest;
  const file = files.find(({ filename }) => filename === summary);
  if (file === undefined) return null;
  const path = localPath(run, dataset, `${date}-summary`);
  await makeFolder(dirname(path));
  if (await ledger.fetchFile(date, file, path, run.signal)) return { date, path, isDegraded: condition === 'degraded' };
  leaveOut(run, dataset, date, 'the summary does not match its manifest');
  return null;
}

/**
 * The sessions of the week of a drop and of the weeks before: their state, the summaries of those that are sealed, and the
 * drops of the week up to this one.
 * @throws Fault `DROP_RESTATING`, `DROP_DAMAGED`; StoreFault
 */
async function fetchWeek(
  run: Run,
  ledger: Ledger,
  entries: ReadonlyMap<string, ConditionEntry>,
  own: SealedDrop,
): Promise<readonly WeekFile[]> {
  const { calendar } = run;
  const { dataset } = ledger;
  const monday = mondayOf(own.date);
  const isOver = listRestOfWeek(own.date, calendar).every((date) => isGone(entries.get(date)?.condition));
  const found: WeekFile[] = [];
  for (let date = addDays(monday, -7 * WEEKS_BEFORE); date < addDays(monday, 7); date = addDays(date, 1)) {
    const entry = entries.get(date);
    if (!isSession(date, calendar)) {
      const isWeekday = weekday(date) % 6 !== 0;
      if (isWeekday && date >= monday && (isOver || date < own.date))
        found.push({ date, state: 'closed', reason: '', summary: null, drop: null });
      continue;
    }
    const manifest = await ledger.validManifest(date, ({ message }) => leaveOut(run, dataset, date, message));
    // Not those to come, and no week before the job.
    if (date > own.date ? manifest || !isGone(entry?.condition) : date < monday && !manifest && !entry) continue;
    const summary = manifest ? await fetchSummary(run, ledger, manifest) : null;
    const isBefore = manifest !== undefined && date >= monday && date < own.date;
    const drop = isBefore ? await fetchDrop(run, manifest, localPath(run, dataset, date)) : null;
    found.push({ date, ...describeDay(manifest, entry, summary), summary, drop: date === own.date ? own : drop });
  }
  return found;
}

/** What a report says of a date without a manifest, by its condition. */
const GAPS: Readonly<Record<Condition | 'unknown', Pick<WeekFile, 'state' | 'reason'>>> = {
  available: { state: 'degraded', reason: 'its record cannot be read' },
  degraded: { state: 'degraded', reason: 'its record cannot be read' },
  pending: { state: 'pending', reason: 'it can still be fetched' },
  missing: { state: 'missing', reason: 'the source has no rows for it' },
  empty: { state: 'empty', reason: '' },
  expired: { state: 'lost', reason: 'it left the source before it was sealed' },
  unknown: { state: 'unknown', reason: 'the job did not ask for it' },
};

function describeDay(
  manifest: Manifest | undefined,
  entry: ConditionEntry | undefined,
  summary: PastSession | null,
): Pick<WeekFile, 'state' | 'reason'> {
  if (manifest === undefined) {
    const gap = GAPS[entry?.condition ?? 'unknown'];
    return entry?.accepted === undefined ? gap : { ...gap, reason: describeAccepted(entry.accepted) };
  }
  const doubts = listDoubts(manifest);
  if (summary === null) return { state: 'degraded', reason: 'its numbers cannot be read' };
  if (manifest.condition === 'degraded')
    return { state: 'degraded', reason: [manifest.degraded_reason ?? 'rows may be missing', ...doubts].join('; ') };
  return { state: doubts.length === 0 ? 'complete' : 'unusual', reason: doubts.join('; ') };
}

/** Of the newest revision that was mailed; absent without one that has them. */
async function readMailed(run: Run, dataset: string, place: ReportPlace) {
  for (let revision = place.revision; revision > 0; revision -= 1) {
    const parts = await readArchivedParts(run.ledger.store, run.log, { ...place, revision });
    if (parts === undefined) continue;
    try {
      const part = parts.find(({ title }) => title === dataset);
      if (part === undefined || !('report' in part)) return undefined;
      return { levels: readLevels(part.report), contracts: part.report.topContracts };
    } catch (error) {
      leaveOut(run, dataset, place.date, `its mailed report has no exposure that can be read: ${describeError(error)}`);
    }
  }
  return undefined;
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
  const { dataset, date, revision, condition, filter, rows, ids, sealed_at, degraded_reason, through } = manifest;
  return {
    dataset,
    date,
    revision,
    condition,
    degraded_reason,
    through,
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
