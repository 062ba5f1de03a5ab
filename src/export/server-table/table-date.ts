/**
 * One date of a ClickHouse server's table: counted, streamed as a Parquet file from the server to this disk, and sealed.
 * Invariant: the published file has the server's own count and checksum, and another reader than its writer confirms it.
 * Nothing is staged: an interrupted date is streamed again.
 */
import { Fault } from '../../core/errors.ts';
import { formatSettings } from '../../engine/literal.ts';
import type { OpenedTable } from '../../run/open-source.ts';
import type { ExportRun } from '../../run/run.ts';
import { readIndependently } from '../../seal/verify-file.ts';
import { encodingOf, readChecksum } from '../../seal/write-parquet.ts';
import { NO_QUARANTINE } from '../../stage/quarantine.ts';
import type { ExampleId } from '../../stage/window-conflicts.ts';
import { mostRepeated, repeatedFault } from '../bad-rows.ts';
import type { DropFile } from '../drop-file.ts';
import { type PlannedDate, STATEMENTS_A_DATE } from '../plan-dates.ts';
import { beginDate, type ExportOutcome, sealDate } from '../seal-date.ts';
import { countRepeats, countTable, type TableCounts, TableSql } from './table-sql.ts';

/** Older servers declare texts as bytes, and may lack the memory to sort a day. */
const SERVER_SETTINGS = { output_format_parquet_string_as_string: 1, max_bytes_before_external_sort: 2_000_000_000 };

/** @throws Fault */
export async function exportTable(
  run: ExportRun,
  opened: OpenedTable,
  { date, rows: planned }: PlannedDate,
  restate: boolean,
): Promise<ExportOutcome> {
  const { source, job, clocks, signal } = opened;
  const { onEvent, state } = run;
  const begun = beginDate(opened);
  const shape = await source.describe(signal);
  onEvent({ kind: 'date', date, rows: planned, staged: 0, pages: STATEMENTS_A_DATE });
  const ask = { signal };
  const sql = new TableSql(job.source, shape.types);
  const countBeyond = async (one: 'version' | 'key') => await countRepeats(opened, sql, date, one);
  const counts = await countTable(opened, sql, date);
  const { rows: rowCount, ids } = counts;
  if (counts.rows === 0) return { published: undefined, missing: [] };
  const held = clocks.explainHold(date, false);
  if (held !== undefined) return { held };
  const shared = ids < rowCount ? rowCount - ids - (await countBeyond('key')) : 0;
  if (shared > mostRepeated(rowCount)) {
    const examples = await source.rows<ExampleId>(sql.examples(date), ask);
    const hint =
      'Nothing was published. Give each trade of the table a unique id, or set `source.table` to a view that does.';
    const what = `${shared} of ${counts.rows} rows have the id of another trade, or none`;
    throw repeatedFault(date, what, examples, hint);
  }
  const query = sql.rows(job.drop.sort, date, counts.trades < counts.rows);
  const settings = formatSettings(shape.keepKnown({ ...encodingOf(job.drop.compression), ...SERVER_SETTINGS }));
  const path = state.drop(date);
  const write: DropFile['write'] = async (columns) => {
    await source.download(`${query.sorted} ${settings}`, 'Parquet', path, signal);
    // A truncated file has no footer: an interrupted stream, not a bug.
    await readIndependently(path);
    const expected = await readChecksum(source, query.select, columns, ask);
    onEvent({ kind: 'page', date, window: job.source.table, rows: expected.rows });
    onEvent({ kind: 'phase', date, phase: 'sealing' });
    assertUnchanged(date, counts.trades, expected.rows);
    return expected;
  };
  const rows = { ...rowsOf(date, job.source.table, counts), countRepeats: countBeyond };
  const file = { path, write };
  const published = await sealDate(run, rows, { begun, file, query: query.sorted, counted: counts, restate });
  return { published, missing: [] };
}

/** The server's rows take the place of a stage. */
function rowsOf(
  date: string,
  table: string,
  counts: TableCounts,
): Omit<Parameters<typeof sealDate>[1], 'countRepeats'> {
  return {
    date,
    extraFields: async () => [],
    totals: async () => counts,
    countReplaced: async () => counts.rows - counts.trades,
    pages: async () => [{ window: table, rows: counts.rows }],
    quarantine: async () => NO_QUARANTINE,
    writeQuarantine: async () => undefined,
    forgetBad: async () => undefined,
    discard: async () => undefined,
  };
}

function assertUnchanged(date: string, counted: number, streamed: number): void {
  if (counted === streamed) return;
  throw new Fault('DATE_UNSETTLED', `the server had ${counted} rows of ${date}, and ${streamed} a moment later`, {
    hint: 'Rows are still being loaded. Run again later; nothing was published.',
  });
}
