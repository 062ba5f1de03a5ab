/** Date ranges of the command line. */
import { type DateRange, isDate } from '../calendar/wall-clock.ts';
import { Fault } from '../core/errors.ts';

/** @throws Fault `DATE_INVALID` */
export function parseRange(from: string, to: string): DateRange {
  assertDate('--from', from);
  assertDate('--to', to);
  if (from <= to) return { from, to };
  throw new Fault('DATE_INVALID', `--from ${from} is after --to ${to}`, {
    kind: 'usage',
    hint: 'Give the earlier date as --from.',
  });
}

/** @throws Fault `DATE_INVALID` */
export function assertDate(option: string, text: string): void {
  if (isDate(text)) return;
  throw new Fault('DATE_INVALID', `${option} is ${JSON.stringify(text)}; allowed is an existing date, YYYY-MM-DD`, {
    kind: 'usage',
    hint: `Write it like ${option} 2026-11-20.`,
  });
}
