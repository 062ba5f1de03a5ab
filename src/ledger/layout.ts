/**
 * The names of objects in the store: the one place that builds and parses them (layout version 1).
 *
 *     <dataset>/date=2026-11-19/<dataset>.parquet
 *     <dataset>/date=2026-11-19/manifest.json
 *     <dataset>/date=2026-11-19/summary.parquet         for datasets of single trades
 *     <dataset>/date=2026-11-19/quarantine.ndjson       where rows could not be taken as they are
 *     <dataset>/condition.json
 *     <dataset>/_history/date=2026-11-19/rev=1/...      the files of a replaced revision, under their names
 *     _sealing/<dataset>/date=2026-11-19/rev=1/...     only while a date is being sealed
 *     _sealing/<dataset>/set-aside/date=2026-11-19/rev=1/<hash>/...   a decision that cannot be carried out, for the operator
 *     _flowdrop/store.json                             which store it is; written with its first object
 *     _doctor/...                                       only while `flowdrop doctor` tries its rights
 *     _alerts/<job>.json                               what operators were told, and what is still open
 *     _reports/<job>/date=2026-11-19/<report>/receipt.json
 *     _reports/<job>/date=2026-11-19/<report>/claim=1.json    the receipt as the first process that mailed wrote it, and so on
 *     _reports/<job>/date=2026-11-19/<report>/rev=1/report.html, report.eml, report.json    what was mailed of a revision
 */

import { SEALING_PREFIX } from '../store/key-kind.ts';

/** Where `flowdrop doctor` tries its rights. The underscore keeps Hive-style readers out. */
export const DOCTOR_PREFIX = '_doctor/';
/** Restating a date every minute for two years comes to fewer: a document that says more is damaged. */
export const MAX_REVISION = 1_000_000;

export const MANIFEST_FILENAME = 'manifest.json';
export const SUMMARY_FILENAME = 'summary.parquet';
export const QUARANTINE_FILENAME = 'quarantine.ndjson';

const MANIFEST_KEY = /^(?<dataset>[^/]+)\/date=(?<date>\d{4}-\d{2}-\d{2})\/manifest\.json$/;
/** Below the dataset's folder. */
const PARTITION_KEY = /^(?<history>_history\/)?date=(?<date>\d{4}-\d{2}-\d{2})\/(?:rev=(?<revision>[1-9]\d*)\/)?[^/]+$/;

/** No date, so that nobody takes what is there for a date that is being sealed. */
const SET_ASIDE = 'set-aside/';
/** Below the folder of what is being sealed of a dataset. */
const SEALING_KEY = /^(?<aside>set-aside\/)?date=(?<date>\d{4}-\d{2}-\d{2})\/rev=(?<revision>[1-9]\d*)\//;

/** Below the folder of a job's reports. */
const REPORT_COPY_KEY =
  /^date=(?<date>\d{4}-\d{2}-\d{2})\/(?<report>[\w.-]+)\/rev=(?<revision>[1-9]\d*)\/(?<filename>[^/]+)$/;

export function partitionPrefix(dataset: string, date: string): string {
  return `${dataset}/date=${date}/`;
}

export function dropFilename(dataset: string): string {
  return `${dataset}.parquet`;
}

export function dropKey(dataset: string, date: string): string {
  return partitionPrefix(dataset, date) + dropFilename(dataset);
}

export function manifestKey(dataset: string, date: string): string {
  return partitionPrefix(dataset, date) + MANIFEST_FILENAME;
}

/** The conditions of all dates of a dataset. */
export function conditionKey(dataset: string): string {
  return `${dataset}/condition.json`;
}

/** Everything of a dataset: partitions, conditions, history. */
export function datasetPrefix(dataset: string): string {
  return `${dataset}/`;
}

/** Partitions of a dataset, without its history. */
export function partitionsPrefix(dataset: string): string {
  return `${dataset}/date=`;
}

/** Replaced revisions of a date. The underscore keeps Hive-style readers (Spark, Trino, Athena) out. */
export function historyPrefix(dataset: string, date: string): string {
  return `${dataset}/_history/date=${date}/`;
}

/** A file of a replaced revision; its manifest is written last, so the revision is kept exactly when it has one. */
export function historyKey(dataset: string, date: string, revision: number, filename: string): string {
  return `${historyPrefix(dataset, date)}rev=${revision}/${filename}`;
}

