/**
 * How a recipient reaches the full report: by the status page's public address, by a signed link to its copy in the store,
 * or attached to the mail.
 */

import { reportPath } from '../core/report-page.ts';
import type { JobReport } from '../job/job.ts';
import type { MailAttachment } from '../mail/mailer.ts';
import type { FullReportPlace } from '../report/text/mail-view.ts';
import { type ArchivePlace, pageKeyOf } from './archive-report.ts';
import type { DeliverContext } from './delivery.ts';

interface FullReportCopy {
  readonly place: ArchivePlace;
  /** Empty for the usual edition; the status page shows no other. */
  readonly variant: string;
}

/** A link to the full report; `undefined`: it has to be attached. */
export async function linkFullReport(
  { publicUrl, store }: DeliverContext,
  { linkSeconds }: JobReport,
  { place, variant }: FullReportCopy,
): Promise<FullReportPlace | undefined> {
  if (publicUrl !== undefined && variant === '')
    return { url: `${publicUrl}${reportPath(place.job, place)}`, expiresAt: null };
  if (linkSeconds === null) return undefined;
  const link = await store.link(pageKeyOf(place, variant), linkSeconds);
  return link && { url: link.url, expiresAt: link.expiresAt.toISOString() };
}

/** The page as a file of the mail. */
export function attachFullReport({ job, date }: ArchivePlace, page: string): MailAttachment {
  const filename = `${job}-${date}-full-report.html`.replace(/[^\w.-]/g, '_');
  return { filename, contentType: 'text/html; charset=utf-8', bytes: Buffer.from(page) };
}
