/**
 * The flow report as data: the engine computes every number of the mail from one sealed file and the summaries of the
 * sessions before it. Invariants: the model is plain JSON; rows never reach JavaScript, only bounded results do; a file
 * whose row count differs from the sealed one gives no report. `text/`, `draw/` and the templates define how it looks.
 */
import { type Families, KNOWN_FAMILIES, membersOf } from '../api-contract/family.ts';
import {
  type CalendarOverride,
  listCompared,
  nameHalfDay,
  previousSessions,
  shareOfHours,
} from '../calendar/session.ts';
import { addDays } from '../calendar/wall-clock.ts';
import { Fault } from '../core/errors.ts';
import { sideBySide } from '../core/side-by-side.ts';
import type { Engine } from '../engine/engine.ts';
import { assertColumns, keepRecords, openDropFile, queryRenamed } from './drop-source.ts';
import type { Drivers, FlowReport, LeftOutTrade, Mover, SealedDrop } from './model.ts';
import { queryBesides, queryExclusions, querySharedIds, queryUnknownCodes } from './query/exclusions.ts';
import { NO_EXPOSURE, queryExposure, withStates } from './query/exposure.ts';
import { listOpenings, queryOpened } from './query/opened.ts';
import { buildComparison, COMPARED_SESSIONS, type PastSession, queryHistory } from './query/past-sessions.ts';
import { buildRebuildQueries } from './query/rebuild.ts';
import { querySums } from './query/sums.ts';
import { queryBiggestTrades, queryContracts, queryDrivers, queryEarnings } from './query/trades.ts';
import { queryWeek, type WeekFile } from './query/week.ts';
import { buildReportHours, hasWholeSymbols, IS_SWEEP, nameKnown, writeColumns } from './records.ts';

/** More symbols would push the mail over the size at which Gmail clips it; the mail says how many are left out. */
const MAX_WATCHLIST = 25;

export interface FlowOptions {
  /** Symbols of the watchlist table, in the order shown; empty: none. The totals always cover the whole market. */
  readonly symbols: readonly string[];
  /** Symbols that are shown as one. Default: those that are known. */
  readonly families?: Families | undefined;
  readonly now: Date;
  /** Name of the job, for the reader. */
  readonly job: string;
  readonly calendar?: CalendarOverride | undefined;
  readonly signal?: AbortSignal | undefined;
  /**
   * Local files of the summaries of sealed dates before this date, newest first. It is compared with the first five of
   * `listCompared`; what traded in the night before it is in those since the session before.
   */
  readonly before: readonly PastSession[];
  /** Sessions before the date that the ledger knows: those that cannot be compared are named. Default: none. */
  readonly known?: readonly string[] | undefined;
  /** The market-structure drop of this date: its local file and its store URL; null if none is sealed. */
  readonly marketStructure: { readonly path: string; readonly location: string } | null;
  /** The chain drop of this date: its local file, its store URL, and whether it may lack contracts; null if none is sealed. */
  readonly chain?:
    | { readonly path: string; readonly location: string; readonly isDegraded?: boolean }
    | null
    | undefined;
  /** Of a report of a week: the known days of it and of the weeks before, ascending. */
  readonly week?: readonly WeekFile[] | undefined;
}

/**
 * Computes the report of one sealed drop.
 * @throws Fault `REPORT_COLUMNS_MISSING`, `REPORT_DROP_DIFFERS` (the file is not the sealed one); EngineFault
 */