/** What a key below a dataset is a part of; `undefined` for what the layout does not know. */
export function parseDatasetKey(
  dataset: string,
  key: string,
):
  | { readonly kind: 'partition' | 'history'; readonly date: string; readonly revision: number }
  | { readonly kind: 'condition' }
  | undefined {
  if (key === conditionKey(dataset)) return { kind: 'condition' };
  const groups = key.startsWith(datasetPrefix(dataset)) && PARTITION_KEY.exec(key.slice(dataset.length + 1))?.groups;
  if (!groups) return undefined;
  const revision = Number(groups['revision'] ?? 0);
  if ((groups['history'] === undefined) !== (revision === 0)) return undefined;
  return { kind: revision === 0 ? 'partition' : 'history', date: groups['date'] ?? '', revision };
}

/** A file on its way to become a drop, named by its content. */
export function sealingFileKey(dataset: string, date: string, revision: number, sha256: string): string {
  return `${sealingPrefix(dataset, date, revision)}${sha256}.parquet`;
}

/** Which of the files is to become the drop: a whole manifest, written once. */
export function sealingDecisionKey(dataset: string, date: string, revision: number): string {
  return `${sealingPrefix(dataset, date, revision)}decision.json`;
}

/** What is being sealed: of a dataset, or of one revision of a date. */
export function sealingPrefix(dataset: string, date?: string, revision?: number): string {
  const root = `${SEALING_PREFIX}${dataset}/`;
  return date === undefined || revision === undefined ? root : `${root}date=${date}/rev=${revision}/`;
}

/** Where a decision goes that cannot be carried out, with what lies beside it. @param digest tells it from others of the revision */
export function setAsidePrefix(dataset: string, date: string, revision: number, digest: string): string {
  return `${sealingPrefix(dataset)}${SET_ASIDE}date=${date}/rev=${revision}/${digest}/`;
}

/** What an object below `sealingPrefix` is of; `undefined` for what the layout does not know. */
export function parseSealingKey(
  dataset: string,
  key: string,
): { readonly date: string; readonly revision: number; readonly isSetAside: boolean } | undefined {
  const root = sealingPrefix(dataset);
  const groups = key.startsWith(root) && SEALING_KEY.exec(key.slice(root.length))?.groups;
  if (!groups) return undefined;
  const { date = '', revision, aside } = groups;
  return { date, revision: Number(revision), isSetAside: aside !== undefined };
}

/** The date of a manifest's key, or `undefined` for any other object. */
export function parseManifestDate(dataset: string, key: string): string | undefined {
  const groups = MANIFEST_KEY.exec(key)?.groups;
  return groups?.['dataset'] === dataset ? groups['date'] : undefined;
}

/**
 * Who has got the report of a date.
 * @param report what tells the report from others of the job, whatever their order in the job file
 */
export function receiptKey(job: string, date: string, report: string): string {
  return `${reportsPrefix(job)}date=${date}/${report}/receipt.json`;
}

/** The receipt as the n-th process that mailed wrote it: made once, and changed by nobody else. */
export function claimKey(job: string, date: string, report: string, turn: number): string {
  return `${claimsPrefix(job, date, report)}${turn}.json`;
}

/** All claims of a report of a date. */
export function claimsPrefix(job: string, date: string, report: string): string {
  return `${reportsPrefix(job)}date=${date}/${report}/claim=`;
}

/** The number of a claim; 0 for any other object. */
export function parseClaimTurn(prefix: string, key: string): number {
  const digits =
    key.startsWith(prefix) && /^(?<turn>[1-9]\d{0,8})\.json$/.exec(key.slice(prefix.length))?.groups?.['turn'];
  return digits ? Number(digits) : 0;
}

/** The date of a receipt's key, or `undefined` for any other object. */
export function parseReceiptDate(job: string, report: string, key: string): string | undefined {
  const date = key.slice(reportsPrefix(job).length + 'date='.length).slice(0, 10);
  return key === receiptKey(job, date, report) ? date : undefined;
}

/** All reports of a job. */
export function reportsPrefix(job: string): string {
  return `_reports/${job}/`;
}

/** Copies of what was mailed of a revision: `report.html`, `report.eml`, `report.json`. */
export function reportCopyPrefix(job: string, date: string, report: string, revision: number): string {
  return `${reportsPrefix(job)}date=${date}/${report}/rev=${revision}/`;
}

/** What a copy of a mailed report is a copy of, and its name; `undefined` for any other object. */
export function parseReportCopyKey(
  job: string,
  key: string,
):
  | { readonly date: string; readonly report: string; readonly revision: number; readonly filename: string }
  | undefined {
  const groups =
    key.startsWith(reportsPrefix(job)) && REPORT_COPY_KEY.exec(key.slice(reportsPrefix(job).length))?.groups;
  if (!groups) return undefined;
  const { date = '', report = '', revision, filename = '' } = groups;
  return { date, report, revision: Number(revision), filename };
}

/** What the operators of a job were told. */
export function alertsKey(job: string): string {
  return `_alerts/${job}.json`;
}
