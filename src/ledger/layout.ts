/**
 * The names of objects in the store: only this module builds and parses them (layout version 2).
 *
 *     <dataset>/session=2026-11-19/<dataset>.parquet                  rows and nothing else: readers take the folder
 *     <dataset>/session=2026-11-19/<dataset>.r2.parquet               revision 2 of a table: nothing is overwritten
 *     _flowdrop/store.json                                            the identity of the store; written first
 *     _flowdrop/<dataset>/session=2026-11-19/manifest.json            written last: a date is sealed if it exists
 *     _flowdrop/<dataset>/session=2026-11-19/summary.parquet          for datasets of single trades
 *     _flowdrop/<dataset>/session=2026-11-19/counts.parquet           the source's counts, which audits compare
 *     _flowdrop/<dataset>/session=2026-11-19/quarantine.ndjson        when rows were invalid
 *     _flowdrop/<dataset>/condition.json                              one entry a date
 *     _flowdrop/<dataset>/accepted/session=2026-11-19.json            a gap that a person accepted: who, when, why
 *     _flowdrop/<dataset>/fields/v1.json                              field ids of the columns; v2 with the next column
 *     _flowdrop/<dataset>/iceberg/metadata/v1.metadata.json           the Iceberg table; v2 with the next commit
 *     _flowdrop/<dataset>/iceberg/metadata/version-hint.text          the newest version, for readers without a catalog
 *     _flowdrop/<dataset>/iceberg/metadata/<number>-<name>.metadata.json   the same for REST catalogs, which add theirs
 *     _flowdrop/<dataset>/iceberg/metadata/<name>.avro                manifests of the table, named by their content
 *     _flowdrop/<dataset>/history/session=2026-11-19/rev=1/...        the files of a replaced revision
 *     _flowdrop/<dataset>/history/session=2026-11-19/rev=1/lost.json  which of them are lost, if any
 *     _flowdrop/sealing/<dataset>/session=2026-11-19/rev=1/...        only while a date is being sealed
 *     _flowdrop/sealing/<dataset>/set-aside/session=2026-11-19/rev=1/<hash>/...   a failed decision, for the operator
 *     _flowdrop/doctor/...                                            only while `flowdrop doctor` tests its rights
 *     _flowdrop/alerts/<job>/v<N>.json                                alerts that were sent, and what is still open
 *     _flowdrop/reports/<job>/session=2026-11-19/<report>/receipt/v<N>.json    who has the report, and who is mailing it
 *     _flowdrop/reports/<job>/session=2026-11-19/<report>/rev=1/report.html, report.eml, report.json    the mailed report
 *
 * No dataset has a column `session`: pandas and pyarrow refuse a partition key that is also a column.
 */

import { RECORDS_PREFIX, SEALING_PREFIX } from '../store/object-key.ts';
import type { Manifest } from './manifest.ts';

export const MANIFEST_FILENAME = 'manifest.json';
export const SUMMARY_FILENAME = 'summary.parquet';
export const COUNTS_FILENAME = 'counts.parquet';
export const QUARANTINE_FILENAME = 'quarantine.ndjson';
export const LOST_FILENAME = 'lost.json';

/** Relative to the folder of a dataset's rows. */
const DROP_KEY = /^session=(?<date>\d{4}-\d{2}-\d{2})\/[^/]+\.parquet$/;
/** Relative to the folder of a dataset's records. */
const RECORD_KEY = /^(?<history>history\/)?session=(?<date>\d{4}-\d{2}-\d{2})\/(?:rev=(?<revision>[1-9]\d*)\/)?[^/]+$/;

/** It contains no date, so it cannot be confused with a date that is being sealed. */
const SET_ASIDE = 'set-aside/';
/** Relative to the dataset's folder under `sealing/`. */
const SEALING_KEY = /^(?<aside>set-aside\/)?session=(?<date>\d{4}-\d{2}-\d{2})\/rev=(?<revision>[1-9]\d*)\//;

/** Relative to the folder of a job's reports. */
const REPORT_COPY_KEY =
  /^session=(?<date>\d{4}-\d{2}-\d{2})\/(?<report>[\w.-]+)\/rev=(?<revision>[1-9]\d*)\/(?<filename>[^/]+)$/;

