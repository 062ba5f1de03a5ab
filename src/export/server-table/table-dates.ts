/**
 * The dates of a ClickHouse server's table. It has no lookback, so any date can be named; a run without dates exports only
 * the last sessions, so that a new job does not copy years. A date is counted, streamed as a Parquet file from the server to
 * this disk, and sealed. Invariant: the published file has the server's own count and checksum, and another reader than its
 * writer confirms it. Nothing is staged: an interrupted date is streamed again.
 */
import { previousSessions } from '../../calendar/session.ts';
import { addDays, formatSecond, formatWallDate, parseSecond } from '../../calendar/wall-clock.ts';
import { Fault } from '../../core/errors.ts';
import { formatSettings } from '../../engine/literal.ts';
import type { Manifest } from '../../ledger/manifest.ts';
import { assertNotFuture, lookbackOf } from '../../plan/dates.ts';
import { showsEnd } from '../../plan/session-end.ts';
import type { OpenedTable } from '../../run/open-source.ts';
import type { ExportRun } from '../../run/run.ts';
import {
  type DropChecksum,
  encodingOf,
  listDropColumns,
  readChecksum,
  readIndependently,
} from '../../seal/write-parquet.ts';
import { NO_QUARANTINE } from '../../stage/quarantine.ts';
import { type ExampleId, mostRepeated, repeatedFault } from '../../stage/window-conflicts.ts';
import type { DateExport, DateSource, ExportPlan, NoRows, PlannedDate, Waiting } from '../date-source.ts';
import type { DateSelection } from '../select-dates.ts';
import { countRepeats, countTable, type TableCounts, TableSql } from './table-sql.ts';

/** Older servers declare texts as bytes, and may lack the memory to sort a day. */
const SERVER_SETTINGS = { output_format_parquet_string_as_string: 1, max_bytes_before_external_sort: 2_000_000_000 };

/** Sessions of a server's table that a run without dates exports. */
const RUN_SESSIONS = 15;

/** Count before, file, checksum. */
const STATEMENTS_A_DATE = 3;

/** After so many days a session counts as fully loaded, even if no later row exists. */
const LOADED_DAYS = 7;

export class TableDates implements DateSource {
  readonly #opened: OpenedTable;

  constructor(opened: OpenedTable) {
    this.#opened = opened;
  }

  /** @throws Fault `SERVER_TOO_OLD`, `TABLE_UNFIT` */
  async plan({ range, isWanted }: DateSelection): Promise<ExportPlan> {
    const { source, clocks, calendar, job, signal } = this.#opened;
    const sql = await this.#readSql();
    const nowMs = clocks.earliest();
    const lookback = lookbackOf(job, nowMs, calendar);
    const { contested } = clocks.agreeOnDates(false);
    assertNotFuture(range, lookback, clocks.latest());
    const sessions = previousSessions(lookback.lastSettled ?? formatWallDate(nowMs), RUN_SESSIONS, calendar);
    const { from, to } = range ?? { from: sessions[0] ?? '', to: lookback.lastSettled ?? '' };
    const counted = await source.rows<{ d: string; n: number }>(sql.dates(from, to), { signal });
    const settled = counted.filter(({ d }) => isWanted(d) && nowMs >= clocks.settledAt(d));
    const last = settled.at(-1)?.d ?? '';
    const isRecent = last !== '' && last >= addDays(lookback.lastSettled ?? last, -LOADED_DAYS);
    const unseen = isRecent && clocks.isChecked ? await this.#explainEnd(sql, last) : undefined;
    const found = settled.filter(({ d }) => unseen === undefined || d !== last);
    const isEmpty = (date: string) => !counted.some(({ d }) => d === date) && isWanted(date);
    return {
      lookback,
      dates: found.map(({ d, n }) => ({
        ...{ date: d, counts: [], rows: Number(n), pages: STATEMENTS_A_DATE },
        expiresAtMs: Number.POSITIVE_INFINITY,
      })),
      held: [
        ...contested.filter(({ date }) => isWanted(date)),
        ...(unseen === undefined ? [] : [{ date: last, reason: unseen }]),
      ],
      empty: new Set(range ? [] : sessions.filter(isEmpty)),
    };
  }

