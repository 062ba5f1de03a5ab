/**
 * The operator's override of the calendar: a YAML (or JSON) file of calendar exceptions. Invariant: a file is accepted
 * whole or refused with all its faults (`checked-yaml.ts`). An entry that repeats the rules is accepted: the file may be
 * older than this release.
 *
 *     closed: [2027-01-15]        # no session
 *     early_close: [2027-07-02]   # 13:00, 13:15 for index options
 *     open:                       # a full session despite the rules
 *       - 2028-07-03
 */
import { z } from 'zod';
import { parseYaml } from '../core/checked-yaml.ts';
import { Fault } from '../core/errors.ts';
import type { CalendarOverride } from './session.ts';
import { isDate, weekday } from './wall-clock.ts';

const WEEKEND: Readonly<Record<number, string>> = { 0: 'Sunday', 6: 'Saturday' };

/** One for each file: a date is in one list only. */
function createSchema() {
  const listOf = new Map<string, string>();
  const datesOf = (list: string) => {
    const date = z.unknown().transform((value, { addIssue }) => {
      const refuse = (message: string) => void addIssue({ code: 'custom', message });
      if (typeof value !== 'string' || !isDate(value)) {
        refuse('it must be an existing date, YYYY-MM-DD');
        return '';
      }
      const day = WEEKEND[weekday(value)];
      if (listOf.has(value)) refuse(`it is in ${listOf.get(value)} too; a date is in one list only`);
      else if (day) refuse(`it is a ${day}, which never has a session; allowed are weekdays`);
      listOf.set(value, list);
      return value;
    });
    return z.array(date).nullish();
  };
  return z
    .strictObject({ closed: datesOf('closed'), early_close: datesOf('early_close'), open: datesOf('open') })
    .nullable();
}

/** @param file for messages @throws Fault `CALENDAR_INVALID` (usage) whose message lists every fault, one per line */
export function parseCalendarOverride(file: string, text: string): CalendarOverride {
  const written = parseYaml(file, text, createSchema(), (faults) => {
    return new Fault('CALENDAR_INVALID', faults.join('\n'), {
      kind: 'usage',
      hint: 'Correct the file that FLOWDROP_CALENDAR_FILE names, or unset it to use the rules of the exchange.',
    });
  });
  const { closed, early_close, open } = written ?? {};
  return { closed: new Set(closed), earlyClose: new Set(early_close), open: new Set(open) };
}
