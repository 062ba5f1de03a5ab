/**
 * Reads the answer to a probe, one row of arrays, as counts by cell. Pure. Invariant: an answer with any malformed or
 * impossible member is refused, because plans loop over as many rows as the counts say.
 */
import { isDate } from '../../calendar/wall-clock.ts';
import { Fault } from '../../core/errors.ts';
import { formatCount } from '../../core/units.ts';
import { isUpdateMark } from '../../engine/update-mark.ts';
import { keyOf, readCell } from '../../plan/axis.ts';
import {
  type CellCount,
  type DayCounts,
  MAX_CELL_SECOND,
  MAX_DATE_ROWS,
  readCount,
  sumCounts,
} from '../../plan/counts.ts';
import type { ProbeSpan } from '../../plan/statement.ts';
import type { Page } from '../../source/source.ts';

/** Tries in all, when an answer is valid JSON but not the answer to a probe. */
export const MAX_ODD_ANSWERS = 3;

/**
 * @param prefix of the names of the lists, where an answer has two counts
 * @throws Fault `ANSWER_MALFORMED`, `TIME_UNREADABLE`
 */
export function readCounts(page: Page, span: ProbeSpan, prefix = ''): ReadonlyMap<string, CellCount[]> {
  const row = page.firstRow;
  const listOf = (name: string) => row?.[prefix + name];
  const [dates, cells, counts, ids, marks] = ['dates', 'cells', 'counts', 'ids', 'marks'].map(listOf);
  const shapeless = () => malformed(span, `unexpected form: ${String(JSON.stringify(row)).slice(0, 200)}`);
  const days = readTexts(dates);
  if (!days || ![cells, counts, ids, marks].every(Array.isArray)) throw shapeless();
  assertReadable(listOf('unreadable'), span);
  const [idHashes, valueHashes] = [listOf('id_hashes'), listOf('value_hashes')];
  if (span.hashed && !Array.isArray(idHashes)) throw shapeless();
  if (span.hashed && span.hashed.length > 0 && !Array.isArray(valueHashes)) throw shapeless();
  const found = days.map((date, at): [string, CellCount[]] => {
    const of = (lists: unknown) => (lists as readonly unknown[])[at]; // Arrays, as was just seen.
    const [c, n, u, m] = [readTexts(of(cells)), of(counts), of(ids), readTexts(of(marks))];
    const [i, v] = [idHashes, valueHashes].map((lists) => (Array.isArray(lists) ? readHashes(of(lists)) : []));
    if (!isDate(date) || !c || !Array.isArray(n) || !Array.isArray(u) || !m?.every(isUpdateMark)) throw shapeless();
    const lists = [n, u, m, ...(idHashes ? [i] : []), ...(valueHashes ? [v] : [])];
    if (!i || !v || lists.some((list) => list?.length !== c.length)) throw shapeless();
    const day = c.map((cell, place): CellCount => {
      const [rows, distinct] = [readCount(n[place]), readCount(u[place])];
      if (rows === undefined || distinct === undefined || distinct > rows) {
        const came = `${JSON.stringify(n[place])} rows with ${JSON.stringify(u[place])} ids in cell ${cell} of ${date}`;
        throw malformed(span, `${came}; allowed are whole numbers from 0 to ${formatCount(MAX_DATE_ROWS)}`);
      }
      const values = { rows, ids: distinct, mark: m[place] ?? '', idHash: i[place], valueHash: v[place] };
      return { ...readCell(span.axis, cell, span.from), ...values };
    });
    assertPlausible(date, day, span);
    return [date, day];
  });
  return new Map(found);
}

/** Each cell comes once, and the rows are no more than a date can have. */
function assertPlausible(date: string, day: DayCounts, span: ProbeSpan): void {
  const odd = day.find(({ second }) => !Number.isInteger(second) || Math.abs(second) > MAX_CELL_SECOND);
  if (odd) throw malformed(span, `the cell ${odd.second} of ${date} is not a second of a day`);
  const { rows } = sumCounts(day);
  if (rows > MAX_DATE_ROWS)
    throw malformed(span, `${formatCount(rows)} rows on ${date}; ${formatCount(MAX_DATE_ROWS)} at most`);
  const cells = new Set(day.map(keyOf));
  if (cells.size < day.length) throw malformed(span, `a cell of ${date} was sent twice`);
}

function malformed({ fromDate, toDate }: ProbeSpan, what: string): Fault {
  const when = fromDate === toDate ? fromDate : `${fromDate} to ${toDate}`;
  return new Fault('ANSWER_MALFORMED', `the API sent no valid count of ${when}: ${what}`, {
    hint: `flowdrop asked ${MAX_ODD_ANSWERS} times. Run again later; if the problem persists, tell the provider.`,
  });
}

/** Rows without a second fit no window: as text, 09:30 sorts before 09:30:00, but is counted in that second. */
function assertReadable(time: unknown, { fromDate, toDate }: ProbeSpan): void {
  if (typeof time !== 'string' || time === '') return;
  const when = fromDate === toDate ? fromDate : `${fromDate} to ${toDate}`;
  throw new Fault(
    'TIME_UNREADABLE',
    `at least half of the rows of ${when} have a time like ${time}, which is not YYYY-MM-DD HH:MM:SS`,
    {
      hint: 'Windows need the second, so nothing was fetched. In your own SQL, return `time` unchanged; otherwise tell the provider, whose contract promises that form.',
    },
  );
}

function readTexts(value: unknown): string[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const fits = value.every((item) => typeof item === 'string' || typeof item === 'number');
  return fits ? value.map(String) : undefined;
}

/** 64-bit sums: JavaScript numbers would round them. */
function readHashes(value: unknown): string[] | undefined {
  if (!Array.isArray(value)) return undefined;
  return value.every((item) => typeof item === 'string' && /^\d{1,20}$/.test(item)) ? value : undefined;
}
