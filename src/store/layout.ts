/**
 * The names of objects in the store: the one place that builds and parses them (layout version 1).
 *
 *     <dataset>/date=2026-11-19/<dataset>.parquet
 *     <dataset>/date=2026-11-19/manifest.json
 *     _sealing/<dataset>/date=2026-11-19/rev=1/...     only while a date is being sealed
 *     _reports/<job>/date=2026-11-19/<report>/report.html, receipt.json, ...
 */

const MANIFEST_KEY = /^(?<dataset>[^/]+)\/date=(?<date>\d{4}-\d{2}-\d{2})\/manifest\.json$/;

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
  return `${partitionPrefix(dataset, date)}manifest.json`;
}

/** A file on its way to become a drop, named by its content. */
export function sealingFileKey(dataset: string, date: string, revision: number, sha256: string): string {
  return `${sealingPrefix(dataset, date, revision)}${sha256}.parquet`;
}

/** Which of the files is to become the drop: a whole manifest, written once. */
export function sealingDecisionKey(dataset: string, date: string, revision: number): string {
  return `${sealingPrefix(dataset, date, revision)}decision.json`;
}

function sealingPrefix(dataset: string, date: string, revision: number): string {
  return `_sealing/${dataset}/date=${date}/rev=${revision}/`;
}

/** The date of a manifest's key, or `undefined` for any other object. */
export function parseManifestDate(dataset: string, key: string): string | undefined {
  const groups = MANIFEST_KEY.exec(key)?.groups;
  return groups?.['dataset'] === dataset ? groups['date'] : undefined;
}

/**
 * Key of an artifact of a report: `report.html`, `report.txt`, `receipt.json`.
 * @param report what tells the report from others of the job, whatever their order in the job file
 */
export function reportKey(job: string, date: string, report: string, filename: string): string {
  return `_reports/${job}/date=${date}/${report}/${filename}`;
}
