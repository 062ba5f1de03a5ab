/** The full report as its template prints it: what the mail shows, and everything else. Pure. */
import type { FlowReport } from '../model.ts';
import { FIRST_EXPIRATIONS, NEAR_STRIKES } from '../query/exposure-query.ts';
import { LEANING_SYMBOLS, TOP_SYMBOLS } from '../query/sums.ts';
import { EXPIRATIONS, NEAR_MONEY } from '../query/volatility.ts';
import { type Cell, isText, printTable } from '../report-table.ts';
import { listTables } from '../report-tables.ts';
import {
  describeEarnings,
  describeParts,
  describeSession,
  describeSymbols,
  describeVolumeAboveOpenInterest,
} from './captions.ts';
import { listConventions } from './convention.ts';
import { describeBasis, listStructureNotes } from './exposure-text.ts';
import { cleanLine, countOf, nameBucket } from './label.ts';
import { describeGaps } from './lacking.ts';
import { buildFlowView, type ViewOptions } from './mail-view.ts';
import { buildExclusionRows } from './row.ts';

/** A longer table is folded. */
const UNFOLDED_ROWS = 40;

export function buildFullView(report: FlowReport, options: ViewOptions) {
  const { headline, exclusions, rebuildQueries } = report;
  const notes = listNotes(report);
  return {
    ...buildFlowView(report, options),
    tables: listTables(report).map((table) => {
      const { columns, rows, cells } = printTable(table);
      return {
        id: table.name,
        title: table.title,
        note: notes[table.name] ?? '',
        isLong: rows.length > UNFOLDED_ROWS,
        columns: columns.map((column) => ({ head: column.heading ?? '', isText: isText(column) })),
        // The text of each cell, and the value that the table is sorted by.
        rows: rows.map((row, at) => row.map((text, place) => ({ text, value: sortKey(cells[at]?.[place] ?? null) }))),
      };
    }),
    exclusions: buildExclusionRows(headline, exclusions),
    unmatchedCancels: exclusions.unmatchedCancels === 0 ? '' : countOf(exclusions.unmatchedCancels, 'cancel message'),
    gaps: describeGaps(report),
    chainLocation: cleanLine(report.chainLocation ?? ''),
    structureLocation: cleanLine(report.structureLocation ?? ''),
    conventions: listConventions(report),
    queries: rebuildQueries.map(({ table, sql }) => ({ table: cleanLine(table), sql })),
  };
}

/** What a table shows, in a sentence, by its name. */
function listNotes(report: FlowReport): Readonly<Record<string, string>> {
  const { headline, halfHours, topSymbols, symbolCount, expiries, moneyness, volumeAboveOpenInterest, exposure } =
    report;
  const titled = (parts: FlowReport['expiries'] | FlowReport['moneyness']) =>
    parts.map((part) => ({ ...part, title: nameBucket(part.bucket) }));
  return {
    'key-numbers': describeVolumeAboveOpenInterest(volumeAboveOpenInterest, headline.total),
    symbols: `${describeSymbols(topSymbols, symbolCount, headline.total)} Listed: the ${TOP_SYMBOLS} largest, the ${LEANING_SYMBOLS} most bullish and most bearish, and the watchlist.`,
    'half-hours': describeSession(halfHours, headline.total),
    expirations: describeParts(titled(expiries), headline.total),
    moneyness: describeParts(titled(moneyness), headline.total),
    'biggest-trades': 'Single records: an order that was filled in parts is listed part by part.',
    contracts:
      'Open interest is from the morning: if the volume is above it, at least part of the volume opened positions.',
    volatility: `At the money is the strike nearest to the spot, within ${NEAR_MONEY * 100}% of it; the skew is the IV of the put of delta −0.25 less that of the call of delta 0.25; the move is one standard deviation, in dollars. The first ${EXPIRATIONS} expirations. ${describeBasis(exposure.focus, 'IV')}`,
    'gex-by-strike': `The ${NEAR_STRIKES} strikes nearest to the spot. ${describeBasis(exposure.focus)}`,
    'gex-by-expiration': `The share of gamma is what rolls off with the expiration. The first ${FIRST_EXPIRATIONS} expirations; later ones have the rest. ${describeBasis(exposure.focus)}`,
    moved:
      `By the difference between bullish and bearish premium. ${describeEarnings(report.earnings, report.drop.date)}`.trim(),
    'biggest-sweeps': 'Single executions of orders that the exchange marks as intermarket sweeps.',
    'unusual-symbols': 'Premium of this day against the mean of the symbol’s own last sessions.',
    'gex-by-symbol': `GEX in dollars per 1% move, DEX in dollars of the underlying; calls +, puts −. Zero gamma and walls are computed for the watchlist, else for the lead symbol. ${describeBasis([...new Map([...exposure.focus, ...exposure.top].map((row) => [row.symbol, row])).values()])}`,
    'market-structure': listStructureNotes(report.exposure).join(' '),
  };
}

/** Empty for an unknown value, which stands last. */
function sortKey(value: Cell): string {
  return value === null ? '' : String(value);
}
