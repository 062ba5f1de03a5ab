/**
 * Where delivery calls the report stage: from a sealed drop to the model, from models to a mail's parts and its
 * attachments. Otherwise delivery uses only the types, constants and number helpers of `report/`.
 */
import { Fault } from '../core/errors.ts';
import type { JobReport } from '../job/job.ts';
import type { MailAttachment } from '../mail/mailer.ts';
import { buildAttachments } from '../report/attach/attach.ts';
import type { DigestPart } from '../report/digest.ts';
import { buildFlowReport, type FlowOptions } from '../report/flow-report.ts';
import type { FlowReport, SealedDrop } from '../report/model.ts';
import { type RenderedReport, type RenderOptions, renderDigest, renderFlowReport } from '../report/render.ts';
import { fillWords } from '../report/text/own-words.ts';
import type { DeliverContext } from './delivery.ts';

/** @throws Fault `REPORT_COLUMNS_MISSING`, `REPORT_DROP_DIFFERS`; EngineFault */
export async function buildReport(
  context: DeliverContext,
  drop: SealedDrop,
  options: FlowOptions,
): Promise<FlowReport> {
  const { engine, server } = context;
  return await buildFlowReport(server?.engine ?? engine, drop, { ...options, files: server?.files });
}

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