/** Of a date, if one is given. */
const below = (date: string | undefined) => (date === undefined ? '' : `session=${date}/`);

/** The rows of a dataset, or of one date. */
export const dropsPrefix = (dataset: string, date?: string) => `${dataset}/${below(date)}`;
/** What is on record of a dataset, or of one date: manifest and summary, conditions, history. */
export const recordsPrefix = (dataset: string, date?: string) => `${RECORDS_PREFIX}${dataset}/${below(date)}`;
/** The records of all sealed dates, without conditions and history. */
export const sealedPrefix = (dataset: string) => `${recordsPrefix(dataset)}session=`;
export const manifestKey = (dataset: string, date: string) => recordsPrefix(dataset, date) + MANIFEST_FILENAME;
export const conditionKey = (dataset: string) => `${recordsPrefix(dataset)}condition.json`;
export const acceptedPrefix = (dataset: string) => `${recordsPrefix(dataset)}accepted/session=`;
export const acceptedKey = (dataset: string, date: string) => `${acceptedPrefix(dataset)}${date}.json`;
/** The field ids of a dataset's columns: each version adds columns to the one before. */
export const fieldsPrefix = (dataset: string) => `${recordsPrefix(dataset)}fields/v`;
export const historyPrefix = (dataset: string, date?: string) => `${recordsPrefix(dataset)}history/${below(date)}`;
/** A file of a replaced revision. Its manifest is written last, so a revision is in the history exactly when it has one. */
export const historyKey = (dataset: string, date: string, revision: number, filename: string) =>
  `${historyPrefix(dataset, date)}rev=${revision}/${filename}`;

/** The folder of a dataset's Iceberg table: its metadata, no rows. */
export const tablePrefix = (dataset: string) => `${recordsPrefix(dataset)}iceberg/`;
export const tableMetadataPrefix = (dataset: string) => `${tablePrefix(dataset)}metadata/`;
/** All versions; beside them the prefix has only the version hint. */
export const tableVersionsPrefix = (dataset: string) => `${tableMetadataPrefix(dataset)}v`;
export const tableVersionKey = (dataset: string, version: number) =>
  `${tableVersionsPrefix(dataset)}${version}.metadata.json`;
/** A version that a REST catalog was given, named by its content: no commit removes it. */
export const registeredVersionKey = (dataset: string, digest: string) =>
  `${tableMetadataPrefix(dataset)}00000-${digest}.metadata.json`;
export const tableHintKey = (dataset: string) => `${tableMetadataPrefix(dataset)}version-hint.text`;

/** Files being sealed: of a dataset, or of one revision of a date. */
export const sealingPrefix = (dataset: string, date?: string, revision?: number) =>
  `${SEALING_PREFIX}${dataset}/${revision === undefined ? '' : `${below(date)}rev=${revision}/`}`;
export const sealingFileKey = (dataset: string, date: string, revision: number, sha256: string) =>
  `${sealingPrefix(dataset, date, revision)}${sha256}.parquet`;
/** The decision which files become the drop: a complete manifest, written once. */
export const sealingDecisionKey = (dataset: string, date: string, revision: number) =>
  `${sealingPrefix(dataset, date, revision)}decision.json`;
/** For a decision that cannot be carried out, with the files beside it. @param digest of the decision */
export const setAsidePrefix = (dataset: string, date: string, revision: number, digest: string) =>
  `${sealingPrefix(dataset)}${SET_ASIDE}session=${date}/rev=${revision}/${digest}/`;

/** Has a folder for each job that mailed a report. */
export const REPORTS_PREFIX = `${RECORDS_PREFIX}reports/`;
export const reportsPrefix = (job: string) => `${REPORTS_PREFIX}${job}/`;
/** Who has received a report of a date, and who is mailing it. @param report identifies it within the job */
export const receiptPrefix = (job: string, date: string, report: string) =>
  `${reportsPrefix(job)}session=${date}/${report}/receipt/v`;
/** Copies of the report that was mailed for a revision: `report.html`, `report.eml`, `report.json`. */
export const reportCopyPrefix = (job: string, date: string, report: string, revision: number) =>
  `${reportsPrefix(job)}session=${date}/${report}/rev=${revision}/`;
