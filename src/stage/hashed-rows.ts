/**
 * Compares the source's hashes of rows with the hashes of the same rows computed here. This separates a difference in
 * form (such as a decimal that a source writes as text) from a difference in rows. Nothing is staged.
 */
import type { JsonRows } from '../core/json-bytes.ts';
import { localFile, quoteIdentifier } from '../engine/literal.ts';
import { type HashedColumn, idHashSql, ROW_ID_HASH, ROW_VALUE_HASH, valueHashSql } from '../engine/row-hash.ts';
import { READ_SETTINGS, withSpooled } from './intake.ts';
import { readType, type StagedTable } from './stage-table.ts';

/** Sums of hashes over the rows of one answer. */
interface HashedRows {
  readonly rows: number;
  /** As the source computed them. */
  readonly source: { readonly idHash: string; readonly valueHash: string };
  /** As computed here from the received values. */
  readonly own: { readonly idHash: string; readonly valueHash: string };
}

/** Reads an answer to `buildHashedRows`. @throws EngineFault if the rows do not fit the columns */
export async function readHashedRows(
  { engine, job, spool }: StagedTable,
  page: JsonRows,
  hashed: readonly HashedColumn[],
): Promise<HashedRows> {
  const names = ['id', ...hashed.map(({ name }) => name)];
  const columns = job.source.columns.filter(({ name }) => names.includes(name));
  const structure = [
    ...columns.map((column) => `${quoteIdentifier(column.name)} Nullable(${readType(column)})`),
    ...[ROW_ID_HASH, ROW_VALUE_HASH].map((name) => `${name} String`),
  ];
  const sums = [ROW_ID_HASH, ROW_VALUE_HASH].map((name) => `toString(sum(toUInt64OrZero(${name})))`);
  return await withSpooled(spool, page.data, async (path) => {
    const [found] = await engine.rows<
      Readonly<Record<'q_rows' | 'q_source_ids' | 'q_source_values' | 'q_ids' | 'q_values', string>>
    >(
      `SELECT count() AS q_rows, ${sums[0]} AS q_source_ids, ${sums[1]} AS q_source_values, ${idHashSql()} AS q_ids, ${valueHashSql(hashed)} AS q_values FROM ${localFile(path, 'JSONEachRow', structure.join(', '))} SETTINGS ${READ_SETTINGS}`,
    );
    return {
      rows: Number(found?.q_rows ?? 0),
      source: { idHash: found?.q_source_ids ?? '', valueHash: found?.q_source_values ?? '' },
      own: { idHash: found?.q_ids ?? '', valueHash: found?.q_values ?? '' },
    };
  });
}
