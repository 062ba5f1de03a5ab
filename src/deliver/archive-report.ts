/**
 * Copies in the store of what was mailed, per revision: a page that opens in a browser, the message, and the model as JSON.
 * The first of a revision is the reader's usual one; those of other watchlists, zones or corrections have a hash in their
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
  /** What tells the report from others of the job. */
  readonly report: string;
  readonly revision: number;
}

interface ReportCopy {
  /** Empty for the usual reader, else text that tells this copy from the others of the revision. */
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
 * The models that were mailed of a revision, whatever the watchlist: the day's numbers are the same in all of them.
 * `undefined` when there is no copy, or none that can be read: then nothing can be compared.
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
      // Our own document; what another version wrote otherwise fails below, when a number is read.
      return listReports(JSON.parse(Buffer.from(bytes ?? []).toString('utf8')) as readonly DigestPart[]);
    } catch (error) {
      const reason = describeError(error);
      context.log.warn({ event: 'report-copy-invalid', key, reason }, `${key} cannot be read: ${reason}`);
    }
  }
  return undefined;
}
