/**
 * Reads the exchange's delayed-quote page of one underlying, in its download format (Cboe, "Delayed Quotes", quote
 * table): three lines of heading, then one line per strike and expiration, with calls on the left and puts on the
 * right. Invariant: the engine reads the lines; this module parses only the heading.
 */

import { SYMBOL_TAIL } from '../../api-contract/trade.ts';
import { sessionCloseSecond } from '../../calendar/session.ts';
import { formatWallDate, isDate, parseWallClock } from '../../calendar/wall-clock.ts';
import { localFile, quoteIdentifier, quoteString } from '../../engine/literal.ts';
import type { StatementRunner } from '../backend.ts';
import { assertCells, type CellCheck, type InputFile, invalidData, READ_IN_ORDER } from './data-file.ts';
import { CHAIN_COLUMNS } from './tables.ts';

const SIDE = ['Last Sale', 'Net', 'Bid', 'Ask', 'Volume', 'IV', 'Delta', 'Gamma', 'Open Interest'];
const COLUMNS = ['Expiration Date', 'Calls', ...SIDE, 'Strike', 'Puts', ...SIDE];
/** Distance in cells from a call column to the same put column. */
const PUT_SHIFT = SIDE.length + 2;
const STRIKE_CELL = COLUMNS.indexOf('Strike') + 1;

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

/** Whether these first lines belong to a delayed-quote page. */
export function isPage(head: readonly string[]): boolean {
  return head.some((line) => line.startsWith('Expiration Date,Calls,'));
}

/**
 * Checks the page.
 * @param head the file's first lines
 * @returns SQL of its contracts in the columns of the chain table
 * @throws Fault `DATA_INVALID`, EngineFault
 */
export async function readPage(engine: StatementRunner, file: InputFile, head: readonly string[]): Promise<string> {
  const heading = parseHeading(file.name, head);
  const lines = `(
    SELECT rowNumberInAllBlocks() + 1 AS file_line, splitByChar(',', replaceAll(raw, '\\r', '')) AS cells,
      toDate32(parseDateTimeOrNull(substring(cells[1], 5), '%b %d %Y', 'UTC')) AS expiration
    FROM ${localFile(file.path, 'LineAsString', 'raw String')}
  )`;
  const rows = `(SELECT * FROM ${lines} WHERE file_line > ${heading.lines} AND cells != [''])`;
  await assertCells(engine, file, rows, [...listChecks('C', 0), ...listChecks('P', PUT_SHIFT)]);
  const symbol = await readSymbol(engine, file.name, rows);
  const cell = (name: string) => `cells[${COLUMNS.indexOf(name) + 1} + shift]`;
  const number = (name: string) => `toFloat64OrNull(${cell(name)})`;
  const values: Readonly<Record<string, string>> = {
    symbol: quoteString(symbol),
    date: quoteString(formatWallDate(heading.asOfMs)),
    as_of: quoteString(new Date(heading.asOfMs).toISOString()),
    spot: String(heading.spot),
    option_symbol: cell('Calls'),
    expiration_date: 'toString(expiration)',
    put_call: "if(shift = 0, 'CALL', 'PUT')",
    strike: `toFloat64(cells[${STRIKE_CELL}])`,
    bid: number('Bid'),
    ask: number('Ask'),
    // The page shows 0 for a contract that has never traded.
    last: `nullIf(${number('Last Sale')}, 0)`,
    volume: `toInt32(${cell('Volume')})`,
    open_interest: `toInt32(${cell('Open Interest')})`,
    iv: number('IV'),
    delta: number('Delta'),
    gamma: number('Gamma'),
  };
  const columns = CHAIN_COLUMNS.map(({ name }) => `${values[name] ?? 'NULL'} AS ${quoteIdentifier(`page_${name}`)}`);
  // Every line below the heading was checked to contain a contract symbol. Filtering by that symbol drops the heading,
  // even if the engine returns the lines in another order.
  return `SELECT ${columns.join(', ')} FROM ${lines} ARRAY JOIN [0, ${PUT_SHIFT}] AS shift WHERE ${isContract('cells[2]', 'C')}`;
}

/**
 * The price of the underlying, the instant of the page, and the number of lines up to and including the column names.
 * @throws Fault `DATA_INVALID`
 */
