/** The numbers to reach: what each bench measured of them, gathered into one table that says of each whether it holds. */
import { formatTable, right } from '../../src/cli/terminal/text.ts';

export interface Goal {
  /** What is measured, with the size that it was measured at. */
  readonly what: string;
  /** As it is printed: `<= 1.02`; without one the number is only shown. */
  readonly reach?: string;
  readonly measured: string;
  /** Where there is a number to reach. */
  readonly holds?: boolean;
}

export type NoteGoal = (goal: Goal) => void;

/** A goal that a number stays at or below. @param format of the number measured */
export function atMost(what: string, most: number, found: number, format: (value: number) => string): Goal {
  return { what, reach: `<= ${format(most)}`, measured: format(found), holds: found <= most };
}

export function atLeast(what: string, least: number, found: number, format: (value: number) => string): Goal {
  return { what, reach: `>= ${format(least)}`, measured: format(found), holds: found >= least };
}

export function formatGoals(goals: readonly Goal[]): string {
  const lines = goals.map(({ what, reach, measured, holds }) => [
    what,
    reach ?? 'printed',
    measured,
    holds === undefined ? '' : holds ? 'yes' : 'NO',
  ]);
  return ['Numbers to reach', '', formatTable(['what', right('reach'), right('measured'), 'holds'], lines)].join('\n');
}
