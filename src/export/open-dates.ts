/** The one place that asks of which kind the source of a job is. */
import type { OpenedSource } from '../run/open-source.ts';
import type { DateSource } from './date-source.ts';
import { TableDates } from './server-table/table-dates.ts';
import { SnapshotDates } from './snapshots/snapshot-dates.ts';
import { TradeDates } from './trades/trade-dates.ts';

export function openDates(opened: OpenedSource): DateSource {
  switch (opened.kind) {
    case 'sql':
      return new TradeDates(opened);
    case 'snapshots':
      return new SnapshotDates(opened);
    case 'table':
      return new TableDates(opened);
    default:
      return opened satisfies never;
  }
}