function parseHeading(file: string, head: readonly string[]) {
  const index = head.findIndex((line) => line.startsWith('Expiration Date,Calls,'));
  const columns = (head[index] ?? '').trim();
  if (columns !== COLUMNS.join(',')) {
    throw invalidData(`${file}: line ${index + 1}: the columns are ${columns}; allowed is ${COLUMNS.join(',')}`);
  }
  const above = head.slice(0, index).join('\n');
  const last = /\bLast: *([^,\n]*)/.exec(above)?.[1] ?? '';
  const spot = Number(last);
  if (last === '' || !(spot > 0)) {
    throw invalidData(`${file}: the heading has the price "Last: ${last}"; allowed is a number above 0`);
  }
  const date = /\bDate: *([^"\n]*)/.exec(above)?.[1] ?? '';
  const asOfMs = parsePageDate(date);
  if (asOfMs === undefined) {
    throw invalidData(
      `${file}: the heading has "Date: ${date}"; allowed is a date like "January 7, 2024 at 10:52 AM EST" or "January 7 2024, 10:52 AM EST"`,
    );
  }
  return { spot, asOfMs, lines: index + 1 };
}

/**
 * The instant of `January 7, 2024 at 10:52 AM EST`, in exchange time; without a time, that session's close. The exchange
 * has also written `February 5 2022, 8:26 PM EST`.
 */
function parsePageDate(text: string): number | undefined {
  const match =
    /^([A-Z][a-z]{2})[a-z]*\.? (\d{1,2}),? (\d{4})(?:(?:,| at|, at)? (\d{1,2}):(\d{2}) ?([AP])\.?M\.?(?: E[SD]?T)?)?\s*$/i.exec(
      text,
    );
  if (!match) return undefined;
  const [, month = '', day = '', year = '', hour, minute, half] = match;
  const number = MONTHS.indexOf(month.toLowerCase()) + 1;
  const date = `${year}-${String(number).padStart(2, '0')}-${day.padStart(2, '0')}`;
  if (!isDate(date)) return undefined;
  if (hour === undefined) return parseWallClock(date, sessionCloseSecond(date));
  const hours = (Number(hour) % 12) + (half?.toUpperCase() === 'P' ? 12 : 0);
  return parseWallClock(date, hours * 3600 + Number(minute) * 60);
}

/** @param shift distance in cells from the call columns to the columns of this side */
function listChecks(letter: 'C' | 'P', shift: number): readonly CellCheck[] {
  const side = letter === 'C' ? 'of the calls' : 'of the puts';
  const text = (name: string) => `cells[${COLUMNS.indexOf(name) + 1 + shift}]`;
  const number = (name: string): CellCheck => ({
    cell: `${name} ${side}`,
    text: text(name),
    condition: `${text(name)} = '' OR isFinite(toFloat64OrNull(${text(name)}))`,
    allowed: 'a number, or nothing',
  });
  const whole = (name: string): CellCheck => ({
    cell: `${name} ${side}`,
    text: text(name),
    condition: `toInt32OrNull(${text(name)}) >= 0`,
    allowed: 'a whole number, 0 or more',
  });
  return [
    {
      cell: 'the number of cells',
      text: 'length(cells)',
      condition: `length(cells) = ${COLUMNS.length}`,
      allowed: String(COLUMNS.length),
    },
    {
      cell: 'Expiration Date',
      text: 'cells[1]',
      condition: 'isNotNull(expiration)',
      allowed: 'a date like Fri Jan 05 2024',
    },
    {
      cell: `Symbol ${side}`,
      text: text('Calls'),
      condition: isContract(text('Calls'), letter),
      allowed: `a contract like SPX240119${letter}04700000`,
    },
    {
      cell: 'Strike',
      text: `cells[${STRIKE_CELL}]`,
      condition: `toFloat64OrNull(cells[${STRIKE_CELL}]) > 0`,
      allowed: 'a number above 0',
    },
    ...['Last Sale', 'Bid', 'Ask', 'IV', 'Delta', 'Gamma'].map(number),
    ...['Volume', 'Open Interest'].map(whole),
  ];
}

/** SQL condition: the text is the contract symbol of a call or of a put. */
function isContract(text: string, letter: 'C' | 'P'): string {
  return `match(${text}, '^[A-Z0-9.]{1,6}[0-9]{6}${letter}[0-9]{8}$')`;
}

/**
 * Finds the underlying's symbol, which the page shows only as a name. It is the root with which all contract roots
 * begin.
 */
async function readSymbol(engine: StatementRunner, file: string, rows: string): Promise<string> {
  const [found] = await engine.rows<{ roots: readonly string[] }>(
    `SELECT arraySort(groupUniqArray(substring(cells[2], 1, length(cells[2]) - ${SYMBOL_TAIL}))) AS roots
     FROM ${rows} ${READ_IN_ORDER}`,
  );
  const roots = found?.roots ?? [];
  const [symbol] = roots.toSorted((a, b) => a.length - b.length);
  if (symbol === undefined) throw invalidData(`${file}: there are no contracts; allowed is one or more`);
  if (roots.every((root) => root.startsWith(symbol))) return symbol;
  throw invalidData(
    `${file}: the contracts have the roots ${roots.join(', ')}; allowed is one root, and others that begin with it`,
  );
}
