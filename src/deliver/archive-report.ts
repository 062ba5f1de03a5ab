/**
 * Copies in the store of what was mailed, per revision: the full report as a page, the message, and the model as JSON. The usual edition has a plain name; those of other watchlists, time zones or corrections have a hash in their
 * names.
 */
import { createHash } from 'node:crypto';
import { describeError } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { reportCopyPrefix } from '../ledger/layout.ts';
import type { FlowReport } from '../report/model.ts';
import type { DigestPart } from '../report/text/mail-view.ts';
import type { Run } from '../run/run.ts';
import type { Store } from '../store/store.ts';
import { listReports } from './content.ts';

export interface ArchivePlace {
  readonly job: string;
  readonly date: string;
  /** Distinguishes the report from the job's others. */
  readonly report: string;
  readonly revision: number;
}

interface ReportCopy {
  /** Empty for the usual edition, else text that distinguishes this copy from the others of the revision. */
  readonly variant: string;
  readonly parts: readonly DigestPart[];
  /** The full report, HTML. */
  readonly page: string;
  readonly eml: Uint8Array;
}

/** Idempotent: the same copy has the same keys. @throws StoreFault */
export async function archiveReport(run: Run, place: ArchivePlace, copy: ReportCopy): Promise<void> {
  const put = async (extension: string, bytes: Uint8Array, contentType: string) =>
    await run.ledger.store.put(copyKeyOf(place, copy.variant, extension), { bytes }, { contentType });
  await put('html', Buffer.from(copy.page), 'text/html; charset=utf-8');
  await put('eml', copy.eml, 'message/rfc822');
  await put('json', Buffer.from(`${JSON.stringify(copy.parts, undefined, 2)}\n`), 'application/json');
}

/** Key of the full report. */
export function pageKeyOf(place: ArchivePlace, variant: string): string {
  return copyKeyOf(place, variant, 'html');
}

function copyKeyOf({ job, date, report, revision }: ArchivePlace, variant: string, extension: string): string {
  const suffix = variant === '' ? '' : `-${createHash('sha256').update(variant).digest('hex').slice(0, 8)}`;
  return `${reportCopyPrefix(job, date, report, revision)}report${suffix}.${extension}`;
}

/**
 * The models that were mailed for a revision, for any watchlist: the day's numbers are the same in all of them.
 * `undefined` if there is no readable copy: then nothing can be compared.
 */
export async function readArchivedReports(run: Run, place: ArchivePlace): Promise<readonly FlowReport[] | undefined> {
  const parts = await readArchivedParts(run.ledger.store, run.log, place);
  return parts && listReports(parts);
}

/** What was mailed for a revision, of the usual edition if there is a copy of it. `undefined` without a readable copy. */
export async function readArchivedParts(
  store: Store,
  log: Log,
  place: ArchivePlace,
): Promise<readonly DigestPart[] | undefined> {
  const prefix = reportCopyPrefix(place.job, place.date, place.report, place.revision);
  const keys: string[] = [];
  for await (const { key } of store.list(prefix)) if (key.endsWith('.json')) keys.push(key);
  const usual = copyKeyOf(place, '', 'json');
  for (const key of keys.sort((a, b) => Number(b === usual) - Number(a === usual))) {
    const bytes = await store.get(key);
    try {
      // Our own document; one that lacks a number fails when that is read.
      return JSON.parse(Buffer.from(bytes ?? []).toString('utf8')) as readonly DigestPart[];
    } catch (error) {
      const reason = describeError(error);
      log.warn({ event: 'report-copy-invalid', key, reason }, `${key} cannot be read: ${reason}`);
    }
  }
  return undefined;
}
