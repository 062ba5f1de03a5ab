/**
 * The columns of a dataset as an Iceberg schema, and bounds of a column as bytes. Invariant: a field keeps its id for ever, and a column that one day
 * lacks is optional, so every field is. Source: the Iceberg table spec, "Schemas and Data Types", "Schema Evolution"
 * "Column Projection", "Appendix D: Single-value serialization", and "Manifests" (`-0.0` and `+0.0`). Pure.
 */
import { z } from 'zod';
import { Fault } from '../../core/errors.ts';
import type { Manifest } from '../manifest.ts';

export const fieldSchema = z.object({
  id: z.int().positive(),
  name: z.string(),
  required: z.literal(false),
  type: z.enum(['string', 'int', 'long', 'double', 'date', 'timestamp', 'timestamptz']),
});

export type TableField = Readonly<z.infer<typeof fieldSchema>>;
type TableType = TableField['type'];

/** By the manifest's name of a Parquet type. Iceberg has no times in milliseconds. */
const TABLE_TYPES: Readonly<Record<string, TableType>> = {
  'BYTE_ARRAY/STRING': 'string',
  INT32: 'int',
  INT64: 'long',
  DOUBLE: 'double',
  'INT32/DATE': 'date',
  'INT64/TIMESTAMP(MICROS,utc=false)': 'timestamp',
  'INT64/TIMESTAMP(MICROS,utc=true)': 'timestamptz',
};

/** The columns of one sealed date. @throws Fault `TABLE_UNFIT` if a table cannot take the file */
export function listTableFields(manifest: Pick<Manifest, 'date' | 'schema'>): readonly TableField[] {
  return manifest.schema.map(({ name, type, field_id: id }) => {
    const tableType = TABLE_TYPES[type];
    if (tableType !== undefined) return { id, name, required: false, type: tableType };
    throw unfit(manifest, `its column "${name}" has the type ${type}`);
  });
}

/**
 * The fields of a table with those of one more date.
 * @throws Fault `TABLE_UNFIT` if a column has changed its type: only `int` to `long` is allowed in a table
 */
export function mergeTableFields(
  known: readonly TableField[],
  manifest: Pick<Manifest, 'date' | 'schema'>,
): readonly TableField[] {
  const merged = new Map(known.map((field) => [field.id, field]));
  for (const field of listTableFields(manifest)) {
    const before = merged.get(field.id);
    const isNarrower = before?.type === 'long' && field.type === 'int';
    if (before && before.type !== field.type && !isNarrower && !(before.type === 'int' && field.type === 'long'))
      throw unfit(manifest, `its column "${field.name}" is ${field.type}, in the table ${before.type}`);
    merged.set(field.id, isNarrower ? before : field);
  }
  return [...merged.values()];
}

/** Names of columns for files whose columns have no ids; a table property of that form. */
export function describeNameMapping(fields: readonly TableField[]): string {
  return JSON.stringify(fields.map(({ id, name }) => ({ 'field-id': id, names: [name] })));
}

export function unfit({ date }: Pick<Manifest, 'date'>, reason: string): Fault {
  return new Fault('TABLE_UNFIT', `${date} cannot be in the Iceberg table: ${reason}`, {
    hint: 'The drop is sealed. If the date is still in the lookback, `flowdrop backfill JOB --all --from DATE --to DATE` seals it again; else give the job a new dataset.',
  });
}

const DAY_MS = 86_400_000;

/**
 * @param value as in a manifest's `statistics`: of times it has milliseconds, so an upper bound is the end of that
 *   millisecond
 */
export function encodeBound(type: TableType, value: string | number, end: 'lower' | 'upper'): Buffer {
  const bytes = Buffer.alloc(8);
  switch (type) {
    case 'string':
      return Buffer.from(String(value), 'utf8');
    case 'int':
      bytes.writeInt32LE(Number(value));
      return bytes.subarray(0, 4);
    case 'date':
      bytes.writeInt32LE(countDays(String(value)));
      return bytes.subarray(0, 4);
    case 'long':
      bytes.writeBigInt64LE(BigInt(value));
      return bytes;
    case 'double':
      bytes.writeDoubleLE(Number(value) === 0 ? (end === 'lower' ? -0 : 0) : Number(value));
      return bytes;
    case 'timestamp':
    case 'timestamptz': {
      const text = String(value);
      const millis = BigInt(Date.parse(text.endsWith('Z') ? text : `${text}Z`));
      bytes.writeBigInt64LE(millis * 1000n + (end === 'upper' ? 999n : 0n));
      return bytes;
    }
    default:
      return type satisfies never;
  }
}

/** Days since 1970-01-01. */
export function countDays(date: string): number {
  return Date.parse(`${date}T00:00:00Z`) / DAY_MS;
}
