/**
 * One date of a ClickHouse server's table: counted, streamed as a Parquet file from the server to this disk, and sealed.
 * Invariant: what is published is what the server's own count and checksum say, told by another reader than the one that
 * wrote it. Nothing is staged: a date that is interrupted is streamed again.
 */
import { Fault } from '../../core/errors.ts';
import { PARQUET_SETTINGS, readChecksum, writeSettings } from '../../seal/parquet.ts';
import { readIndependently } from '../../seal/verify.ts';
import type { RunContext } from '../context.ts';
import type { ExportedDate } from '../exported.ts';
import type { OpenedSource } from '../opened.ts';
import type { PlannedDate } from '../plan.ts';
import { type SealedRows, sealDate, type WriteRows } from '../seal.ts';
import { STATEMENTS_A_DATE } from './plan.ts';
import { buildTableCounts, buildTableQuery, buildTableRepeats } from './statement.ts';

type Opened = Extract<OpenedSource, { kind: 'table' }>;

/** Servers have no row limit for their own tables. */
const NO_ROW_LIMIT = 0;
/** Older servers would declare their texts as bytes; and a day that is sorted may be longer than their memory. */
const SERVER_SETTINGS = { output_format_parquet_string_as_string: 1, max_bytes_before_external_sort: 2_000_000_000 };

/** @throws Fault */
export async function exportTable(
  context: RunContext,
  { source, job }: Opened,
  { date, rows: planned }: PlannedDate,
  restate: boolean,
): Promise<ExportedDate> {
  const { clock, onEvent, state, signal } = context;
  const requestsBefore = source.stats.requests;
  const startedAtMs = clock.now();
  const shape = await source.describe(signal);
  onEvent({ kind: 'date', date, rows: planned, staged: 0, pages: STATEMENTS_A_DATE });
  const ask = signal ? { signal } : {};
  const counting = buildTableCounts(job.source, shape.types, date, date);
  const [counted] = await source.rows<{ n: number; u: number }>(counting, ask);
  const counts = { rows: Number(counted?.n ?? 0), ids: Number(counted?.u ?? 0) };
  if (counts.rows === 0) return { published: undefined, missing: [] };
  const query = buildTableQuery(job.source, shape.types, job.drop.sort, date, counts.ids < counts.rows);
  const settings = writeSettings(shape.keepKnown({ ...PARQUET_SETTINGS, ...SERVER_SETTINGS }));
  const write: WriteRows = async (columns, path) => {
    await source.download(`${query.sorted} ${settings}`, 'Parquet', path, signal);
    // A file that was cut short has no footer, and must be told from a fault of ours.
    await readIndependently(path);
    const expected = await readChecksum({ rows: (sql) => source.rows(sql, ask) }, query.select, columns);
    onEvent({ kind: 'page', date, window: job.source.table, rows: expected.rows });
    onEvent({ kind: 'phase', date, phase: 'sealing' });
    assertUnchanged(date, counts.ids, expected.rows);
    return expected;
  };
  const countRepeats = async () => {
    const [found] = await source.rows<{ n: number }>(buildTableRepeats(job.source, shape.types, date), ask);
    return Number(found?.n ?? 0);
  };
  const rows = { ...rowsOf(date, job.source.table, counts), countRepeats };
  const published = await sealDate(context, job, rows, {
    path: state.drop(date),
    write,
    query: query.sorted,
    lookbackEdge: '',
    counted: counts,
    requests: source.stats.requests - requestsBefore + STATEMENTS_A_DATE - 1,
    startedAtMs,
    sealedAtMs: clock.now(),
    restate,
    rowLimit: NO_ROW_LIMIT,
  });
  return { published, missing: [] };
}

/** The server's rows stand where other jobs have a stage. */
function rowsOf(
  date: string,
  table: string,
  counts: { readonly rows: number; readonly ids: number },
): Omit<SealedRows, 'countRepeats'> {
  return {
    date,
    extraFields: async () => [],
    totals: async () => counts,
    pages: async () => [{ window: table, rows: counts.rows }],
    discard: async () => undefined,
  };
}

function assertUnchanged(date: string, counted: number, streamed: number): void {
  if (counted === streamed) return;
  throw new Fault('DATE_UNSETTLED', `the server had ${counted} rows of ${date}, and ${streamed} a moment later`, {
    hint: 'Rows are still being loaded. Run again later; nothing was published.',
  });
}
