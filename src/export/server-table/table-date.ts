/**
 * One date of a ClickHouse server's table: counted, streamed as a Parquet file from the server to this disk, and sealed.
 * Invariant: the published file has the server's own count and checksum, and another reader than its writer confirms it.
 * Nothing is staged: an interrupted date is streamed again.
 */
import { Fault } from '../../core/errors.ts';
import { formatSettings } from '../../engine/literal.ts';
import type { OpenedSource } from '../../run/open-source.ts';
import type { ExportRun } from '../../run/run.ts';
import { readIndependently } from '../../seal/verify-file.ts';
import { encodingOf, readChecksum } from '../../seal/write-parquet.ts';
import { NO_QUARANTINE } from '../../stage/quarantine.ts';
import type { ExampleId } from '../../stage/window-conflicts.ts';
import { mostRepeated, repeatedFault } from '../bound-repeats.ts';
import { believedNow, explainHold } from '../clocks.ts';
import type { WriteRows } from '../draft-file.ts';
import type { PlannedDate } from '../export-plan.ts';
import type { ExportedDate, HeldBack } from '../exported.ts';
import { type SealedRows, sealDate } from '../seal-date.ts';
import { STATEMENTS_A_DATE } from './table-plan.ts';
import { buildTableCounts, buildTableExamples, buildTableQuery, buildTableRepeats } from './table-statement.ts';

type Opened = Extract<OpenedSource, { kind: 'table' }>;

/** Servers have no row limit for their own tables. */
const NO_ROW_LIMIT = 0;
/** Older servers declare texts as bytes, and may lack the memory to sort a day. */
const SERVER_SETTINGS = { output_format_parquet_string_as_string: 1, max_bytes_before_external_sort: 2_000_000_000 };

/** @throws Fault */
export async function exportTable(
  run: ExportRun,
  { source, job }: Opened,
  { date, rows: planned }: PlannedDate,
  restate: boolean,
): Promise<ExportedDate | HeldBack> {
  const { onEvent, state, signal } = run;
  const requestsBefore = source.stats.requests;
  const startedAtMs = believedNow(run);
  const shape = await source.describe(signal);
  onEvent({ kind: 'date', date, rows: planned, staged: 0, pages: STATEMENTS_A_DATE });
  const ask = { signal };
  const counting = buildTableCounts(job.source, shape.types, date);
  const [counted] = await source.rows<{ n: number; u: number }>(counting, ask);
  const countBeyond = async (one: 'version' | 'trade' | 'key') => {
    const sql = buildTableRepeats(job.source, shape.types, date, one);
    return Number((await source.rows<{ n: number }>(sql, ask))[0]?.n ?? 0);
  };
  const [rowCount, ids] = [Number(counted?.n ?? 0), Number(counted?.u ?? 0)];
  const counts = { rows: rowCount, ids, trades: ids < rowCount ? rowCount - (await countBeyond('trade')) : rowCount };
  if (counts.rows === 0) return { published: undefined, missing: [] };
  const held = explainHold(run, job, date, { isForgetting: false });
  if (held !== undefined) return { held };
  const shared = ids < rowCount ? rowCount - ids - (await countBeyond('key')) : 0;
  if (shared > mostRepeated(rowCount)) {
    throw repeatedFault(date, {
      what: `${shared} of ${counts.rows} rows have the id of another trade, or none`,
      examples: await source.rows<ExampleId>(buildTableExamples(job.source, shape.types, date), ask),
      hint: 'Nothing was published. Give each trade of the table a unique id, or set `source.table` to a view that does.',
    });
  }
  const query = buildTableQuery(job.source, shape.types, job.drop.sort, date, counts.trades < counts.rows);
  const settings = formatSettings(shape.keepKnown({ ...encodingOf(job.drop.compression), ...SERVER_SETTINGS }));
  const path = state.drop(date);
  const write: WriteRows = async (columns) => {
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
  const published = await sealDate(run, job, rows, {
    file: { path, write },
    query: query.sorted,
    lookbackEdge: '',
    counted: counts,
    requests: source.stats.requests - requestsBefore + STATEMENTS_A_DATE - 1,
    startedAtMs,
    sealedAtMs: believedNow(run),
    restate,
    rowLimit: NO_ROW_LIMIT,
  });
  return { published, missing: [] };
}

/** The server's rows take the place of a stage. */
function rowsOf(
  date: string,
  table: string,
  counts: { readonly rows: number; readonly trades: number; readonly ids: number },
): Omit<SealedRows, 'countRepeats'> {
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
