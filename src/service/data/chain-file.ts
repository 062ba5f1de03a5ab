/**
 * Loads option chains from files: the exchange's delayed-quote page (`.csv`), or one contract per row in the columns of
 * the chain table (`.csv`, `.ndjson`, `.jsonl`); each may be gzipped. Invariant: the engine reads the file; if a file
 * is refused, none of its rows are in the table.
 */
import { localFile, quoteIdentifier } from '../../engine/literal.ts';
import type { LoadTarget, StatementRunner } from '../backend.ts';
import { isPage, readPage } from './chain-page.ts';
import { assertCells, type CellCheck, type InputFile, invalidData, READ_IN_ORDER, readData } from './data-file.ts';
import { CHAIN_COLUMNS } from './tables.ts';

/** The page's heading has four lines; read more in case some are empty. */
const HEAD_LINES = 12;

const HINT =
  "A chain is the exchange's delayed-quote page as downloaded, or one contract a row in the columns " +
  `${CHAIN_COLUMNS.filter(({ optional }) => !optional)
    .map(({ name }) => name)
    .join(', ')}.`;

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
    const isExchangePage = file.format === 'CSVWithNames' && isPage(lines);
    const select = isExchangePage ? await readPage(engine, file, lines) : await readContracts(engine, file);
    await assertChains(engine, file, select);
    await engine.command(insertSql(select));
  });
}

/** Checks a file with one contract per row. @returns SQL of its contracts in the columns of the chain table */
async function readContracts(engine: StatementRunner, file: InputFile): Promise<string> {
  const { path, format } = file;
  const described = await engine.rows<{ name: string }>(`DESCRIBE TABLE ${localFile(path, format)}`);
  const present = new Set(described.map(({ name }) => name));
  const missing = CHAIN_COLUMNS.filter(({ name, optional }) => !optional && !present.has(name));
  if (missing.length > 0) {
    const came = [...present].join(', ');
    throw invalidData(`${file.name}: rows lack ${missing.map(({ name }) => name).join(', ')}; they have ${came}`, HINT);
  }
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

const atLeastZero = (cell: string): CellCheck => ({
  cell,
  text: cell,
  condition: `isFinite(${cell}) AND ${cell} >= 0`,
  allowed: 'a number, 0 or more',
});

/** The engine parses 30 February as 2 March: only text that survives the round trip is a date. */
const isDateSql = (cell: string) => `toString(toDate32OrNull(${cell})) = ${cell}`;

const ROW_CHECKS: readonly CellCheck[] = [
  { cell: 'symbol', text: 'symbol', condition: "symbol != ''", allowed: 'the symbol of the underlying' },
  { cell: 'date', text: 'date', condition: isDateSql('date'), allowed: 'a date, YYYY-MM-DD' },
  {
    cell: 'as_of',
    text: 'as_of',
    condition: "isNotNull(parseDateTime64BestEffortOrNull(as_of, 3, 'UTC'))",
    allowed: 'an ISO instant, e.g. 2024-01-07T15:52:00Z',
  },
  {
    cell: 'expiration_date',
    text: 'expiration_date',
    condition: isDateSql('expiration_date'),
    allowed: 'a date, YYYY-MM-DD',
  },
  { cell: 'put_call', text: 'put_call', condition: "put_call IN ('CALL', 'PUT')", allowed: 'CALL or PUT' },
  ...['spot', 'strike', 'volume', 'open_interest'].map(atLeastZero),
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
