/** Addresses of the pages: only this module and `core/report-page.ts` build them. Invariant: each part is encoded. */

export function jobPath(job: string): string {
  return `/jobs/${encodeURIComponent(job)}`;
}

export function runPath(job: string, id: string): string {
  return `/runs/${encodeURIComponent(job)}/${encodeURIComponent(id)}`;
}

export function dropPath(job: string, date: string): string {
  return `/drops/${encodeURIComponent(job)}/${encodeURIComponent(date)}`;
}

/** Of its Parquet file. */
export function dropFilePath(job: string, date: string): string {
  return `${dropPath(job, date)}/file`;
}

/** The parts of an address, decoded; none if one of them is not encoded as it must be: no page has such an address. */
export function splitPath(path: string): readonly string[] {
  try {
    return path.slice(1).split('/').map(decodeURIComponent);
  } catch {
    return [];
  }
}
