/** From the models of a report to the parts and attachments of its mail. */
import { Fault } from '../core/errors.ts';
import type { JobReport } from '../job/job.ts';
import type { MailAttachment } from '../mail/mailer.ts';
import { buildAttachments } from '../report/attach/attach.ts';
import type { FlowReport } from '../report/model.ts';
import { type RenderedReport, type RenderOptions, renderDigest, renderFlowReport } from '../report/render.ts';
import type { DigestPart } from '../report/text/mail-view.ts';
import { fillWords } from '../report/text/subject.ts';

/** @param parts a flow report is one part @throws Fault `TEMPLATE_INVALID` (usage), `REPORT_PENDING` */
export async function renderReport(
  template: JobReport['template'],
  parts: readonly DigestPart[],
  options: RenderOptions,
): Promise<RenderedReport> {
  if (template === 'digest') return await renderDigest(parts, options);
  const [part] = parts;
  if (part !== undefined && 'report' in part) return await renderFlowReport(part.report, options);
  throw new Fault('REPORT_PENDING', 'the date is not sealed, so it has no report');
}

/** @param own files that come first */
export async function attachReport(
  reports: readonly FlowReport[],
  { attach, attachLimitBytes, look }: JobReport,
  timezone: string,
  own: readonly MailAttachment[],
): Promise<{ readonly attachments: readonly MailAttachment[]; readonly leftOut: readonly string[] }> {
  const [report] = reports;
  if (report === undefined) return { attachments: own, leftOut: [] };
  const title = look.title === null ? '' : fillWords(look.title, [report], report.drop.date);
  return await buildAttachments(report, attach, {
    own,
    limitBytes: attachLimitBytes,
    timezone,
    look: { ...look, title },
  });
}
