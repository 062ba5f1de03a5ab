/** A date range given to a command, both ends included. Pure. */
export interface DateRange {
  readonly from: string;
  readonly to: string;
}

export function isInRange(date: string, range: DateRange | undefined): boolean {
  return range === undefined || (date >= range.from && date <= range.to);
}
