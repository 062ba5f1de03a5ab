/**
 * Copies in the store of what was mailed, per revision: a page that opens in a browser, the message, and the model as
 * JSON. The usual edition has a plain name; those of other watchlists, time zones or corrections have a hash in their
 * names.
 */
import { createHash } from 'node:crypto';
import { describeError } from '../core/errors.ts';
import { reportCopyPrefix } from '../ledger/layout.ts';
import { embedImages } from '../mail/mail-page.ts';
import type { DigestPart } from '../report/digest.ts';
import type { FlowReport } from '../report/model.ts';
import type { RenderedReport } from '../report/render.ts';
import { listReports } from './content.ts';
import type { DeliverContext } from './delivery.ts';

interface ArchivePlace {
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
  readonly rendered: RenderedReport;
  readonly eml: Uint8Array;
}

/** Idempotent: the same copy has the same keys. @throws StoreFault */
export async function archiveReport(context: DeliverContext, place: ArchivePlace, copy: ReportCopy): Promise<void> {
  const suffix = copy.variant === '' ? '' : `-${createHash('sha256').update(copy.variant).digest('hex').slice(0, 8)}`;
  const prefix = reportCopyPrefix(place.job, place.date, place.report, place.revision);
  const put = async (extension: string, bytes: Uint8Array, contentType: string) =>
    await context.store.put(`${prefix}report${suffix}.${extension}`, { bytes }, { contentType });
  const { rendered, parts } = copy;
  const page = Buffer.from(embedImages(rendered.html, rendered.images));
  await put('html', page, 'text/html; charset=utf-8');
  await put('eml', copy.eml, 'message/rfc822');
  await put('json', Buffer.from(`${JSON.stringify(parts, undefined, 2)}\n`), 'application/json');
}

/**
 * The models that were mailed for a revision, for any watchlist: the day's numbers are the same in all of them.
 * `undefined` if there is no readable copy: then nothing can be compared.
 */
export async function readArchivedReports(
  context: DeliverContext,
  place: ArchivePlace,
): Promise<readonly FlowReport[] | undefined> {
  const prefix = reportCopyPrefix(place.job, place.date, place.report, place.revision);
  for await (const { key } of context.store.list(prefix)) {
    if (!key.endsWith('.json')) continue;
    const bytes = await context.store.get(key);
    try {
      // Our own document; if another version wrote it differently, it fails later, when a number is read.
      return listReports(JSON.parse(Buffer.from(bytes ?? []).toString('utf8')) as readonly DigestPart[]);
    } catch (error) {
      const reason = describeError(error);
      context.log.warn({ event: 'report-copy-invalid', key, reason }, `${key} cannot be read: ${reason}`);
    }
  }
  return undefined;
}