  async open(run: ExportRun, { date, rows: planned }: PlannedDate): Promise<DateExport | NoRows | Waiting> {
    const { source, job, clocks, signal } = this.#opened;
    const { onEvent, state } = run;
    const shape = await source.describe(signal);
    onEvent({ kind: 'date', date, rows: planned, staged: 0, pages: STATEMENTS_A_DATE });
    const sql = new TableSql(job.source, shape.types);
    const countBeyond = async (one: 'version' | 'key') => await countRepeats(this.#opened, sql, date, one);
    const counts = await countTable(this.#opened, sql, date);
    const { rows, ids, trades } = counts;
    if (rows === 0) return { missing: [] };
    const held = clocks.explainHold(date, false);
    if (held !== undefined) return { held };
    const shared = ids < rows ? rows - ids - (await countBeyond('key')) : 0;
    if (shared > mostRepeated(rows)) {
      const examples = await source.rows<ExampleId>(sql.examples(date), { signal });
      const hint =
        'Nothing was published. Give each trade of the table a unique id, or set `source.table` to a view that does.';
      const what = `${shared} of ${rows} rows have the id of another trade, or none`;
      throw repeatedFault(date, what, examples, hint);
    }
    const query = sql.rows(job.drop.sort, date, trades < rows);
    const settings = formatSettings(shape.keepKnown({ ...encodingOf(job.drop.compression), ...SERVER_SETTINGS }));
    const path = state.drop(date);
    let checksum: DropChecksum;
    return {
      stage: { ...standIn(date, job.source.table, counts), countRepeats: countBeyond },
      file: { path, write: async () => checksum, discard: async () => undefined },
      fetch: async () => {
        await source.download(`${query.sorted} ${settings}`, 'Parquet', path, signal);
        // A truncated file has no footer: an interrupted stream, not a bug.
        await readIndependently(path);
        checksum = await readChecksum(source, query.select, listDropColumns(job.source.columns, [], []), { signal });
        onEvent({ kind: 'page', date, window: job.source.table, rows: checksum.rows });
      },
      prove: async () => {
        if (trades !== checksum.rows) throw unsettled(date, trades, checksum.rows);
        return { query: query.sorted, counted: counts };
      },
      explainUnsettled: () => unsettled(date, trades, checksum.rows),
    };
  }

  async findPresent(dates: readonly string[]) {
    const { source, signal } = this.#opened;
    const all = (await this.#readSql()).dates(dates[0] ?? '', dates.at(-1) ?? '', true);
    const found = await source.rows<{ d: string }>(all, { signal });
    return { over: dates.filter((date) => found.some(({ d }) => d === date)), unsure: [] };
  }

  async compare(sealed: Manifest): Promise<readonly string[]> {
    const sql = await this.#readSql();
    const { rows, trades } = await countTable(this.#opened, sql, sealed.date);
    const found = sql.hasId ? trades : rows;
    if (found === sealed.rows) return [];
    return [`the source now has ${found} ${sql.hasId ? 'distinct ids' : 'rows'}, the drop ${sealed.rows} rows`];
  }

  async #readSql(): Promise<TableSql> {
    const { source, job, signal } = this.#opened;
    return new TableSql(job.source, (await source.describe(signal)).types);
  }

  /**
   * Why a date may not be fully loaded, in words; `undefined` when rows of a later date, or of the session's end, show that
   * it is. Rows exported without their time show nothing: then the clocks alone decide.
   */
  async #explainEnd(sql: TableSql, date: string): Promise<string | undefined> {
    const { source, calendar, job, signal } = this.#opened;
    if (!job.source.columns.some(({ name }) => name === 'time')) return undefined;
    const [later] = await source.rows<{ n: number }>(sql.later(date), { signal });
    if (Number(later?.n ?? 0) > 0) return undefined;
    const tail = sql.tail(date, calendar);
    const [end] = await source.rows<{ n: number; late: number; newest: string }>(tail, { signal });
    const rows = Number(end?.n ?? 0);
    const newest = rows === 0 ? undefined : parseSecond(end?.newest ?? '');
    if (showsEnd(date, { newest, tail: rows, late: Number(end?.late ?? 0) }, true, calendar)) return undefined;
    const seen =
      newest === undefined ? 'no rows from its last minutes' : `rows until ${formatSecond(newest)} (exchange time)`;
    return `the table has ${seen}, and no rows of a later date: it may not be completely loaded`;
  }
}

/** The server's rows take the place of a stage. */
function standIn(date: string, table: string, counts: TableCounts): Omit<DateExport['stage'], 'countRepeats'> {
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

function unsettled(date: string, counted: number, streamed: number): Fault {
  return new Fault('DATE_UNSETTLED', `the server had ${counted} rows of ${date}, and ${streamed} a moment later`, {
    hint: 'Rows are still being loaded. Run again later; nothing was published.',
  });
}
