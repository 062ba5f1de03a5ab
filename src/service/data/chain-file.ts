/**
 * Loads option chains from files: the exchange's delayed-quote page of one underlying (`.csv`), or one contract per row in
 * the columns of the chain table (`.csv`, `.ndjson`, `.jsonl`); each may be gzipped. The page is as downloaded (Cboe,
 * "Delayed Quotes", quote table): three lines of heading, then one line per strike and expiration, with calls on the left
 * and puts on the right. Invariant: the engine reads the rows; if a file is refused, none of them are in the table.
 */
import { SYMBOL_TAIL } from '../../api-contract/trade.ts';
import { sessionCloseSecond } from '../../calendar/session.ts';
import { formatWallDate, parseWallClock } from '../../calendar/wall-clock.ts';
import { localFile, quoteIdentifier, quoteString } from '../../engine/literal.ts';
import type { LoadTarget, StatementRunner } from '../backend.ts';
import {
  assertCells,
  type CellCheck,
  type InputFile,
  invalidData,
  READ_IN_ORDER,
  readColumns,
  readData,
} from './data-file.ts';
import { CHAIN_COLUMNS, REQUIRED_CHAIN_COLUMNS } from './tables.ts';

/** The page's heading has four lines; read more in case some are empty. */
const HEAD_LINES = 12;

const HINT = `A chain is the exchange's delayed-quote page as downloaded, or one contract a row in the columns ${REQUIRED_CHAIN_COLUMNS.join(', ')}.`;

/**
 * Inserts the contracts of `file`; the target's columns are `CHAIN_COLUMNS`.
 * @throws Fault `DATA_UNREADABLE` or `DATA_INVALID` (kind `usage`)
 */
export async function loadChainFile(file: InputFile, { engine, insertSql }: LoadTarget): Promise<void> {
  await readData(`${file.name}: the chain cannot be read`, HINT, async () => {
    const head = await engine.rows<{ line: string }>(
      `SELECT line FROM ${localFile(file.path, 'LineAsString', 'line String')} LIMIT ${HEAD_LINES} ${READ_IN_ORDER}`,
    );
    const lines = head.map(({ line }) => line);
    const isExchangePage = file.format === 'CSVWithNames' && lines.some(isColumnLine);
    const select = isExchangePage ? await readPage(engine, file, lines) : await readContracts(engine, file);
    await assertChains(engine, file, select);
    await engine.command(insertSql(select));
  });
}

/** Checks a file with one contract per row. @returns SQL of its contracts in the columns of the chain table */
async function readContracts(engine: StatementRunner, file: InputFile): Promise<string> {
  const { path, format } = file;
  await readColumns(file, engine, REQUIRED_CHAIN_COLUMNS, HINT);
  const structure = CHAIN_COLUMNS.map(({ name, type }) => `${quoteIdentifier(name)} ${type}`).join(', ');
  const typed = localFile(path, format, structure);
  // The first line of a CSV file contains the column names.
  const line = `rowNumberInAllBlocks() + ${format === 'CSVWithNames' ? 2 : 1}`;
  const rows = `(SELECT *, ${line} AS file_line FROM ${typed})`;
  await assertCells(engine, file, rows, ROW_CHECKS);
  const asOf = "concat(replaceOne(toString(parseDateTime64BestEffort(as_of, 3, 'UTC')), ' ', 'T'), 'Z')";
  const values: Readonly<Record<string, string>> = { symbol: 'upper(symbol)', as_of: asOf };
  const columns = CHAIN_COLUMNS.map(({ name }) => `${values[name] ?? name} AS ${quoteIdentifier(`page_${name}`)}`);
  return `SELECT ${columns.join(', ')} FROM ${typed}`;
}

/** The engine parses 30 February as 2 March: only text that survives the round trip is a date. */
const dateCheck = (cell: string): CellCheck => [
  cell,
  cell,
  `toString(toDate32OrNull(${cell})) = ${cell}`,
  'a date, YYYY-MM-DD',
];
const amountCheck = (cell: string): CellCheck => [
  cell,
  cell,
  `isFinite(${cell}) AND ${cell} >= 0`,
  'a number, 0 or more',
];
const INSTANT = "isNotNull(parseDateTime64BestEffortOrNull(as_of, 3, 'UTC'))";

const ROW_CHECKS: readonly CellCheck[] = [
  ['symbol', 'symbol', "symbol != ''", 'the symbol of the underlying'],
  dateCheck('date'),
  ['as_of', 'as_of', INSTANT, 'an ISO instant, e.g. 2024-01-07T15:52:00Z'],
  dateCheck('expiration_date'),
  ['put_call', 'put_call', "put_call IN ('CALL', 'PUT')", 'CALL or PUT'],
  ...['spot', 'strike', 'volume', 'open_interest'].map(amountCheck),
];