/** A job's alerts and events, sent and not yet sent: the keys of the document begin with this. */
export const alertsPrefix = (job: string) => `${RECORDS_PREFIX}alerts/${job}/v`;

export const filenameOf = (key: string) => key.slice(key.lastIndexOf('/') + 1);
export const dropFilename = (dataset: string) => `${dataset}.parquet`;
/** The file of a revision in a table, which readers of older snapshots still read when the next one is sealed. */
export const tableDropFilename = (dataset: string, revision: number) =>
  revision === 1 ? dropFilename(dataset) : `${dataset}.r${revision}.parquet`;
/** The object with the rows of a date without a table. */
export const dropKey = (dataset: string, date: string) => fileKey(dataset, date, dropFilename(dataset));
/** The object with the rows of a manifest. */
export const dropKeyOf = ({ dataset, date, files: [file] }: Pick<Manifest, 'dataset' | 'date' | 'files'>) =>
  fileKey(dataset, date, file.filename);

/** Where a file of a sealed date lies, by the name that its manifest gives it: rows in one folder, all else in another. */
export function fileKey(dataset: string, date: string, filename: string): string {
  return (isDropFilename(dataset, filename) ? dropsPrefix(dataset, date) : recordsPrefix(dataset, date)) + filename;
}

export function isDropFilename(dataset: string, filename: string): boolean {
  return filename === dropFilename(dataset) || matchBelow(dataset, filename, /^\.r[1-9]\d*\.parquet$/) !== undefined;
}

/** Classifies a key below a dataset's rows or records; `undefined` for keys that are not part of the layout. */
export function parseDatasetKey(dataset: string, key: string) {
  if (key === conditionKey(dataset)) return { kind: 'condition' as const };
  if (matchBelow(fieldsPrefix(dataset), key, /^[1-9]\d{0,8}\.json$/)) return { kind: 'fields' as const };
  if (key.startsWith(tablePrefix(dataset))) return { kind: 'table' as const };
  const accepted = matchBelow(acceptedPrefix(dataset), key, /^(?<date>\d{4}-\d{2}-\d{2})\.json$/);
  if (accepted) return { kind: 'accepted' as const, date: accepted['date'] ?? '' };
  const drop = matchBelow(dropsPrefix(dataset), key, DROP_KEY);
  if (drop) return { kind: 'drop' as const, date: drop['date'] ?? '' };
  const record = matchBelow(recordsPrefix(dataset), key, RECORD_KEY);
  if (!record) return undefined;
  const revision = Number(record['revision'] ?? 0);
  if ((record['history'] === undefined) !== (revision === 0)) return undefined;
  const date = record['date'] ?? '';
  return revision === 0 ? { kind: 'record' as const, date } : { kind: 'history' as const, date, revision };
}

function matchBelow(prefix: string, key: string, pattern: RegExp): Record<string, string | undefined> | undefined {
  const match = key.startsWith(prefix) ? pattern.exec(key.slice(prefix.length)) : null;
  return match === null ? undefined : (match.groups ?? {});
}

/** Parses a key below `sealingPrefix`; `undefined` for keys that are not part of the layout. */
export function parseSealingKey(dataset: string, key: string) {
  const found = matchBelow(sealingPrefix(dataset), key, SEALING_KEY);
  if (found === undefined) return undefined;
  return { date: found['date'] ?? '', revision: Number(found['revision']), isSetAside: found['aside'] !== undefined };
}

/** The date of a receipt's key, or `undefined` for any other object. */
export function parseReceiptDate(job: string, report: string, key: string): string | undefined {
  const date = key.slice(reportsPrefix(job).length + 'session='.length).slice(0, 10);
  return key.startsWith(receiptPrefix(job, date, report)) ? date : undefined;
}

/** Parses the key of a mailed report's copy; `undefined` for any other object. */
export function parseReportCopyKey(job: string, key: string) {
  const found = matchBelow(reportsPrefix(job), key, REPORT_COPY_KEY);
  if (found === undefined) return undefined;
  const { date = '', report = '', revision, filename = '' } = found;
  return { date, report, revision: Number(revision), filename };
}
