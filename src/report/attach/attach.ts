/**
 * The mail's attachments: the report's tables as CSV or Parquet, one file per table, and the report as PDF. Invariant:
 * the files together never exceed the limit, and those left out are named, so that a reader knows that a missing file
 * was not forgotten.
 */
import type { FlowReport } from '../model.ts';
import { listTables } from '../report-tables.ts';
import { formatCsv } from './csv.ts';
import { formatParquet } from './parquet-file.ts';
import { formatPdf, type PdfLook } from './pdf.ts';

export type AttachmentKind = 'csv' | 'parquet' | 'pdf';

interface ReportAttachment {
  readonly filename: string;
  readonly contentType: string;
  readonly bytes: Uint8Array;
}

interface AttachOptions {
  /** Files that were made elsewhere and come first. */
  readonly own?: readonly ReportAttachment[];
  /** Limit for all files together, before the mail's encoding, which adds 37%. */
  readonly limitBytes: number;
  /** IANA zone of the reader, for the instants of the PDF. */
  readonly timezone: string;
  /** What the job file says about the look of the PDF; absent: the usual one. */
  readonly look?: PdfLook | undefined;
}

interface Attachments {
  readonly attachments: readonly ReportAttachment[];
  /** Names of files that did not fit. */
  readonly leftOut: readonly string[];
}

/** Builds the files in the requested order; after a file that does not fit, smaller ones may still be added. */
export async function buildAttachments(
  report: FlowReport,
  kinds: readonly AttachmentKind[],
  options: AttachOptions,
): Promise<Attachments> {
  const attachments: ReportAttachment[] = [];
  const leftOut: string[] = [];
  let roomBytes = options.limitBytes;
  const add = (file: ReportAttachment) => {
    if (file.bytes.byteLength > roomBytes) leftOut.push(file.filename);
    else {
      roomBytes -= file.bytes.byteLength;
      attachments.push(file);
    }
  };
  for (const file of options.own ?? []) add(file);
  for (const kind of new Set(kinds)) {
    for (const file of await buildFiles(report, kind, options)) add(file);
  }
  return { attachments, leftOut };
}

async function buildFiles(
  report: FlowReport,
  kind: AttachmentKind,
  { timezone, look }: AttachOptions,
): Promise<readonly ReportAttachment[]> {
  switch (kind) {
    case 'csv':
      return listTables(report).map((table) => ({
        filename: nameFile(report, table.name, 'csv'),
        contentType: 'text/csv; charset=utf-8; header=present',
        bytes: formatCsv(table),
      }));
    case 'parquet':
      return await Promise.all(
        listTables(report).map(async (table) => ({
          filename: nameFile(report, table.name, 'parquet'),
          contentType: 'application/vnd.apache.parquet',
          bytes: await formatParquet(table, report.drop),
        })),
      );
    case 'pdf':
      return [
        {
          filename: nameFile(report, 'report', 'pdf'),
          contentType: 'application/pdf',
          bytes: await formatPdf(report, timezone, look),
        },
      ];
    default:
      return kind satisfies never;
  }
}

/** `trades-2026-11-19-symbols.csv`: unique across dates and datasets, so one folder can hold many. */
function nameFile({ drop }: FlowReport, name: string, extension: string): string {
  return `${drop.dataset}-${drop.date}-${name}.${extension}`.replace(/[^\w.-]/g, '_');
}
