/**
 * The operator's override of the calendar: a YAML (or JSON) file of calendar exceptions. Invariant: a file is accepted
 * whole or refused with every fault it has, each with file, line, the value found and the values allowed. An entry that
 * repeats the rules is accepted: the file may be older than this release.
 *
 *     closed: [2027-01-15]        # no session
 *     early_close: [2027-07-02]   # 13:00, 13:15 for index options
 *     open:                       # a full session despite the rules
 *       - 2028-07-03
 */
import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import { Fault } from '../core/errors.ts';
import { findNearest } from '../core/nearest.ts';
import { type CalendarOverride, NO_OVERRIDE } from './session.ts';
import { isDate, weekday } from './wall-clock.ts';

const LISTS = { closed: 'closed', early_close: 'earlyClose', open: 'open' } as const;
type ListName = keyof typeof LISTS;
const LIST_NAMES: readonly string[] = Object.keys(LISTS);

const WEEKEND: Readonly<Record<number, string>> = { 0: 'Sunday', 6: 'Saturday' };

/** @param file for messages @throws Fault `CALENDAR_INVALID` (usage) whose message lists every fault, one per line */
export function parseCalendarOverride(file: string, text: string): CalendarOverride {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true });
  const faults = document.errors.map(({ pos, message }) => `${file}:${lines.linePos(pos[0]).line}: ${message}`);
  const lineOf = (node: unknown) => lines.linePos((node as Node | null)?.range?.[0] ?? 0).line;
  const note = (node: unknown, message: string) => faults.push(`${file}:${lineOf(node)}: ${message}`);
  const dates = { closed: new Set<string>(), earlyClose: new Set<string>(), open: new Set<string>() };
  /** First place of each date in the file. */
  const seen = new Map<string, { readonly list: string; readonly line: number }>();

  const readDate = (node: unknown, list: ListName) => {
    const value: unknown = isScalar(node) ? node.value : undefined;
    if (typeof value !== 'string' || !isDate(value)) {
      note(node, `${list}: got ${show(node)}; it must be an existing date, YYYY-MM-DD`);
      return;
    }
    const first = seen.get(value);
    const day = WEEKEND[weekday(value)];
    if (first) note(node, `${list}: ${value} is in ${first.list} too (line ${first.line}); a date is in one list only`);
    else if (day) note(node, `${list}: ${value} is a ${day}, which never has a session; allowed are weekdays`);
    seen.set(value, first ?? { list, line: lineOf(node) });
    dates[LISTS[list]].add(value);
  };

  const { contents } = document;
  if (faults.length === 0 && contents !== null && !isEmpty(contents)) {
    if (!isMap(contents)) note(contents, `got ${show(contents)}; it must be a section of ${LIST_NAMES.join(', ')}`);
    else {
      for (const { key, value } of contents.items) {
        const name = String(isScalar(key) ? key.value : key);
        if (!isListName(name)) {
          const near = findNearest(name, LIST_NAMES);
          note(
            key,
            `unknown key "${name}"${near ? ` (did you mean "${near}"?)` : ''}; allowed: ${LIST_NAMES.join(', ')}`,
          );
        } else if (isSeq(value)) for (const item of value.items) readDate(item, name);
        else if (!isEmpty(value)) note(value ?? key, `${name}: got ${show(value)}; it must be a list of dates`);
      }
    }
  }
  if (faults.length === 0) return seen.size === 0 ? NO_OVERRIDE : dates;
  throw new Fault('CALENDAR_INVALID', faults.join('\n'), {
    kind: 'usage',
    hint: 'Correct the file that FLOWDROP_CALENDAR_FILE names, or unset it to use the rules of the exchange.',
  });
}

function isListName(name: string): name is ListName {
  return name in LISTS;
}

/** A key without a value, or a file with only comments. */
function isEmpty(node: unknown): boolean {
  return node === null || node === undefined || (isScalar(node) && node.value === null);
}

function show(node: unknown): string {
  if (isScalar(node)) return JSON.stringify(node.value);
  if (isMap(node)) return 'a section';
  return isSeq(node) ? 'a list' : String(node);
}