/**
 * @param select its columns are those of the table, prefixed with `page_`
 * @throws Fault `DATA_INVALID` when there is no chain, or one contradicts itself
 */
async function assertChains(engine: StatementRunner, file: InputFile, select: string): Promise<void> {
  const chains = await engine.rows<{ name: string; spots: number; contracts: number; rows: number }>(
    `SELECT concat('the chain of ', page_symbol, ' on ', page_date, ' as of ', page_as_of) AS name,
       uniqExact(page_spot) AS spots, count() AS rows,
       uniqExact(page_option_symbol, page_expiration_date, page_put_call, page_strike) AS contracts
     FROM (${select}) GROUP BY page_symbol, page_date, page_as_of ORDER BY page_symbol, page_date, page_as_of`,
  );
  if (chains.length === 0) throw invalidData(`${file.name}: there are no contracts; allowed is one or more`, HINT);
  for (const { name, spots, rows, contracts } of chains) {
    if (spots > 1) throw invalidData(`${file.name}: ${name} has ${spots} values of spot; allowed is one`);
    if (contracts < rows) {
      throw invalidData(`${file.name}: ${name} has ${rows} rows for ${contracts} contracts; allowed is one each`);
    }
  }
}

const SIDE = ['Last Sale', 'Net', 'Bid', 'Ask', 'Volume', 'IV', 'Delta', 'Gamma', 'Open Interest'];
const COLUMNS = ['Expiration Date', 'Calls', ...SIDE, 'Strike', 'Puts', ...SIDE];
/** Distance in cells from a call column to the same put column. */
const PUT_SHIFT = SIDE.length + 2;
const STRIKE_CELL = COLUMNS.indexOf('Strike') + 1;

/** Whether a line names the columns of a page. */
const isColumnLine = (line: string) => line.startsWith('Expiration Date,Calls,');

/**
 * Checks a page.
 * @param head the file's first lines
 * @returns SQL of its contracts in the columns of the chain table
 * @throws Fault `DATA_INVALID`, EngineFault
 */
async function readPage(engine: StatementRunner, file: InputFile, head: readonly string[]): Promise<string> {
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
  const index = head.findIndex(isColumnLine);
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
  const [, month, day, year, time = '12:00', half = 'A'] =
    /^([A-Z][a-z]{2})[a-z]*\.? (\d{1,2}),? (\d{4})(?:(?:,| at|, at)? (\d{1,2}:\d{2}) ?([AP])\.?M\.?(?: E[SD]?T)?)?\s*$/i.exec(
      text,
    ) ?? [];
  // As if in UTC; of 31 June it makes 1 July.
  const wall = new Date(`${month} ${day}, ${year} ${time} ${half}M UTC`);
  if (Number.isNaN(wall.getTime()) || wall.getUTCDate() !== Number(day)) return undefined;
  const date = wall.toISOString().slice(0, 10);
  const hasTime = /\d:\d/.test(text);
  return parseWallClock(date, hasTime ? (wall.getTime() % 86_400_000) / 1_000 : sessionCloseSecond(date));
}

/** @param shift distance in cells from the call columns to the columns of this side */
function listChecks(letter: 'C' | 'P', shift: number): readonly CellCheck[] {
  const side = letter === 'C' ? 'of the calls' : 'of the puts';
  const text = (name: string) => `cells[${COLUMNS.indexOf(name) + 1 + shift}]`;
  const number = (name: string): CellCheck => {
    const cell = text(name);
    return [`${name} ${side}`, cell, `${cell} = '' OR isFinite(toFloat64OrNull(${cell}))`, 'a number, or nothing'];
  };
  const whole = (name: string): CellCheck => {
    return [`${name} ${side}`, text(name), `toInt32OrNull(${text(name)}) >= 0`, 'a whole number, 0 or more'];
  };
  const contract = isContract(text('Calls'), letter);
  const strike = `cells[${STRIKE_CELL}]`;
  return [
    ['the number of cells', 'length(cells)', `length(cells) = ${COLUMNS.length}`, String(COLUMNS.length)],
    ['Expiration Date', 'cells[1]', 'isNotNull(expiration)', 'a date like Fri Jan 05 2024'],
    [`Symbol ${side}`, text('Calls'), contract, `a contract like SPX240119${letter}04700000`],
    ['Strike', strike, `toFloat64OrNull(${strike}) > 0`, 'a number above 0'],
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
