/**
 * The names of objects in the store: only this module builds and parses them (layout version 1).
 *
 *     <dataset>/date=2026-11-19/<dataset>.parquet
 *     <dataset>/date=2026-11-19/manifest.json
 *     <dataset>/date=2026-11-19/summary.parquet         for datasets of single trades
 *     <dataset>/date=2026-11-19/quarantine.ndjson       when rows were invalid
 *     <dataset>/condition.json
 *     <dataset>/_history/date=2026-11-19/rev=1/...      the files of a replaced revision, under their names
 *     _sealing/<dataset>/date=2026-11-19/rev=1/...     only while a date is being sealed
 *     _sealing/<dataset>/set-aside/date=2026-11-19/rev=1/<hash>/...   a failed decision, for the operator
 *     _flowdrop/store.json                             the identity of the store; written with its first object
 *     _doctor/...                                       only while `flowdrop doctor` tests its rights
 *     _alerts/<job>.json                               alerts that were sent, and what is still open
 *     _reports/<job>/date=2026-11-19/<report>/receipt.json
 *     _reports/<job>/date=2026-11-19/<report>/claim=1.json    the receipt of the first process that mailed
 *     _reports/<job>/date=2026-11-19/<report>/rev=1/report.html, report.eml, report.json    the mailed report
 */

import { SEALING_PREFIX } from '../store/key-kind.ts';

/** Where `flowdrop doctor` tests its rights. The underscore makes Hive-style readers skip it. */
export const DOCTOR_PREFIX = '_doctor/';
/** A restatement every minute reaches it after 694 days: a document with a higher revision is damaged. */
export const MAX_REVISION = 1_000_000;

export const MANIFEST_FILENAME = 'manifest.json';
export const SUMMARY_FILENAME = 'summary.parquet';
export const QUARANTINE_FILENAME = 'quarantine.ndjson';

const MANIFEST_KEY = /^(?<dataset>[^/]+)\/date=(?<date>\d{4}-\d{2}-\d{2})\/manifest\.json$/;
/** Relative to the dataset's folder. */
const PARTITION_KEY = /^(?<history>_history\/)?date=(?<date>\d{4}-\d{2}-\d{2})\/(?:rev=(?<revision>[1-9]\d*)\/)?[^/]+$/;

/** It contains no date, so it cannot be confused with a date that is being sealed. */
const SET_ASIDE = 'set-aside/';
/** Relative to the dataset's folder under `_sealing/`. */
const SEALING_KEY = /^(?<aside>set-aside\/)?date=(?<date>\d{4}-\d{2}-\d{2})\/rev=(?<revision>[1-9]\d*)\//;

/** Relative to the folder of a job's reports. */
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

/** All objects of a dataset: partitions, conditions, history. */
export function datasetPrefix(dataset: string): string {
  return `${dataset}/`;
}

/** Partitions of a dataset, without its history. */
export function partitionsPrefix(dataset: string): string {
  return `${dataset}/date=`;
}

/** Replaced revisions of a date. The underscore makes Hive-style readers (Spark, Trino, Athena) skip them. */
export function historyPrefix(dataset: string, date: string): string {
  return `${dataset}/_history/date=${date}/`;
}

/**
 * A file of a replaced revision. Its manifest is written last, so a revision is in the history exactly when it has one.
 */
export function historyKey(dataset: string, date: string, revision: number, filename: string): string {
  return `${historyPrefix(dataset, date)}rev=${revision}/${filename}`;
}

/** Classifies a key of a dataset; `undefined` for keys that are not part of the layout. */
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

/** A file that may become a drop, named by its content. */
export function sealingFileKey(dataset: string, date: string, revision: number, sha256: string): string {
  return `${sealingPrefix(dataset, date, revision)}${sha256}.parquet`;
}

/** The decision which files become the drop: a complete manifest, written once. */
export function sealingDecisionKey(dataset: string, date: string, revision: number): string {
  return `${sealingPrefix(dataset, date, revision)}decision.json`;
}

/** Files being sealed: of a dataset, or of one revision of a date. */
export function sealingPrefix(dataset: string, date?: string, revision?: number): string {
  const root = `${SEALING_PREFIX}${dataset}/`;
  return date === undefined || revision === undefined ? root : `${root}date=${date}/rev=${revision}/`;
}

/**
 * Folder for a decision that cannot be carried out, with the files beside it.
 * @param digest distinguishes it from other decisions of the revision
 */
export function setAsidePrefix(dataset: string, date: string, revision: number, digest: string): string {
  return `${sealingPrefix(dataset)}${SET_ASIDE}date=${date}/rev=${revision}/${digest}/`;
}

/** Parses a key below `sealingPrefix`; `undefined` for keys that are not part of the layout. */
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
 * The recipients who have received the report of a date.
 * @param report identifies the report within the job, independent of the order in the job file
 */
export function receiptKey(job: string, date: string, report: string): string {
  return `${reportsPrefix(job)}date=${date}/${report}/receipt.json`;
}

/** The receipt as written by the n-th process that mailed: created once, and changed only by that process. */
export function claimKey(job: string, date: string, report: string, turn: number): string {
  return `${claimsPrefix(job, date, report)}${turn}.json`;
}

/** All claims for a report of a date. */
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

/** Copies of the report that was mailed for a revision: `report.html`, `report.eml`, `report.json`. */
export function reportCopyPrefix(job: string, date: string, report: string, revision: number): string {
  return `${reportsPrefix(job)}date=${date}/${report}/rev=${revision}/`;
}

/** Parses the key of a mailed report's copy; `undefined` for any other object. */
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

/** The operator alerts of a job that were sent. */
export function alertsKey(job: string): string {
  return `_alerts/${job}.json`;
}
