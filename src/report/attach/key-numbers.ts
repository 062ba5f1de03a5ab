/**
 * The day's key numbers as one table: each beside the session before and the mean of the sessions before, with its unit
 * in its own column, because a number without one means nothing to a program.
 */

import type { Change, FlowReport, SymbolExposure } from '../model.ts';
import { KEY_NUMBERS } from '../numbers.ts';
import { type AttachedTable, buildTable, type ColumnKind, KIND_OF, kept, shown } from '../table.ts';

type NumberKind = Extract<ColumnKind, 'dollars' | 'count' | 'fraction' | 'ratio' | 'price'>;

interface NumberRow extends Change {
  readonly name: string;
  readonly unit: NumberKind;
}

export function buildKeyNumberTable(report: FlowReport): AttachedTable {
  const { comparison, drop } = report;
  return buildTable(
    { name: 'key-numbers', title: 'Key numbers', date: drop.date },
    [
      ...KEY_NUMBERS.map(({ key, label, unit }) => {
        const name = unit === 'share' ? `${label} of premium` : label;
        return { name, unit: KIND_OF[unit], ...comparison.changes[key] };
      }),
      ...listOwnNumbers(report),
    ],
    [
      shown('Number', 'name', 'text', (row) => row.name),
      kept('unit', 'text', (row) => row.unit),
      shown(drop.date, 'latest', 'measure', (row) => row.latest),
      shown(comparison.previousDate ?? 'Session before', 'previous', 'measure', (row) => row.previous),
      shown(describeMean(comparison.meanDates.length), 'mean', 'measure', (row) => row.mean),
      kept('previous_date', 'date', () => comparison.previousDate),
      kept('mean_sessions', 'count', () => comparison.meanDates.length),
    ],
  );
}

function describeMean(sessions: number): string {
  return sessions === 0 ? 'Mean' : `Mean of ${sessions} session${sessions === 1 ? '' : 's'}`;
}

/** Numbers that no earlier day's summary has. */
function listOwnNumbers({ headline, exposure, exclusions, volumeAboveOpenInterest }: FlowReport): readonly NumberRow[] {
  const { cancelMessages, cancelledPrints, lateReports, recorded, unmatchedCancels } = exclusions;
  return [
    ofToday('Series where volume is above OI', 'count', volumeAboveOpenInterest.series),
    ofToday('Series that traded', 'count', volumeAboveOpenInterest.ofSeries),
    ofToday('Net GEX per 1 % move', 'dollars', exposure.total.netGex),
    ofToday('Call GEX per 1 % move', 'dollars', exposure.total.callGex),
    ofToday('Put GEX per 1 % move', 'dollars', exposure.total.putGex),
    ofToday('Net delta exposure', 'dollars', exposure.total.netDex),
    ...(exposure.lead === null ? [] : listLevels(exposure.lead)),
    ofToday('Records in the file', 'count', recorded.trades),
    ofToday('Left out: cancel messages', 'count', cancelMessages.trades),
    ofToday('Left out: cancelled prints', 'count', cancelledPrints.trades),
    ofToday('Left out: premium of cancelled prints', 'dollars', cancelledPrints.premium),
    ofToday('Cancel messages without a print', 'count', unmatchedCancels),
    ofToday('Left out: late reports', 'count', lateReports.trades),
    ofToday('Left out: premium of late reports', 'dollars', lateReports.premium),
    ofToday('Left out of premium: trades without one', 'count', headline.unpriced),
    ofToday('Left out of contracts: trades without a size', 'count', headline.unsized),
    ...exclusions.unknownCodes.map(({ column, trades }) => ofToday(`Trades of an unknown ${column}`, 'count', trades)),
  ];
}

function listLevels(lead: SymbolExposure): readonly NumberRow[] {
  const of = (level: string, value: number | null) => ofToday(`${lead.symbol} ${level}`, 'price', value);
  return [
    of('spot', lead.spot),
    of('zero gamma', lead.zeroGamma),
    of('call wall', lead.callWall),
    of('put wall', lead.putWall),
    of('absolute-gamma strike', lead.absoluteGammaStrike),
  ];
}

function ofToday(name: string, unit: NumberKind, latest: number | null): NumberRow {
  return { name, unit, latest, previous: null, mean: null };
}
