/**
 * Addresses of the pages and of their actions: only this module and `core/report-page.ts` build them. Invariant: each
 * part is encoded.
 */

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

export const ACTIONS = ['run', 'retry', 'stop', 'price', 'backfill', 'audit', 'accept', 'send', 'reload'] as const;

export type ActionName = (typeof ACTIONS)[number];

/** `/actions/run?job=nightly` */
export function actionPath(action: ActionName, fields: Readonly<Record<string, string | undefined>> = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) query.set(name, value);
  return `/actions/${action}${query.size > 0 ? `?${query}` : ''}`;
}

/** The parts of an address, decoded; none if one of them is not encoded as it must be: no page has such an address. */
export function splitPath(path: string): readonly string[] {
  try {
    return path.slice(1).split('/').map(decodeURIComponent);
  } catch {
    return [];
  }
}
