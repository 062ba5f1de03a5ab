/**
 * The columns of a dataset as an Iceberg schema. Invariant: a field keeps its id for ever, and a column that one day
 * lacks is optional, so every field is. Source: the Iceberg table spec, "Schemas and Data Types", "Schema Evolution"
 * and "Column Projection". Pure.
 */
import { Fault } from '../../core/errors.ts';
import type { Manifest } from '../manifest.ts';

export type TableType = 'string' | 'int' | 'long' | 'double' | 'date' | 'timestamp' | 'timestamptz';

export interface TableField {
  readonly id: number;
  readonly name: string;
  readonly required: false;
  readonly type: TableType;
}

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
