/** A range of dates, both ends included: what a command was given. Pure. */
export interface DateRange {
  readonly from: string;
  readonly to: string;
}

export function isInRange(date: string, range: DateRange | undefined): boolean {
  return range === undefined || (date >= range.from && date <= range.to);
}
