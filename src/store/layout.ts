/**
 * The names of objects in the store: the one place that builds and parses them (layout version 1).
 *
 *     <dataset>/date=2026-11-19/<dataset>.parquet
 *     <dataset>/date=2026-11-19/manifest.json
 *     _reports/<job>/date=2026-11-19/report.html, receipt.json, ...
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

/** The date of a manifest's key, or `undefined` for any other object. */
export function parseManifestDate(dataset: string, key: string): string | undefined {
  const groups = MANIFEST_KEY.exec(key)?.groups;
  return groups?.['dataset'] === dataset ? groups['date'] : undefined;
}

/**
 * Key of an artifact of a report: `report.html`, `report.txt`, `receipt.json`.
 * @param index place of the report in the job file; the first has no folder of its own
 */
export function reportKey(job: string, date: string, index: number, filename: string): string {
  return `_reports/${job}/date=${date}/${index === 0 ? '' : `${index + 1}/`}${filename}`;
}