export async function buildFlowReport(
  engine: Pick<Engine, 'rows' | 'command'>,
  drop: SealedDrop,
  options: FlowOptions,
): Promise<FlowReport> {
  const families = options.families ?? KNOWN_FAMILIES;
  const wanted = [...new Set(options.symbols.map((symbol) => membersOf(symbol, families)[0]))];
  const focus = wanted.slice(0, MAX_WATCHLIST);
  const { signal } = options;
  const file = openDropFile(engine, drop.path, { signal });
  const columns = await assertColumns(file, drop);
  const { exclusions: left, condition, leftOut, hasGaps, hasUnknownCodes } = await queryExclusions(file);
  assertSealedRows(drop, left.recorded.trades);
  const { date } = drop;
  const { calendar } = options;
  const hours = buildReportHours(drop, calendar);
  const renamed = await queryRenamed(file, families);
  const merged = renamed.length === 0 ? null : families;
  const kept = writeColumns(hasGaps, merged);
  const source = keepRecords(file, [condition, hours], kept);
  const { otherHours, besides } = await queryBesides(
    keepRecords(file, [condition, hours && `NOT ${hours}`], writeColumns(true, null)),
    { date, calendar, isWhole: hours === null },
    options.before,
  );
  const exclusions = {
    ...{ ...left, otherHours },
    unknownCodes: hasUnknownCodes ? await queryUnknownCodes(source) : [],
    sharedIds: drop.ids === undefined ? undefined : await querySharedIds(file, source),
  };
  const beside = keepRecords(openDropFile(engine, drop.path, { signal, beside: true }), [condition, hours], kept);
  const chain = options.chain ?? null;
  const isWhole = hasWholeSymbols(drop.filter);
  const compared = listCompared(
    date,
    options.before.map((past) => past.date),
    calendar,
  );
  const [last] = previousSessions(addDays(date, -1), 1, calendar);
  // After other sessions, open interest has other trades too.
  const { contracts = [] } = options.before.find((past) => past.date === last) ?? {};
  const openings = listOpenings(isWhole ? contracts : [], date);
  const measureSeries = async () => ({
    ...(await queryContracts(beside)),
    ...(isWhole
      ? await queryExposure(beside, {
          ...{ date, families },
          focus,
          chain,
          marketStructure: options.marketStructure?.path ?? null,
        })
      : { exposure: NO_EXPOSURE, volatility: [] }),
    opened: await queryOpened(beside, openings),
  });
  const queryTrades = async () => {
    const past = options.before
      .filter((one) => compared.includes(one.date))
      .slice(0, COMPARED_SESSIONS)
      .map((one) => ({ ...one, share: shareOfHours(date, one.date, calendar) }));
    const history = await queryHistory(file, past, families);
    const { symbols, ...sums } = await querySums(source, focus, history, hasGaps);
    const drivers = await queryDrivers(source);
    return {
      ...{ history, symbols },
      tables: {
        ...sums,
        drivers,
        earnings: await queryEarnings(source, columns, listMovers(drivers, sums.movers)),
        biggestTrades: await queryBiggestTrades(source, hasGaps),
        biggestSweeps: await queryBiggestTrades(source, hasGaps, { isChosen: IS_SWEEP }),
        biggestLeftOut: leftOut
          ? await queryBiggestTrades<LeftOutTrade>({ ...file, table: nameKnown(leftOut, merged) }, true, {
              also: ', record',
            })
          : [],
      },
    };
  };
  const [{ history, symbols, tables }, measured] = await sideBySide(
    queryTrades(),
    withStates(beside, date, measureSeries),
  );
  const week = options.week && (await queryWeek(engine, options.week, { date, families, calendar, signal }));
  const { exposure } = measured;
  const { path: _, ids: __, ...shownDrop } = drop;
  const chainLocation = chain?.location ?? null;
  const isCompared = exposure.focus.some(({ marketStructure }) => marketStructure !== null);
  const structureLocation = isCompared ? (options.marketStructure?.location ?? null) : null;
  return {
    kind: 'flow',
    job: options.job,
    createdAt: options.now.toISOString(),
    drop: { ...shownDrop, doubts: drop.doubts?.length ? drop.doubts : undefined },
    halfDay: nameHalfDay(date, calendar),
    exclusions,
    besides,
    comparison: buildComparison(
      tables.headline,
      measured.volumeAboveOpenInterest.premium,
      history,
      listCompared(date, options.known ?? [], calendar),
      measured,
    ),
    ...tables,
    ...measured,
    week,
    watchlist: focus.map((symbol) => ({
      symbol,
      members: listMembers(symbol, [...options.symbols, ...renamed], families),
      flow: symbols.get(symbol)?.flow ?? null,
      exposure: exposure.focus.find((candidate) => candidate.symbol === symbol) ?? null,
      unusual: symbols.get(symbol)?.unusual ?? null,
    })),
    watchlistLeftOut: wanted.length - focus.length,
    chainLocation,
    structureLocation,
    rebuildQueries: buildRebuildQueries(drop.location, {
      ...{ date, hours, exclusions, hasGaps, merged, families },
      chain: chainLocation,
      structure: structureLocation,
      past: history.sessions,
      exposure: isWhole ? { date, families, openings, focus: exposure.focus.map(({ symbol }) => symbol) } : null,
      hasEarnings: columns.has('earning_date'),
    }),
  };
}

/** The other symbols of a watched one; absent where its reader and the file name only this one. */
function listMembers(symbol: string, named: readonly string[], families: Families): readonly string[] | undefined {
  const others = membersOf(symbol, families).slice(1);
  return others.some((other) => named.includes(other)) ? others : undefined;
}

/** The symbols of what moved the day. */
function listMovers({ top, bullish, bearish }: Drivers, movers: readonly Mover[]): readonly string[] {
  const moved = [...top, bullish, bearish, ...movers].filter((row) => row !== null);
  return [...new Set(moved.map(({ symbol }) => symbol))];
}

function assertSealedRows(drop: SealedDrop, rows: number): void {
  if (rows === drop.rows) return;
  throw new Fault(
    'REPORT_DROP_DIFFERS',
    `${drop.dataset} ${drop.date} revision ${drop.revision} was sealed with ${drop.rows} rows, the file has ${rows}`,
    { hint: 'Run `flowdrop verify` for this date; seal it again if the object was changed.' },
  );
}
