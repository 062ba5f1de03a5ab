/**
 * A table as Parquet, for programs: its types do not depend on the rows, and its footer names the drop that the numbers
 * were computed from. Texts are unchanged, because a Parquet reader does not read text as a formula.
 */
import type { SchemaElement } from 'hyparquet';
import type { ShownDrop } from '../model.ts';
import type { AttachedTable, Cell, Column, ColumnKind } from '../report-table.ts';

type ColumnType = Pick<SchemaElement, 'type' | 'converted_type'>;

const TYPES: Readonly<Record<ColumnKind, ColumnType>> = {
  text: { type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  code: { type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  bucket: { type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  contract: { type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  date: { type: 'INT32', converted_type: 'DATE' },
  count: { type: 'INT64' },
  flag: { type: 'BOOLEAN' },
  dollars: { type: 'DOUBLE' },
  price: { type: 'DOUBLE' },
  fraction: { type: 'DOUBLE' },
  points: { type: 'DOUBLE' },
  ratio: { type: 'DOUBLE' },
  measure: { type: 'DOUBLE' },
};

export async function formatParquet(table: AttachedTable, drop: ShownDrop): Promise<Uint8Array> {
  const { parquetWriteBuffer } = await import('hyparquet-writer');
  const { columns, rows } = table;
  const schema: SchemaElement[] = [
    { name: 'root', num_children: columns.length },
    ...columns.map(({ name, kind }): SchemaElement => ({ name, repetition_type: 'OPTIONAL', ...TYPES[kind] })),
  ];
  const bytes = parquetWriteBuffer({
    schema,
    columnData: columns.map((column, index) => ({
      name: column.name,
      data: rows.map((row) => encode(row[index] ?? null, column)),
    })),
    createdBy: 'flowdrop',
    kvMetadata: [
      { key: 'flowdrop:table', value: table.name },
      { key: 'flowdrop:dataset', value: drop.dataset },
      { key: 'flowdrop:date', value: drop.date },
      { key: 'flowdrop:revision', value: String(drop.revision) },
      { key: 'flowdrop:drop_sha256', value: drop.sha256 },
    ],
  });
  return new Uint8Array(bytes);
}

/** An invalid date or a number that is not finite becomes null; a count is rounded. */
function encode(cell: Cell, { kind }: Column): Cell | bigint | Date {
  if (kind === 'date') return typeof cell === 'string' && isDate(cell) ? new Date(`${cell}T00:00:00Z`) : null;
  if (typeof cell !== 'number') return cell;
  if (!Number.isFinite(cell)) return null;
  return kind === 'count' ? BigInt(Math.round(cell)) : cell;
}

function isDate(text: string): boolean {
  return !Number.isNaN(Date.parse(`${text}T00:00:00Z`));
}
