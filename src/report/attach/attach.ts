/**
 * The mail's attachments: the report's tables as CSV or Parquet, one file per table, and the report as PDF. Invariant:
 * the files together never exceed the limit, and those left out are named, so that a reader knows that a missing file
 * was not forgotten.
 */

import type { SchemaElement } from 'hyparquet';
import type { MailAttachment } from '../../mail/message.ts';
import type { FlowReport, ShownDrop } from '../model.ts';
import { type AttachedTable, type Cell, type Column, type ColumnKind, isText } from '../report-table.ts';
import { listTables } from '../report-tables.ts';
import { formatPdf, type PdfLook } from './pdf.ts';

const CONTENT_TYPES = {
  csv: 'text/csv; charset=utf-8; header=present',
  parquet: 'application/vnd.apache.parquet',
  pdf: 'application/pdf',
} as const;

export type AttachmentKind = keyof typeof CONTENT_TYPES;

interface AttachOptions {
  /** Files that were made elsewhere and come first. */
  readonly own?: readonly MailAttachment[];
  /** Limit for all files together, before the mail's encoding, which adds 37%. */
  readonly limitBytes: number;
  /** IANA zone of the reader, for the instants of the PDF. */
  readonly timezone: string;
  /** What the job file says about the look of the PDF; absent: the usual one. */
  readonly look?: PdfLook | undefined;
}

/**
 * Builds the files in the requested order; after a file that does not fit, smaller ones may still be added.
 * @returns `leftOut`: names of files that did not fit
 */
export async function buildAttachments(
  report: FlowReport,
  kinds: readonly AttachmentKind[],
  options: AttachOptions,
): Promise<{ readonly attachments: readonly MailAttachment[]; readonly leftOut: readonly string[] }> {
  const attachments: MailAttachment[] = [];
  const leftOut: string[] = [];
  let roomBytes = options.limitBytes;
  const add = (file: MailAttachment) => {
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
): Promise<readonly MailAttachment[]> {
  const { drop } = report;
  // `trades-2026-11-19-symbols.csv`: unique across dates and datasets, so one folder can hold many.
  const asFile = (name: string, bytes: Uint8Array): MailAttachment => ({
    filename: `${drop.dataset}-${drop.date}-${name}.${kind}`.replace(/[^\w.-]/g, '_'),
    contentType: CONTENT_TYPES[kind],
    bytes,
  });
  if (kind === 'pdf') return [asFile('report', await formatPdf(report, timezone, look))];
  const write = kind === 'csv' ? formatCsv : (table: AttachedTable) => formatParquet(table, drop);
  return await Promise.all(listTables(report).map(async (table) => asFile(table.name, await write(table))));
}

/**
 * Where a spreadsheet would see the start of a formula: a formula character, plain or full width, at the start of a
 * field (OWASP, "CSV Injection"). Also after a separator, because Excel splits at its own locale's separator, even
 * inside quotes.
 */
const FORMULA = /(?<=^|[;,\t\r\n"'|]) *(?=[=+\-@\t\r＝＋－＠])/gu;

/** Quotes are needed where RFC 4180 says so, and for other locales' separators. */
const NEEDS_QUOTES = /[",;\t\r\n|]|^\s|\s$/;

/** Invisible in a spreadsheet; some readers end the text there. */
const NUL = /\0/g;

/** Excel reads UTF-8 only after this mark; other readers skip it, or show it in the first column's name. */
const BYTE_ORDER_MARK = '\ufeff';

/** Writes the mark only if a character is not ASCII, so that plain tables have nothing before their header. */
export function formatCsv({ columns, rows }: Pick<AttachedTable, 'columns' | 'rows'>): Uint8Array {
  const lines = [columns.map(({ name }) => name), ...rows.map((row) => row.map(formatField))];
  const text = lines.map((fields) => `${fields.join(',')}\r\n`).join('');
  return Buffer.from(/^[\0-\x7f]*$/.test(text) ? text : BYTE_ORDER_MARK + text, 'utf8');
}

function formatField(cell: Cell): string {
  if (cell === null) return '';
  if (typeof cell === 'number') return Number.isFinite(cell) ? String(cell) : '';
  if (typeof cell === 'boolean') return String(cell);
  // After an apostrophe, a spreadsheet reads the rest as text; programs see it too, which is the lesser harm.
  const text = cell.replace(NUL, ' ').replace(FORMULA, (blanks) => `'${blanks}`);
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

type ColumnType = Pick<SchemaElement, 'type' | 'converted_type'>;

const TYPES: Readonly<Partial<Record<ColumnKind, ColumnType>>> = {
  date: { type: 'INT32', converted_type: 'DATE' },
  count: { type: 'INT64' },
  flag: { type: 'BOOLEAN' },
};

function typeOf(column: Column): ColumnType {
  return TYPES[column.kind] ?? (isText(column) ? { type: 'BYTE_ARRAY', converted_type: 'UTF8' } : { type: 'DOUBLE' });
}

export async function formatParquet(table: AttachedTable, drop: ShownDrop): Promise<Uint8Array> {
  const { parquetWriteBuffer } = await import('hyparquet-writer');
  const { columns, rows } = table;
  const schema: SchemaElement[] = [
    { name: 'root', num_children: columns.length },
    ...columns.map((column): SchemaElement => ({ name: column.name, repetition_type: 'OPTIONAL', ...typeOf(column) })),
  ];
  const bytes = parquetWriteBuffer({
    schema,
    columnData: columns.map((column, index) => ({
      name: column.name,
      data: rows.map((row) => encode(row[index] ?? null, column)),
    })),
    createdBy: 'flowdrop',
    kvMetadata: Object.entries({
      ...{ table: table.name, dataset: drop.dataset, date: drop.date, revision: String(drop.revision) },
      drop_sha256: drop.sha256,
    }).map(([key, value]) => ({ key: `flowdrop:${key}`, value })),
  });
  return new Uint8Array(bytes);
}

/** An invalid date or a number that is not finite becomes null; a count is rounded. */
function encode(cell: Cell, { kind }: Column): Cell | bigint | Date {
  if (kind === 'date') {
    const date = new Date(`${cell}T00:00:00Z`);
    return Number.isNaN(date.getTime()) ? null : date;
  }
  if (typeof cell !== 'number') return cell;
  if (!Number.isFinite(cell)) return null;
  return kind === 'count' ? BigInt(Math.round(cell)) : cell;
}
