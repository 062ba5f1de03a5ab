/** The full report as its template prints it: what the mail shows, and everything else. Pure. */
import type { FlowReport } from '../model.ts';
import { type Cell, isText, printTable } from '../report-table.ts';
import { listTables } from '../report-tables.ts';
import { describeParts, describeSession, describeSymbols, describeVolumeAboveOpenInterest } from './captions.ts';
import { listConventions } from './convention.ts';
import { describeBasis, listStructureNotes } from './exposure-text.ts';
import { cleanLine, countOf } from './label.ts';
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
    conventions: listConventions(report),
    queries: rebuildQueries.map(({ table, sql }) => ({ table: cleanLine(table), sql })),
  };
}

/** What a table shows, in a sentence, by its name. */
function listNotes(report: FlowReport): Readonly<Record<string, string>> {
  const { headline, halfHours, topSymbols, symbolCount, expiries, moneyness, volumeAboveOpenInterest, exposure } =
    report;
  const titled = (parts: FlowReport['expiries'] | FlowReport['moneyness']) =>
    parts.map((part) => ({ ...part, title: part.bucket }));
  return {
    'key-numbers': describeVolumeAboveOpenInterest(volumeAboveOpenInterest, headline.total),
    symbols: describeSymbols(topSymbols, symbolCount, headline.total),
    'half-hours': describeSession(halfHours, headline.total),
    expirations: describeParts(titled(expiries), headline.total),
    moneyness: describeParts(titled(moneyness), headline.total),
    contracts: 'The open interest is that of the morning: a volume above it opened positions.',
    volatility:
      'Of the strike nearest to the spot; the skew is the put’s of delta −0.25 less the call’s of delta 0.25; the move is one standard deviation, in dollars.',
    'gex-by-expiration': 'The share of gamma is what rolls off with the expiration.',
    moved: 'By the difference of bullish and bearish premium.',
    'unusual-symbols': 'Premium of this day against the mean of the symbol’s own last sessions.',
    'gex-by-symbol': `GEX in dollars per 1% move, DEX in dollars of the underlying; calls +, puts −. ${describeBasis([...new Map([...exposure.focus, ...exposure.top].map((row) => [row.symbol, row])).values()])}`,
    'market-structure': listStructureNotes(report.exposure).join(' '),
  };
}

/** Empty for an unknown value, which stands last. */
function sortKey(value: Cell): string {
  return value === null ? '' : String(value);
}
